"""`jitgrad.special` beyond what the op suite covers: the namespace, arguments, dtypes, gradients, compiled."""

import numpy as np
import pytest

import jitgrad as jg

UNARY = (
    "bessel_j0", "bessel_y1", "digamma", "entr", "erfcx", "erfinv", "expit", "gammaln", "i0", "i0e", "i1", "i1e",
    "log_ndtr", "logit", "modified_bessel_k0", "ndtr", "ndtri", "scaled_modified_bessel_k1", "sinc",
)  # fmt: skip


@pytest.mark.torch
def test_has_all_names_of_pytorch():
    import torch

    names = {n for n in torch.special.__all__ if not n.startswith("_")}
    assert not {n for n in names if not callable(getattr(jg.special, n, None))}


@pytest.mark.torch
@pytest.mark.parametrize("name", UNARY)
def test_elementwise(name):
    import torch

    x = np.linspace(0.05, 0.95, 7)
    for dtype in ("float32", "float64"):
        values = x.astype(dtype)
        want = getattr(torch.special, name)(torch.tensor(values)).numpy()
        function = getattr(jg.special, name)
        for have in (function(jg.tensor(values)), jg.compile(function)(jg.tensor(values))):
            np.testing.assert_allclose(have.numpy(), want, rtol=2e-6 if dtype == "float32" else 1e-10, atol=1e-7)
    out = jg.empty(7, dtype=jg.float64)
    assert function(jg.tensor(x), out=out) is out
    assert getattr(jg.special, name)(jg.tensor([1, 1])).dtype is jg.float32


def test_polygamma_takes_a_degree_from_0_on():
    x = jg.tensor([0.5, 2.0], dtype=jg.float64)
    assert jg.allclose(jg.polygamma(0, x), jg.digamma(x))
    assert jg.allclose(x.polygamma(2), jg.polygamma(2, x))
    with pytest.raises(RuntimeError, match="negative n"):
        jg.polygamma(-1, x)
    with pytest.raises(TypeError, match="must be int"):
        jg.polygamma(1.5, x)


def test_what_has_no_derivative_says_so():
    a = jg.tensor([1.0], requires_grad=True)
    for function in (jg.igamma, jg.igammac, jg.special.zeta):
        with pytest.raises(RuntimeError, match="derivative for the first argument"):
            function(a, jg.tensor([2.0])).backward()
    assert not jg.special.bessel_j0(a).requires_grad


def test_derivatives_at_zero():
    x = jg.zeros(1, dtype=jg.float64, requires_grad=True)
    for function, want in ((jg.special.i1, 0.5), (jg.special.i1e, 0.5), (jg.i0, 0.0), (jg.special.i0e, 0.0)):
        (g,) = jg.autograd.grad(function(x).sum(), x)
        assert g.item() == want


@pytest.mark.torch
def test_frexp_and_its_gradient():
    import torch

    values = [0.75, -3.0, 1e-5, 0.0, np.inf]
    x, t = jg.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    have, want = jg.frexp(x), torch.frexp(t)
    assert have.mantissa.tolist() == want.mantissa.tolist() and have.exponent.tolist() == want.exponent.tolist()
    assert have.exponent.dtype is jg.int32
    have.mantissa.sum().backward()
    want.mantissa.sum().backward()
    assert x.grad.tolist() == t.grad.tolist()


def test_numbers_and_tensors_as_operands():
    x = jg.tensor([0.5, 2.0])
    assert jg.special.zeta(2.0, x).shape == (2,)
    assert jg.special.chebyshev_polynomial_t(x, 2).tolist() == [-0.5, 7.0]
    assert jg.special.chebyshev_polynomial_t(x, n=2).tolist() == [-0.5, 7.0]
    with pytest.raises(TypeError):
        jg.special.zeta(2.0, 3.0)
    with pytest.raises(TypeError):
        jg.special.zeta(x)
    with pytest.raises(TypeError, match=r"'other' \(position 2\) must be Tensor"):
        jg.gcd(jg.tensor([4]), 6)
    with pytest.raises(TypeError, match=r"'input' \(position 1\) must be Tensor"):
        jg.eq(2, jg.tensor([2]))
