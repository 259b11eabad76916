"""Special functions in float32 arithmetic: against mpmath, at singular points, and to PyTorch's bits."""

import mpmath
import numpy as np
import pytest

import jitgrad as jg
from jitgrad.ir import dtypes, scalar, single_precision
from jitgrad.ir.scalar_eval import Program

INF, NAN = np.inf, np.nan
# function, exact values, interval, units in the last place
CASES = {
    "i0": (lambda x: mpmath.besseli(0, x), (-87, 87), 8),
    "i1": (lambda x: mpmath.besseli(1, x), (-87, 87), 20),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), (-40, 40), 8),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), (-40, 40), 20),
    "modified_bessel_i1": (lambda x: mpmath.besseli(1, x), (-87, 87), 12),
    "digamma": (mpmath.digamma, (2, 30), 8),
}
POINTS = {
    "i0": {INF: INF, -INF: INF, 0.0: 1.0, NAN: NAN, 90.0: 5.1392383e37},
    "i1": {INF: INF, -INF: -INF, 0.0: 0.0, NAN: NAN, -90.0: -5.110607e37},
    "i0e": {INF: 0.0, -INF: 0.0, NAN: NAN},
    "i1e": {INF: 0.0, -INF: 0.0, NAN: NAN},
    "modified_bessel_i1": {INF: INF, -INF: -INF, NAN: NAN},
    "digamma": {0.0: -INF, -1.0: NAN, -2.0: NAN, INF: INF, -INF: NAN, NAN: NAN},
}


def evaluate(name, x):
    return Program(getattr(single_precision, name)(scalar.arg(0, dtypes.float32)))(x)


@pytest.mark.parametrize("name", CASES)
def test_accuracy(name):
    exact, interval, allowed = CASES[name]
    x = np.random.default_rng(0).uniform(*interval, 300).astype(np.float32)
    want = np.array([float(exact(mpmath.mpf(float(v)))) for v in x])
    errors = abs(evaluate(name, x) - want) / np.spacing(abs(want).astype(np.float32))
    assert max(errors) <= allowed


@pytest.mark.parametrize("name", POINTS)
def test_singular_points(name):
    x = np.array(list(POINTS[name]), np.float32)
    want = np.array(list(POINTS[name].values()), np.float32)
    np.testing.assert_allclose(evaluate(name, x), want, rtol=1e-6)


def test_digamma_of_negative_zero():
    assert evaluate("digamma", np.array([-0.0], np.float32)) == INF


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_eager_code_agree_to_the_bit(name):
    x = jg.tensor(np.random.default_rng(1).uniform(0.5, 20, 1000).astype(np.float32))
    function = getattr(jg.special, name)
    eager, compiled = function(x).numpy(), jg.compile(function)(x).numpy()
    # but for a logarithm or exponential in float64 that is rounded otherwise, once in a thousand million
    assert np.count_nonzero(eager != compiled) <= 1


@pytest.mark.torch
@pytest.mark.parametrize("name", CASES)
def test_bits_of_pytorch(name):
    torch = pytest.importorskip("torch")
    x = np.arange(-20, 30)
    theirs = getattr(torch.special, name)(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(getattr(jg.special, name)(jg.tensor(x)).numpy(), theirs)
