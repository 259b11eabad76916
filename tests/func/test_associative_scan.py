"""`associative_scan`: running combinations, their gradients, compiled and generic forms."""

import numpy as np
import pytest

import jitgrad as jg


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_products_along_each_dimension(length, reverse):
    x = jg.randn(length, 3, dtype=jg.float64)
    for dim, t in ((0, x), (1, x.transpose(0, 1)), (-1, x.transpose(0, 1))):
        want = (t.flip(dim) if reverse else t).cumprod(dim)
        want = want.flip(dim) if reverse else want
        for scan in (jg.associative_scan, jg.compile(jg.associative_scan)):
            np.testing.assert_allclose(scan(lambda a, b: a * b, t, dim, reverse).numpy(), want.numpy(), rtol=1e-12)


def test_linear_recurrences_and_their_gradients():
    """h = a h + b, the scan of pairs (a, b)."""

    def combine(left, right):
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    a, b = (jg.rand(9, 4, dtype=jg.float64, requires_grad=True) for _ in range(2))

    def fast(a, b):
        return jg.associative_scan(combine, {"a": a, "b": b})["b"]

    def slow(a, b):
        return jg.scan(lambda h, x: (h * x[0] + x[1],) * 2, jg.zeros(4, dtype=jg.float64), (a, b))[1]

    for f in (fast, jg.compile(fast)):
        np.testing.assert_allclose(f(a, b).detach().numpy(), slow(a, b).detach().numpy(), rtol=1e-12)
        found = [jg.autograd.grad((g(a, b) ** 2).sum(), (a, b)) for g in (f, slow)]
        for x, y in zip(*found, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-10)


def test_matrix_products_take_the_generic_form():
    x = jg.randn(5, 2, 2, dtype=jg.float64)
    found = jg.associative_scan(lambda a, b: a @ b, x, 0, combine_mode="generic")
    want = x[0]
    for k in range(5):
        want = x[0] if k == 0 else want @ x[k]
        np.testing.assert_allclose(found[k].numpy(), want.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((lambda a, b: a, jg.ones(3), 1), TypeError),
        ((3, jg.ones(3)), ValueError),
        ((lambda a, b: a, (jg.ones(3), jg.ones(4))), RuntimeError),
        ((lambda a, b: (a, b), jg.ones(3)), RuntimeError),
        ((lambda a, b: a, jg.ones(3), 0, False, "fast"), ValueError),
    ],
)
def test_errors(arguments, error):
    with pytest.raises(error, match="associative_scan"):
        jg.associative_scan(*arguments)
