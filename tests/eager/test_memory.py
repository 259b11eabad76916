"""Memory: `out=`, resizing, other strides and dtypes of the same bytes, storages, in-place functions, settings."""

import warnings

import numpy as np
import pytest

import jitgrad as jg


def test_out_is_written_and_returned():
    x, out = jg.tensor([1.0, 4.0]), jg.zeros(2)
    assert jg.sqrt(x, out=out) is out and out.tolist() == [1, 2]
    values, places = jg.zeros(0), jg.zeros(0, dtype=jg.int64)
    found = jg.sort(x, descending=True, out=(values, places))
    assert found.values is values and places.tolist() == [1, 0]


def test_out_of_another_shape_is_resized():
    x = jg.tensor([1.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jg.add(x, x, out=jg.zeros(0)).tolist() == [2, 8]
    with pytest.warns(UserWarning, match=r"resized since it had shape \[3\]"):
        assert jg.add(x, x, out=jg.zeros(3)).tolist() == [2, 8]


def test_out_of_another_dtype_is_converted_or_refused():
    x = jg.tensor([1.5, 4.0])
    assert jg.add(x, x, out=jg.zeros(2, dtype=jg.float64)).dtype is jg.float64
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type int64"):
        jg.add(x, x, out=jg.zeros(2, dtype=jg.int64))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float32, but got float64"):
        jg.gather(x, 0, jg.tensor([0]), out=jg.zeros(1, dtype=jg.float64))


def test_out_takes_no_part_in_gradients():
    x = jg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        jg.add(x, 1, out=jg.zeros(2))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        jg.add(x.detach(), 1, out=jg.zeros(2, requires_grad=True))
    with jg.no_grad():
        assert jg.add(x, 1, out=jg.zeros(2)).tolist() == [2, 2]


def test_out_in_compiled_functions():
    @jg.compile
    def f(x, out):
        jg.mul(x, 2, out=out)
        return out + 1

    for _ in range(3):
        out = jg.zeros(2)
        assert f(jg.ones(2), out).tolist() == [3, 3] and out.tolist() == [2, 2]


def test_out_that_shows_an_element_twice_is_refused():
    with pytest.raises(RuntimeError, match="more than one element"):
        jg.add(jg.ones(3), 1, out=jg.zeros(1).expand(3))


def test_resize():
    x = jg.arange(6.0)
    alias = x[:2]
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    alias[0] = 7
    assert x[0, 0] == 7  # the memory it has was enough
    assert x.resize_(5)[:4].tolist() == [7, 1, 2, 3]
    assert jg.zeros(1).resize_as_(jg.zeros(2, 3)).shape == (2, 3)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        jg.ones(2, requires_grad=True).resize_(3)


def test_set():
    source = jg.arange(4.0)
    x = jg.zeros(1).set_(source, 1, (2,), (2,))
    source[3] = 9
    assert x.tolist() == [1, 9]
    assert jg.zeros(3).set_().shape == (0,)
    with pytest.raises(RuntimeError, match="set_"):
        jg.zeros(1).set_(jg.arange(2))


def test_the_same_bits_as_another_dtype():
    x = jg.tensor([1.0, -2.0])
    bits = x.view(jg.int32)
    assert bits.tolist() == np.array([1.0, -2.0], np.float32).view(np.int32).tolist()
    bits[0] = 0
    assert x.tolist() == [0, -2]
    assert jg.zeros(2, 4).view(jg.float64).shape == (2, 2)
    with pytest.raises(RuntimeError, match="must be divisible by 2"):
        jg.zeros(3).view(jg.float64)
    f = jg.compile(lambda t: t.view(jg.int32) + 1)
    assert f(x).tolist() == f(x).tolist() == (x.view(jg.int32) + 1).tolist()


def test_strides_of_ones_own():
    assert jg.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert jg.zeros(1, dtype=jg.int8).new_empty_strided((2,), (3,)).stride() == (3,)
    turned = jg.arange(6).reshape(2, 3).t()
    assert turned.as_strided((2,), (1,)).tolist() == [0, 1]
    x = jg.arange(4.0)
    x.as_strided_((2, 2), (1, 2))
    assert x.tolist() == [[0, 2], [1, 3]]
    with pytest.raises(RuntimeError, match="Negative strides"):
        jg.zeros(3).as_strided((2,), (-1,))


def test_storages():
    x = jg.zeros(2, 3)
    assert x[1].untyped_storage() == x.storage() != jg.zeros(2, 3).storage()
    assert x.untyped_storage().nbytes() == len(x.storage()) == 24 and jg.is_storage(x.storage())


def test_a_buffers_memory():
    data = bytearray(np.array([1, 2, 3], np.int16).tobytes())
    x = jg.frombuffer(data, dtype=jg.int16, offset=2)
    data[2] = 9
    assert x.tolist() == [9, 3]
    with pytest.raises(ValueError, match="multiple of element size"):
        jg.frombuffer(data, dtype=jg.int32)
    with pytest.raises(ValueError, match="must not be 0"):
        jg.frombuffer(b"", dtype=jg.int8)


def test_views_as_copies():
    x = jg.arange(4)
    copy = jg.view_copy(x, (2, 2))
    copy[0, 0] = 5
    assert x[0] == 0 and [t.tolist() for t in jg.split_copy(x, 2)] == [[0, 1], [2, 3]]
    assert x.narrow_copy(0, 1, 2).tolist() == [1, 2]


def test_in_place_functions():
    x = jg.tensor([-1.0, 2.0])
    assert jg.relu_(x) is x and x.tolist() == [0, 2]


def test_python_functions_of_elements():
    assert jg.tensor([1, 2]).apply_(lambda v: v + 1).tolist() == [2, 3]
    assert jg.tensor([1, 2]).map_(jg.tensor([5]), lambda a, b: a * b).tolist() == [5, 10]
    with pytest.raises(RuntimeError, match="requires grad"):
        jg.ones(1, requires_grad=True).detach().requires_grad_().apply_(abs)


def test_settings():
    count = jg.get_num_threads()
    jg.set_num_threads(1)
    assert jg.get_num_threads() == 1
    jg.set_num_threads(count)
    jg.set_deterministic_debug_mode("warn")
    assert jg.are_deterministic_algorithms_enabled() and jg.get_deterministic_debug_mode() == 1
    jg.use_deterministic_algorithms(False)
    assert jg.get_float32_matmul_precision() == "highest" and jg.set_flush_denormal(True) is False
    with pytest.raises(RuntimeError, match="positive integer"):
        jg.set_num_threads(0)
    jg.set_default_tensor_type("jitgrad.DoubleTensor")
    assert jg.tensor(1.0).dtype is jg.float64
    jg.set_default_tensor_type("jitgrad.FloatTensor")
