"""What ported scripts hit at the edges: 0-d and empty operands, half types near their range, complex parts."""

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def as_numpy(x):
    return x.to((torch if isinstance(x, torch.Tensor) else jg).float32).numpy()


def equal(f, compiled=True):
    """Both libraries give equal tensors, of equal dtypes; compiled calls too."""
    there = f(torch)
    calls = [lambda: f(jg)]
    if compiled:
        calls += [jg.compile(calls[0])] * 2
    for call in calls:
        here = call()
        assert str(here.dtype).split(".")[-1] == str(there.dtype).split(".")[-1]
        assert tuple(here.shape) == tuple(there.shape)
        if there.is_complex():
            np.testing.assert_allclose(here.numpy(), there.numpy())
        else:
            np.testing.assert_allclose(as_numpy(here), as_numpy(there), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("dims", [0, -1, (0,), ()])
def test_a_number_flipped_is_itself(dims):
    equal(lambda lib: lib.tensor(1.5).flip(dims))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sinc_where_pi_times_x_is_out_of_range(dtype):
    equal(lambda lib: lib.sinc(lib.tensor([3e4, -6e4, 0.5, 0.0], dtype=getattr(lib, dtype))))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("exponent", [[20, -3, 0], 4])
def test_ldexp_by_integers_keeps_the_dtype(dtype, exponent):
    equal(lambda lib: lib.ldexp(lib.tensor([1e-4, 3, 0.5]).to(getattr(lib, dtype)), lib.tensor(exponent)))


def test_ldexp_of_a_double_by_a_large_integer():
    assert jg.ldexp(jg.tensor([1.0], dtype=jg.float64), jg.tensor([200])).item() == 2.0**200
    x = jg.tensor([3.0], dtype=jg.float16, requires_grad=True)
    jg.ldexp(x, jg.tensor([2])).sum().backward()
    assert x.grad.dtype is jg.float16 and x.grad.tolist() == [4.0]


@pytest.mark.parametrize("numbers", [{}, {"nan": 3.0, "posinf": 1.0}])
def test_nan_to_num_of_complex_parts(numbers):
    inf, nan = float("inf"), float("nan")
    equal(lambda lib: lib.nan_to_num(lib.tensor([complex(inf, nan), complex(nan, -inf), 1 + 2j]), **numbers))
    z = jg.tensor([complex(inf, 1), complex(2, nan)], requires_grad=True)
    jg.nan_to_num(z).abs().sum().backward()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_of_no_integers_none_is_divided_by_zero(name):
    equal(lambda lib: getattr(lib, name)(lib.zeros(0, 3, dtype=lib.int64), 0))


@pytest.mark.parametrize("name", ["any", "all"])
def test_truth_over_no_dims_is_that_of_each_element(name):
    equal(lambda lib: getattr(lib, name)(lib.tensor([[0.0, 2.0]]), dim=()))


def test_where_numbers_are_not_zero():
    (there,), (here,) = torch.where(torch.tensor([0.0, 2.0, -1.0])), jg.where(jg.tensor([0.0, 2.0, -1.0]))
    assert here.tolist() == there.tolist()


def test_parts_are_set_to_numbers_and_rows():
    def f(lib):
        z = lib.zeros(2, 3, dtype=lib.complex64)
        z.real = 2
        z.imag = lib.tensor([1.0, 2.0, 3.0])
        return z

    equal(f)


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    "numbers",
    [[3.0, 1.0, 2.0, 2.0, 2.0], [float("nan"), 1.0, float("nan"), 0.5], [float("nan")] * 3, [float("inf"), 1.0]],
)
def test_medians_and_their_shared_gradients(name, dtype, numbers):
    def f(lib):
        x = lib.tensor(numbers, dtype=getattr(lib, dtype), requires_grad=True)
        y = getattr(lib, name)(x)
        (g,) = lib.autograd.grad(y, x)
        return lib.cat([y.detach().reshape(1), g, getattr(lib, name)(x.detach()).reshape(1)])

    equal(f)


@pytest.mark.parametrize("name", ["tril", "triu"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 2), (0, 3)])
@pytest.mark.parametrize("diagonal", [-5, -1, 0, 2])
def test_triangles(name, shape, diagonal):
    equal(lambda lib: getattr(lib, name)(lib.ones(shape), diagonal))
