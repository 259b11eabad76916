"""log, log1p and log2: `x = 2**k * m` with `m` in [sqrt(1/2), sqrt(2)), and a series in `s = (m - 1) / (m + 1)`.

The arrangement of log is that of FreeBSD's `e_log.c` (Sun Microsystems, 1993); the coefficients are near-minimax
Chebyshev fits of `(log((1 + s) / (1 - s)) - 2 s) / s**3` in `s**2`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .double_word import Pair, add, fast_two_sum, multiply, two_product, two_sum
from .formats import LN2, Format, format_of, polynomial

_SERIES: Final = {
    dtypes.float32: (0.6666668509542907, 0.39988757716604845, 0.29580985929974424),
    dtypes.float64: (
        0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496, 0.1818289243253687,
        0.15331611722055008, 0.14617807153417325,
    ),
}  # fmt: skip
_PAIR_SERIES: Final = (
    0.20000000000000015, 0.14285714285669004, 0.11111111135663404, 0.09090904105460941, 0.07692788731654072,
    0.06642934418772871, 0.06457356091967545,
)  # fmt: skip
"""(log(m) / (2 s) - 1 - z/3) / z**2."""
_THIRD: Final = (0.3333333333333333, 1.850371707708594e-17)
_LOG2E: Final = {
    dtypes.float32: (1.4426950216293335, 1.925963033500011e-08),
    dtypes.float64: (1.4426950408889634, 2.0355273740931033e-17),
}


def integer_to_float(k: Expr, fmt: Format) -> Expr:
    """An integer of small magnitude as a float, without a conversion instruction."""
    return scalar.bitcast(k + fmt.magic_bits, fmt.dtype) - fmt.magic


def split(x: Expr) -> tuple[Expr, Expr]:
    """`(k, m)` with `x = 2**k * m`, `k` a float, for positive finite `x`, denormal or not."""
    fmt = format_of(x)
    tiny = x < fmt.smallest_normal
    bits = scalar.bitcast(where(tiny, x * 2.0 ** (fmt.mantissa + 1), x), fmt.integer)
    root_half = _root_half_bits(fmt)
    k = (bits - root_half) >> fmt.mantissa
    m = scalar.bitcast(bits - (k << fmt.mantissa), fmt.dtype)
    exponent = integer_to_float(k, fmt)
    return where(tiny, exponent - float(fmt.mantissa + 1), exponent), m


def _root_half_bits(fmt: Format) -> int:
    """The bits of sqrt(1/2), rounded down."""
    mantissa = int((math.sqrt(2.0) - 1.0) * 2.0**fmt.mantissa)
    return ((fmt.bias - 1) << fmt.mantissa) | mantissa


def _near_one(f: Expr) -> tuple[Expr, Expr]:
    """`(h, rest)` with `log(1 + f) = f - (h - rest)` and `h = f**2 / 2`."""
    s = f / (f + 2.0)
    z = s * s
    h = f * f * 0.5
    return h, s * scalar.fma(z, polynomial(z, _SERIES[f.dtype]), h)


def _special(x: Expr, result: Expr) -> Expr:
    """The logarithm's values at 0, below 0, at infinity and NaN around `result`."""
    outside = where(x.eq(0.0), -math.inf, scalar.lift(math.nan, x.dtype))
    inside = where(x.eq(math.inf), math.inf, result)
    return where(x > 0.0, inside, outside)


def log(x: Expr) -> Expr:
    """The natural logarithm; at most 1 ulp."""
    k, m = split(x)
    high, low = LN2[x.dtype]
    f = m - 1.0
    h, rest = _near_one(f)
    return _special(x, scalar.fma(k, high, f - (h - scalar.fma(k, low, rest))))


def log_pair(a: Expr) -> Pair:
    """log(a) of a positive finite float64, as a pair of about 2**-66 relative error.

    The series is `log m = 2 s (1 + z/3 + z**2 Q(z))` in `s = (m - 1) / (m + 1)`, `z = s**2`.
    """
    k, m = split(a)
    f = m - 1.0
    below = two_sum(m, scalar.lift(1.0, m.dtype))
    inverse = 1.0 / below.high
    quotient = f * inverse
    left = scalar.fma(-quotient, below.high, f) - quotient * below.low
    s = fast_two_sum(quotient, left * inverse)
    z = multiply(s, s)
    third = scalar.lift(_THIRD[0], m.dtype)
    factor = fast_two_sum(third, z.high * polynomial(z.high, _PAIR_SERIES))
    t = multiply(z, Pair(factor.high, factor.low + _THIRD[1]))
    twice = Pair(s.high * 2.0, s.low * 2.0)
    near = add(twice, multiply(twice, t))
    high, low = LN2[m.dtype]
    return add(Pair(k * high, k * low), near)


def log1p(x: Expr) -> Expr:
    """log(1 + x); at most 1.2 ulp."""
    total = two_sum(scalar.lift(1.0, x.dtype), x)
    k, m = split(total.high)
    small = k.eq(0.0)
    f = where(small, x, m - 1.0)
    lost = where(small, 0.0, total.low / total.high)
    high, low = LN2[x.dtype]
    h, rest = _near_one(f)
    result = scalar.fma(k, high, f - (h - (scalar.fma(k, low, lost) + rest)))
    result = where(scalar.absolute(x) < 2.0 ** -(format_of(x).mantissa + 2), x, result)
    return where(x.eq(math.inf), x, _special(total.high, result))


def log2(x: Expr) -> Expr:
    """The logarithm to base 2; at most 1 ulp, exact at powers of two."""
    k, m = split(x)
    f = m - 1.0
    h, rest = _near_one(f)
    natural = fast_two_sum(f, -h)
    low = natural.low + rest
    high_factor, low_factor = _LOG2E[x.dtype]
    product = two_product(natural.high, high_factor)
    tail = scalar.fma(low, high_factor, scalar.fma(natural.high, low_factor, product.low))
    total = fast_two_sum(k, product.high)
    return _special(x, total.high + (total.low + tail))


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.LOG: log, Fn.LOG1P: log1p, Fn.LOG2: log2}
