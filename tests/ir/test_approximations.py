"""Special functions in the scalar language against mpmath, in units of the last place, and at singular points."""

import mpmath
import numpy as np
import pytest

from jitgrad.ir import approximations, dtypes, scalar
from jitgrad.ir.scalar_eval import Evaluator

X = scalar.arg(0, dtypes.float64)


def evaluate(function, x):
    return Evaluator(lambda leaf: x)(function(X))


def i0(x):
    return approximations.unscaled(approximations.i0e(x), x)


def i1(x):
    return approximations.unscaled(approximations.i1e(x), x)


# (function, exact values, interval, whether it is sampled by its logarithm, error allowed)
CASES = {
    "i0e": (approximations.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), (-40, 40), False, 4),
    "i1e": (approximations.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), (-40, 40), False, 10),
    "i0": (i0, lambda x: mpmath.besseli(0, x), (-100, 100), False, 6),
    "i1": (i1, lambda x: mpmath.besseli(1, x), (-100, 100), False, 10),
    "erfcx": (approximations.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), (-10, 5), True, 6),
    "erfcx below 0": (approximations.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), (-26, 0), False, 4),
    "erfinv": (approximations.erfinv, mpmath.erfinv, (-1, 1), False, 4),
    "erfinv small": (approximations.erfinv, mpmath.erfinv, (-20, 0), True, 4),
    "ndtri": (approximations.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), (0, 1), False, 8),
    "log_ndtr": (approximations.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), (-50, 2), False, 8),
    "digamma": (approximations.digamma, mpmath.digamma, (2, 30), False, 8),
    "trigamma": (approximations.trigamma, lambda x: mpmath.psi(1, x), (-10, 30), False, 10),
}


@pytest.mark.parametrize("name", CASES)
def test_accuracy(name):
    function, exact, (low, high), by_logarithm, allowed = CASES[name]
    x = np.random.default_rng(0).uniform(low, high, 300)
    x = np.exp(x) if by_logarithm else x
    with mpmath.workdps(60):
        want = [exact(mpmath.mpf(float(v))) for v in x]
        have = evaluate(function, x)
        errors = [abs(mpmath.mpf(float(h)) - w) / np.spacing(abs(float(w))) for h, w in zip(have, want, strict=True)]
    assert max(errors) <= allowed


def test_the_far_tail_of_ndtri():
    p = 10.0 ** np.random.default_rng(0).uniform(-300, -20, 20)
    with mpmath.workdps(340):
        want = np.array([float(mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(float(v)) - 1)) for v in p])
    np.testing.assert_allclose(evaluate(approximations.ndtri, p), want, rtol=1e-14)


INF, NAN = np.inf, np.nan
POINTS = {
    "i0": (i0, {INF: INF, -INF: INF, 0.0: 1.0, 1e300: INF}),
    "i1": (i1, {INF: INF, -INF: -INF, 0.0: 0.0}),
    "i0e": (approximations.i0e, {INF: 0.0, -INF: 0.0}),
    "erfcx": (approximations.erfcx, {INF: 0.0, -INF: INF, 0.0: 1.0, -27.0: INF}),
    "erfinv": (approximations.erfinv, {1.0: INF, -1.0: -INF, 1.5: NAN, 0.0: 0.0}),
    "ndtri": (approximations.ndtri, {0.0: -INF, 1.0: INF, 0.5: 0.0, -0.1: NAN, 1.1: NAN}),
    "log_ndtr": (approximations.log_ndtr, {INF: 0.0, -INF: -INF}),
    "digamma": (approximations.digamma, {0.0: -INF, -1.0: NAN, -2.0: NAN, INF: INF, -INF: NAN}),
    "trigamma": (approximations.trigamma, {0.0: INF, -1.0: INF, INF: 0.0}),
}


@pytest.mark.parametrize("name", POINTS)
def test_singular_points(name):
    function, points = POINTS[name]
    x = np.array([*points, NAN])
    np.testing.assert_array_equal(evaluate(function, x), [*points.values(), NAN])
