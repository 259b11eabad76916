"""lgamma, the logarithm of |Gamma|.

On [1/2, 5/2) `w P(w)` with `w = x - 2` or `x - 1`, up to 10 the recurrence brings `x` there, from 10 on Stirling's
series. Below 0 the reflection formula. One logarithm serves all ranges, in float64 as a pair. The coefficients are
near-minimax Chebyshev fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .double_word import Pair, fast_two_sum, two_product, two_sum
from .formats import at_least, at_most, polynomial
from .logarithm import log, log_pair
from .trigonometric import sin

_AROUND_TWO: Final = (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319814, 0.02058080842778457, -0.0073855510286681535,
    0.002890510330738737, -0.0011927539120010226, 0.0005096695248853096, -0.00022315475074520367,
    9.945750909889392e-05, -4.4926351103833334e-05, 2.050726741605779e-05, -9.438458716242811e-06,
    4.374374916915131e-06, -2.0449201467015115e-06, 9.578663334114758e-07, -4.303558760359961e-07,
    2.0304806751615227e-07, -1.3412819758517287e-07, 6.379047507619774e-08,
)  # fmt: skip
"""lgamma(2 + w) / w on [-1/2, 1/2]."""
_STIRLING: Final = (
    0.08333333333333333, -0.002777777777758028, 0.0007936507705360397, -0.0005952281678273074, 0.0008398119452648516,
    -0.0017404560390011845,
)  # fmt: skip
_STIRLING_CONSTANT: Final = 0.4189385332046727
"""(log(2 pi) - 1) / 2."""


def lgamma(x: Expr) -> Expr:
    """log|Gamma(x)|. For `x > 0` at most 1 ulp in float32 and 2 ulp in float64.

    Below 0 the absolute error is of that size, but the relative one grows near the zeros there. Infinite at 0, -1, ...
    """
    if x.dtype is dtypes.float32:
        return scalar.convert(_lgamma(scalar.convert(x, dtypes.float64), _rounded_log), x.dtype)
    return _lgamma(x, log_pair)


def _lgamma(x: Expr, logarithm: Callable[[Expr], Pair]) -> Expr:
    """lgamma of a float64, with `logarithm` of positive numbers."""
    a = scalar.absolute(x)
    negative = x < 0.0
    positive = _positive(where(negative, a + 1.0, a), logarithm)
    wave = scalar.absolute(sin(math.pi * (a - scalar.apply(Fn.ROUND, a))))
    tiny = a < 1e-20  # there sin(pi a) = pi a, but for denormals
    reflected = (where(tiny, 0.0, scalar.lift(math.log(math.pi), x.dtype)) - log(where(tiny, a, wave))) - positive
    result = where(negative, where(scalar.floor(a).eq(a), math.inf, reflected), positive)
    return where(a.eq(math.inf) | a.eq(0.0), math.inf, where(scalar.is_nan(x), x, result))


def _rounded_log(x: Expr) -> Pair:
    """The logarithm, as good as float32 needs it."""
    return Pair(log(x), scalar.lift(0.0, x.dtype))


def _positive(x: Expr, logarithm: Callable[[Expr], Pair]) -> Expr:
    """lgamma of a float64 `x >= 0`."""
    lowered, product = at_most(x, 10.0), scalar.lift(1.0, x.dtype)
    for _ in range(8):
        next_lower = lowered - 1.0
        above = lowered >= 2.5
        product = where(above, product * next_lower, product)
        lowered = where(above, next_lower, lowered)
    tiny, below_one_and_half = x < 0.5, x < 1.5
    w = where(tiny, x, where(below_one_and_half, x - 1.0, lowered - 2.0))
    near_two = at_least(at_most(w, 0.5), -0.5)
    slope = fast_two_sum(scalar.lift(_AROUND_TWO[0], x.dtype), near_two * polynomial(near_two, _AROUND_TWO[1:]))
    base = two_product(w, slope.high)
    large = x >= 10.0
    factor = where(tiny, scalar.fma(x, x, x), where(below_one_and_half, x, where(large, x, product)))
    high, low = logarithm(factor)
    sign = where(below_one_and_half, -1.0, scalar.lift(1.0, x.dtype))
    total = two_sum(base.high, sign * high)
    near = total.high + (total.low + scalar.fma(sign, low, scalar.fma(w, slope.low, base.low)))
    inverse = 1.0 / at_least(x, 10.0)
    tail = scalar.fma(inverse, polynomial(inverse * inverse, _STIRLING), scalar.lift(_STIRLING_CONSTANT, x.dtype))
    far = scalar.fma(x - 0.5, high - 1.0, scalar.fma(x - 0.5, low, tail))
    return where(large, far, near)


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.LGAMMA: lgamma}
