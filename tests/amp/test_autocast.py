"""Autocast: which types come out, gradients, nesting, the kept casts, and compiled functions in and around it."""

import threading
import warnings

import numpy as np
import pytest

import jitgrad as jg

F = jg.nn.functional


def matrix(*shape):
    return jg.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def test_products_run_in_the_half_type_and_sums_do_not():
    x = matrix(3, 3)
    with jg.autocast("cpu"):
        assert (x @ x).dtype is x.matmul(x).dtype is jg.mm(x, x).dtype is jg.bfloat16
        assert (x + x).dtype is jg.float32
        assert jg.addmm(x, x, x).dtype is jg.bfloat16
        assert F.mse_loss(x.bfloat16(), x).dtype is jg.float32
        assert jg.cat([x, x.bfloat16()]).dtype is jg.float32
        assert (x.double() @ x.double()).dtype is jg.float64
        with pytest.raises(RuntimeError, match=r"cat: Unexpected floating ScalarType float16"):
            jg.cat([x.half(), x])
    assert (x @ x).dtype is jg.float32


def test_in_place_and_out_forms_are_left_alone():
    x = matrix(3, 3)
    with jg.autocast("cpu"):
        y = x.clone().addmm_(x, x)
        out = jg.empty(3, 3)
        jg.mm(x, x, out=out)
    np.testing.assert_array_equal(out.numpy(), (x @ x).numpy())
    np.testing.assert_array_equal(y.numpy(), jg.addmm(x, x, x).numpy())


def test_values_are_those_of_the_casts():
    x, w = matrix(4, 5), matrix(6, 5)
    with jg.autocast("cpu", dtype=jg.float16):
        got = F.linear(x, w)
    assert got.dtype is jg.float16
    np.testing.assert_array_equal(got.numpy(), F.linear(x.half(), w.half()).numpy())


def test_blocks_nest_and_end_with_an_exception():
    x = matrix(2, 2)
    with pytest.raises(ZeroDivisionError), jg.autocast("cpu"):
        with jg.autocast("cpu", enabled=False):
            assert (x @ x).dtype is jg.float32
            with jg.autocast("cpu", dtype=jg.float16):
                assert jg.is_autocast_enabled("cpu") and jg.get_autocast_dtype("cpu") is jg.float16
                assert (x @ x).dtype is jg.float16
        assert (x @ x).dtype is jg.bfloat16
        raise ZeroDivisionError
    assert not jg.is_autocast_enabled("cpu")
    assert jg.get_autocast_dtype("cpu") is jg.bfloat16


def test_decorates_methods_and_is_entered_again():
    class Model(jg.nn.Module):
        @jg.autocast("cpu")
        def forward(self, x, deep=True):
            return self(x, False) if deep else x @ x

    assert Model()(matrix(2, 2)).dtype is jg.bfloat16


def test_switches_without_a_block():
    jg.set_autocast_enabled("cpu", True)
    try:
        assert (matrix(2, 2) @ matrix(2, 2)).dtype is jg.bfloat16
        jg.set_autocast_dtype("cpu", jg.float16)
        assert (matrix(2, 2) @ matrix(2, 2)).dtype is jg.float16
    finally:
        jg.set_autocast_enabled("cpu", False)
        jg.set_autocast_dtype("cpu", jg.bfloat16)


def test_other_threads_are_not_concerned():
    found = []
    with jg.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((matrix(2, 2) @ matrix(2, 2)).dtype))
        thread.start()
        thread.join()
    assert found == [jg.float32]


def test_gradients_come_in_the_parameter_type():
    layer = jg.nn.Linear(5, 3)
    with jg.autocast("cpu"):
        loss = F.cross_entropy(layer(matrix(4, 5)), jg.tensor([0, 1, 2, 0]))
    loss.backward()
    assert layer.weight.grad.dtype is layer.bias.grad.dtype is jg.float32
    plain = jg.autograd.grad(F.cross_entropy(layer(matrix(4, 5)), jg.tensor([0, 1, 2, 0])), layer.weight)[0]
    np.testing.assert_allclose(layer.weight.grad.numpy(), plain.numpy(), atol=0.02)  # bfloat16 has 8 bits


