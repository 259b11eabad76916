"""pow: `exp(y log|x|)` with the logarithm to more than the result's precision, and C's table of special cases.

float32 works in float64. float64 carries the logarithm and its product with `y` as pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .double_word import two_product
from .exponential import EXP_TAIL, RANGE
from .formats import FLOAT64, LN2, at_least, at_most, nearest_integer, polynomial, power_of_two, scale
from .logarithm import log_pair, split

_SERIES_SINGLE: Final = (
    0.3333333333368934,
    0.19999999396220844,
    0.14285877767516472,
    0.11095668714032891,
    0.09681942493316599,
)
"""(log(m) / (2 s) - 1) / z, to 2**-38."""
_EXP2: Final = (
    0.6931471805599453, 0.2402265092256076, 0.05550410883930555, 0.00961805662050108, 0.001333350234150156,
    0.00015461467905285986, 1.529734162283227e-05,
)  # fmt: skip
"""(2**r - 1) / r on [-1/2, 1/2], to 2**-32."""


def pow_(x: Expr, y: Expr) -> Expr:
    """x**y; at most 1.2 ulp, with C99's special cases (x**0 = 1**y = 1, signs, zeros, infinities)."""
    a = scalar.absolute(x)
    size = _single(a, y) if x.dtype is dtypes.float32 else _double(a, y)
    one, zero = scalar.lift(1.0, x.dtype), scalar.lift(0.0, x.dtype)
    infinite = scalar.lift(math.inf, x.dtype)
    growing = (a > 1.0) ^ (y < 0.0)
    size = where(a.eq(0.0) | a.eq(math.inf) | scalar.absolute(y).eq(math.inf), where(growing, infinite, zero), size)
    whole = scalar.floor(y).eq(y)
    half = y * 0.5
    odd = whole & scalar.floor(half).ne(half)
    negative = _has_sign_bit(x) & odd
    size = where(negative, -size, size)
    size = where((x < 0.0) & x.ne(-math.inf) & ~whole, math.nan, size)
    size = where(scalar.is_nan(x) | scalar.is_nan(y), x + y, size)
    return where(y.eq(0.0) | x.eq(1.0) | (x.eq(-1.0) & scalar.absolute(y).eq(math.inf)), one, size)


def _has_sign_bit(x: Expr) -> Expr:
    """Whether the sign bit is set, of -0 too."""
    return scalar.apply(Fn.COPYSIGN, scalar.lift(1.0, x.dtype), x) < 0.0


def _single(a: Expr, y: Expr) -> Expr:
    """a**y of float32, by way of float64; special cases aside."""
    k, m = split(scalar.convert(a, dtypes.float64))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    twice = s * (2.0 / math.log(2.0))
    exponent = scalar.fma(twice * z, polynomial(z, _SERIES_SINGLE), twice) + k
    t = at_least(at_most(scalar.convert(y, dtypes.float64) * exponent, 200.0), -200.0)
    n, whole = nearest_integer(t, 1.0)
    r = t - n
    fraction = scalar.fma(r, polynomial(r, _EXP2), scalar.lift(1.0, dtypes.float64))
    return scalar.convert(fraction * power_of_two(whole, FLOAT64), dtypes.float32)


def _double(a: Expr, y: Expr) -> Expr:
    """a**y of float64; special cases aside."""
    logarithm = log_pair(a)
    product = two_product(logarithm.high, y)
    rest = scalar.fma(logarithm.low, y, product.low)
    lowest, highest = RANGE[a.dtype]
    within = scalar.absolute(product.high) < 1000.0
    t = at_least(at_most(product.high, highest), lowest)
    n, _ = nearest_integer(t, 1.0 / math.log(2.0))
    high, low = LN2[a.dtype]
    reduced = scalar.fma(n, -high, t)
    r = scalar.fma(n, -low, reduced) + where(within, rest, scalar.lift(0.0, a.dtype))
    fraction = scalar.fma(r * r, polynomial(r, EXP_TAIL[a.dtype]), r)
    return scale(fraction + 1.0, n)


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.POW: pow_}
