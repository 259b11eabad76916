"""exp and expm1: `x = n ln 2 + r`, a polynomial in `r` on [-ln2/2, ln2/2], and scaling by `2**n`.

The reduction is Cody and Waite's (Software Manual for the Elementary Functions, 1980), in two parts; the
polynomials are near-minimax fits of `(e**r - 1 - r) / r**2`, in float32 weighted by `r`, for expm1 of small numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, Operand

from .formats import LN2, at_least, at_most, format_of, nearest_integer, polynomial, power_of_two, scale

EXP_TAIL: Final = {
    dtypes.float32: (
        0.5, 0.16666539013385773, 0.04166647791862488, 0.008367014117538929, 0.0013933746377006173,
    ),
    dtypes.float64: (
        0.5, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039, 0.0013888888917367081,
        0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07,
        2.5100472505694996e-08,
    ),
}  # fmt: skip
RANGE: Final = {dtypes.float32: (-104.0, 89.0), dtypes.float64: (-746.0, 710.0)}
"""Below, exp gives 0; above, infinity."""


def reduced_expm1(x: Expr, rest: Expr | None = None) -> tuple[Expr, Expr, Expr]:
    """`(n, n, e**r - 1)` for `x = n ln 2 + r`, with `n` as a float and as an integer.

    `rest` is what the rounding of `x` lost: far less than `x`, and added to `r`.
    """
    whole, n = nearest_integer(x, 1.0 / math.log(2.0))
    high, low = LN2[x.dtype]
    r = scalar.fma(whole, -low, scalar.fma(whole, -high, x))
    series = polynomial(r, EXP_TAIL[x.dtype])
    if rest is None:
        return whole, n, scalar.fma(r * r, series, r)
    return whole, n, r + scalar.fma(r * r, series, rest)


def split_expm1(x: Expr, rest: Operand = 0.0) -> tuple[Expr, Expr, Expr, Expr]:
    """`(n, n, high, low)` with `e**r - 1 = high + low`, `x + rest = n ln 2 + r` and `n` as in `reduced_expm1`.

    `high` is exact.
    """
    whole, n = nearest_integer(x, 1.0 / math.log(2.0))
    high, low = LN2[x.dtype]
    reduced, lost = scalar.fma(whole, -high, x), scalar.fma(whole, -low, scalar.lift(rest, x.dtype))
    r = reduced + lost
    return whole, n, reduced, scalar.fma(r * r, polynomial(r, EXP_TAIL[x.dtype]), lost)


def exp(x: Expr) -> Expr:
    """e**x; at most 1.2 ulp. NaN, infinities, overflow and denormal results as IEEE would have them."""
    low, high = RANGE[x.dtype]
    n, _, fraction = reduced_expm1(at_least(at_most(x, high), low))
    return scale(fraction + 1.0, n)


def expm1(x: Expr) -> Expr:
    """e**x - 1; at most 1.3 ulp in float32, 1.5 in float64; exact in sign and value around 0."""
    fmt = format_of(x)
    lowest = -0.7 * (fmt.mantissa + 3)
    _, n, high, low = split_expm1(at_least(at_most(x, RANGE[x.dtype][1]), lowest))
    half_power = power_of_two(n - 1, fmt)
    result = scalar.fma(half_power, low, scalar.fma(half_power, high, half_power - 0.5))
    return scalar.where(scalar.absolute(x) < 2.0 ** -(fmt.mantissa + 2), x, result + result)


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.EXP: exp, Fn.EXPM1: expm1}