def test_parameters_are_cast_once_unless_written_or_recording_changes():
    w = matrix(3, 3).requires_grad_()
    with jg.autocast("cpu"):
        with jg.no_grad():
            assert not jg.mm(w, w).requires_grad
        first, second = jg.mm(w, w), jg.mm(w, w)
        assert first.requires_grad
        assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]
        with jg.no_grad():
            w.mul_(2)
        np.testing.assert_allclose(jg.mm(w, w).float().detach().numpy(), 4 * first.float().detach().numpy())
    with jg.autocast("cpu", cache_enabled=False):
        first, second = jg.mm(w, w), jg.mm(w, w)
    assert first.grad_fn.next_functions[0][0] is not second.grad_fn.next_functions[0][0]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("dtype", [jg.bfloat16, jg.float16], ids=str)
def test_compiled_equals_eager(inside, dtype):
    def make():
        jg.manual_seed(0)
        return jg.nn.Sequential(jg.nn.Linear(6, 8), jg.nn.ReLU(), jg.nn.Linear(8, 3))

    target = jg.tensor([0, 2, 1, 1])

    def step(model, optimizer, x):
        optimizer.zero_grad()
        with jg.autocast("cpu", dtype=dtype, enabled=inside or jg.is_autocast_enabled("cpu")):
            loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    models = [make(), make()]
    optimizers = [jg.optim.SGD(m.parameters(), lr=0.1) for m in models]
    compiled = jg.compile(lambda x: step(models[1], optimizers[1], x))
    for i in range(4):
        x = matrix(4, 6) * (i + 1)
        with jg.autocast("cpu", dtype=dtype, enabled=not inside):
            want, got = step(models[0], optimizers[0], x), compiled(x)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-2)
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=2e-2)


def test_a_compiled_function_follows_the_block_around_it():
    f = jg.compile(lambda x: x @ x)
    x = matrix(3, 3)
    for _ in range(2):
        assert f(x).dtype is jg.float32
        with jg.autocast("cpu"):
            assert f(x).dtype is jg.bfloat16
        with jg.autocast("cpu", dtype=jg.float16):
            assert f(x).dtype is jg.float16


def test_a_compiled_function_sees_settings_that_it_reads():
    f = jg.compile(lambda x: x.to(jg.get_autocast_dtype("cpu")))
    x = jg.ones(2)
    for _ in range(2):
        assert f(x).dtype is jg.bfloat16
        jg.set_autocast_dtype("cpu", jg.float16)
        assert f(x).dtype is jg.float16
        jg.set_autocast_dtype("cpu", jg.bfloat16)


def test_custom_functions_keep_their_state():
    seen = []

    class Product(jg.autograd.Function):
        @staticmethod
        @jg.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @jg.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append(jg.is_autocast_enabled("cpu"))
            return g @ y.T, x.T @ g

    x = matrix(3, 3).requires_grad_()
    with jg.autocast("cpu"):
        y = Product.apply(x, x)
    y.float().sum().backward()
    assert (y.dtype, x.grad.dtype, seen) == (jg.bfloat16, jg.float32, [True])


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"Expected `device_type` of type `str`"):
        jg.autocast(jg.bfloat16)
    with pytest.raises(RuntimeError, match=r"unsupported autocast device_type 'tpu'"):
        jg.autocast("tpu")
    with pytest.warns(UserWarning, match=r"target dtype is not supported"):
        block = jg.autocast("cpu", dtype=jg.float32)
    with block:
        assert not jg.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match=r"requires a callable, but got Tensor"):
        jg.autocast("cpu")(matrix(1))
    if not jg.cuda.is_available():
        with pytest.warns(UserWarning, match=r"CUDA is not available"):
            jg.autocast("cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jg.autocast("cuda", enabled=False)


@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
@pytest.mark.torch
def test_recurrent_layers_give_the_types_of_pytorch(cell):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(jg.nn, cell)(3, 4), getattr(torch.nn, cell)(3, 4)
    with jg.autocast("cpu"):
        got = ours(jg.ones(2, 1, 3))[0]
    with torch.autocast("cpu"):
        want = theirs(torch.ones(2, 1, 3))[0]
    assert str(got.dtype).split(".")[1] == str(want.dtype).split(".")[1]
