"""sinh, cosh and tanh from the exponential's parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .exponential import reduced_expm1
from .formats import at_most, format_of, polynomial, power_of_two, with_sign_of

_SINH: Final = {
    dtypes.float32: (0.16666666646842135, 0.00833333967591706, 0.00019838101968683888, 2.8062802582276946e-06),
    dtypes.float64: (
        0.16666666666666666, 0.008333333333333299, 0.00019841269841324198, 2.7557319191381816e-06,
        2.5052117695907823e-08, 1.6057679623801638e-10, 7.746178593018827e-13,
    ),
}  # fmt: skip
_TANH: Final = {
    dtypes.float32: (
        -0.3333333200171104, 0.13333112910672093, -0.053909267852378116, 0.021308401287001972, -0.006608371256918572,
    ),
    dtypes.float64: (
        -0.3333333333333333, 0.1333333333333271, -0.05396825396742711, 0.021869488493351966, -0.008863234390552772,
        0.0035921102829827483, -0.0014556610653503473, 0.0005889322836960864, -0.0002346235564045879,
        8.509481082749288e-05, -2.0590037034767608e-05,
    ),
}  # fmt: skip
_OVERFLOW: Final = {dtypes.float32: 89.5, dtypes.float64: 710.5}
"""From here on sinh and cosh are infinite, and a quarter of the exponential is not."""


def _quarters(a: Expr) -> tuple[Expr, Expr, Expr]:
    """`(p, f, q)` with `e**a / 4 = p (1 + f)` and `e**-a / 4 = q`, for `a >= 0`."""
    _, n, fraction = reduced_expm1(at_most(a, _OVERFLOW[a.dtype]))
    power = power_of_two(n - 2, format_of(a))
    return power, fraction, 0.0625 / scalar.fma(power, fraction, power)


def sinh(x: Expr) -> Expr:
    """The hyperbolic sine; at most 1.3 ulp. Below 1 a polynomial, above half the difference of exponentials."""
    a = scalar.absolute(x)
    z = a * a
    small = scalar.fma(a * z, polynomial(z, _SINH[x.dtype]), a)
    power, fraction, inverse = _quarters(a)
    half = power + scalar.fma(power, fraction, -inverse)
    return with_sign_of(where(a < 1.0, small, half + half), x)


def cosh(x: Expr) -> Expr:
    """The hyperbolic cosine; at most 1.3 ulp."""
    power, fraction, inverse = _quarters(scalar.absolute(x))
    half = power + scalar.fma(power, fraction, inverse)
    return half + half


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent; at most 1.5 ulp. Below 0.55 a polynomial, above `1 - 2 / (e**(2|x|) + 1)`."""
    fmt, a = format_of(x), scalar.absolute(x)
    z = a * a
    small = scalar.fma(a * z, polynomial(z, _TANH[x.dtype]), a)
    _, n, fraction = reduced_expm1(at_most(a, 0.36 * (fmt.mantissa + 3)) * 2.0)
    power = power_of_two(n, fmt)
    large = 1.0 - 2.0 / (scalar.fma(power, fraction, power) + 1.0)
    return with_sign_of(where(a < 0.55, small, large), x)


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.SINH: sinh, Fn.COSH: cosh, Fn.TANH: tanh}
