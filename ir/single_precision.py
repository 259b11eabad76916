"""Special functions of float32 elements as scalar expressions in float32 arithmetic, rounded where PyTorch's are.

They are Cephes' single-precision functions (Moshier 1984), as PyTorch has them: half as wide as those of
`approximations`, and the same in eager code, in kernels and there, to the bit up to the rounding of exponentials
and logarithms, which are taken in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from . import dtypes, scalar
from .approximations import I0E_FAR, I0E_NEAR, I1E_FAR, I1E_NEAR
from .scalar import Expr, Fn, where

_I1E_NEAR_TERMS: Final = 17
_I1E_FAR_TERMS: Final = 7
_DIGAMMA: Final = (1 / 12, -0.021092796092796094, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
"""B(2k) / 2k, of the asymptotic series in 1/x², from the highest power down."""
_DIGAMMA_OF_10: Final = 2.251752589066721


def _widely(fn: Fn, x: Expr) -> Expr:
    """A function in float64, rounded once."""
    return scalar.convert(scalar.apply(fn, scalar.convert(x, dtypes.float64)), dtypes.float32)


def _chebyshev(twice: Expr, coefficients: Sequence[float]) -> Expr:
    """`sum(c[i] T_i(twice / 2))` by Clenshaw's recurrence; the product is not rounded before the difference."""
    before, below, last = (scalar.const(v, dtypes.float32) for v in (0.0, 0.0, coefficients[-1]))
    for c in (*reversed(coefficients[1:-1]), 2.0 * coefficients[0]):
        before, below, last = below, last, scalar.fma(twice, last, -below) + c
    return 0.5 * (last - before)


def _near(a: Expr, coefficients: Sequence[float]) -> Expr:
    return _chebyshev(where(a > 8.0, 8.0, a) * 0.5 - 2.0, coefficients)


def _far(a: Expr, coefficients: Sequence[float]) -> Expr:
    return _chebyshev(32.0 / where(a < 8.0, 8.0, a) - 2.0, coefficients)


def _over_root(a: Expr, value: Expr) -> Expr:
    """`value` over the root of `a` beyond 8, and 0 at infinity."""
    return where(a.eq(math.inf), 0.0, value / scalar.sqrt(where(a < 8.0, 8.0, a)))


def _grown(a: Expr, scaled: Expr, near: Expr, far: Expr) -> Expr:
    """`near` or `far`, made with exp(a), where that is finite; `scaled` times exp(a) where both are in range."""
    half = _widely(Fn.EXP, a * 0.5)
    beyond = where(a.eq(math.inf), math.inf, (scaled * half) * half)
    return where(a <= 8.0, near, where(a <= 88.0, far, beyond))


def _signed(value: Expr, x: Expr) -> Expr:
    return where(x < 0.0, -value, value)


def i0e(x: Expr) -> Expr:
    """exp(-|x|) I0(x); at most 8 ulp."""
    a = scalar.absolute(x)
    return where(a <= 8.0, _near(a, I0E_NEAR), _over_root(a, _far(a, I0E_FAR)))


def i0(x: Expr) -> Expr:
    """I0(x); at most 8 ulp."""
    a = scalar.absolute(x)
    growth, near, far = _widely(Fn.EXP, a), _near(a, I0E_NEAR), _far(a, I0E_FAR)
    return _grown(a, _over_root(a, far), growth * near, _over_root(a, growth * far))


def i1e(x: Expr) -> Expr:
    """exp(-|x|) I1(x), by shorter series; at most 20 ulp."""
    a = scalar.absolute(x)
    near, far = _near(a, I1E_NEAR[:_I1E_NEAR_TERMS]), _far(a, I1E_FAR[:_I1E_FAR_TERMS])
    return _signed(where(a <= 8.0, near * a, _over_root(a, far)), x)


def i1(x: Expr) -> Expr:
    """I1(x), by shorter series; at most 20 ulp."""
    a = scalar.absolute(x)
    near, far = _near(a, I1E_NEAR[:_I1E_NEAR_TERMS]), _far(a, I1E_FAR[:_I1E_FAR_TERMS])
    growth = _widely(Fn.EXP, a)
    return _signed(_grown(a, _over_root(a, far), growth * a * near, _over_root(a, growth * far)), x)


def modified_bessel_i1(x: Expr) -> Expr:
    """I1(x), by whole series; at most 12 ulp."""
    a = scalar.absolute(x)
    growth, near, far = _widely(Fn.EXP, a), _near(a, I1E_NEAR), _far(a, I1E_FAR)
    return _signed(_grown(a, _over_root(a, far), near * a * growth, _over_root(a, growth * far)), x)


def digamma(x: Expr) -> Expr:
    """The derivative of log gamma; at most 8 ulp from 2 on, below that as much of 1.

    Infinite at 0, with the opposite sign, and NaN at the other poles.
    """
    a = where(x < 0.0, 1.0 - x, x)
    value = _digamma_of_positive(where(a.eq(0.0), 1.0, a))
    wide = scalar.convert(x, dtypes.float64)
    fraction = wide - scalar.apply(Fn.TRUNC, wide)
    turned = math.pi / scalar.apply(Fn.TAN, math.pi * where(fraction.eq(0.0), 0.25, fraction))
    value = where(x < 0.0, value - scalar.convert(turned, dtypes.float32), value)
    value = where((x < 0.0) & (fraction.eq(0.0) | x.eq(-math.inf)), math.nan, value)
    return where(x.eq(0.0), scalar.apply(Fn.COPYSIGN, scalar.const(math.inf, x.dtype), -x), value)


def _digamma_of_positive(x: Expr) -> Expr:
    """By the recurrence up to 10, and from there on by the asymptotic series."""
    total = scalar.const(0.0, dtypes.float32)
    for _ in range(10):
        below = x < 10.0
        total = where(below, total - 1.0 / x, total)
        x = where(below, x + 1.0, x)
    z = 1.0 / (x * x)
    series = scalar.const(0.0, dtypes.float32)
    for c in _DIGAMMA:
        series = scalar.fma(series, z, c)
    tail = where(x < 1e17, z * series, 0.0)
    value = total + _widely(Fn.LOG, x) - 0.5 / x - tail
    return where(x.eq(10.0), total + _DIGAMMA_OF_10, value)
