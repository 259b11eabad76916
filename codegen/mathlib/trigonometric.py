"""sin, cos and tan, and their inverses.

The argument is reduced to [-pi/4, pi/4] with pi/2 in parts (Cody and Waite): in float64 for float32, and in four
parts for float64. That holds up to `LARGEST`; beyond, the C library's function is called, one element at a time.
Polynomials are near-minimax Chebyshev fits in `r**2`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .double_word import Pair, divide, fast_two_sum, two_sum
from .formats import format_of, nearest_integer, polynomial, with_sign_of

LARGEST: Final = {dtypes.float32: 1e9, dtypes.float64: 8e5}
_HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17)
_HALF_PI_PARTS: Final = (
    1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21, 1.0085833365551385e-37,
)  # fmt: skip
_SIN: Final = {
    dtypes.float32: (-0.16666666663844049, 0.008333331870341349, -0.00019840084376422702, 2.724962008007533e-06),
    dtypes.float64: (
        -0.16666666666666666, 0.008333333333330936, -0.00019841269836740532, 2.7557316093198404e-06,
        -2.5051129896450185e-08, 1.5917988979397435e-10,
    ),
}  # fmt: skip
_COS: Final = {
    dtypes.float32: (0.04166665465348879, -0.001388830186756237, 2.454768977246003e-05),
    dtypes.float64: (
        0.041666666666666664, -0.0013888888888887389, 2.48015872987544e-05, -2.755731726587808e-07,
        2.087614504941318e-09, -1.138254464534925e-11,
    ),
}  # fmt: skip
_TAN_SINGLE: Final = (
    0.33333333984697283, 0.13333230217458134, 0.05399462416667326, 0.021619872776148154, 0.009966544602536997,
    0.0011782998551862955, 0.003847304292382261,
)  # fmt: skip
_ASIN: Final = {
    dtypes.float32: (
        0.16666672427703408, 0.07498852962262084, 0.0450018940882998, 0.026550662963657472, 0.038093962148042254,
    ),
    dtypes.float64: (
        0.16666666666666669, 0.07499999999998425, 0.04464285714637338, 0.030381944137085216, 0.022372173002005596,
        0.017352391265909227, 0.013971235301124539, 0.011478952690257387, 0.010324318288744113,
        0.00545087818772055, 0.017419357964884856, -0.014881409392818066, 0.02877844261259304,
    ),
}  # fmt: skip
_ATAN: Final = {
    dtypes.float32: (
        -0.3333333070632364, 0.19999312185467447, -0.14256497588249623, 0.10667636557907288, -0.06213588822462422,
    ),
    dtypes.float64: (
        -0.33333333333333326, 0.19999999999987655, -0.14285714283127662, 0.11111110899049664, -0.0909090014058555,
        0.07692086204975024, -0.06663224869084483, 0.05847612444521365, -0.050334165154982353,
        0.0378116004846169, -0.017532295994972764,
    ),
}  # fmt: skip
_PARTS_OF_PI: Final = {
    dtypes.float32: {1: (3.1415927410125732, -8.742277657347586e-08), 2: (1.5707963705062866, -4.371138828673793e-08),
                     4: (0.7853981852531433, -2.1855694143368964e-08)},
    dtypes.float64: {1: (3.141592653589793, 1.2246467991473532e-16), 2: (1.5707963267948966, 6.123233995736766e-17),
                     4: (0.7853981633974483, 3.061616997868383e-17)},
}  # fmt: skip
"""pi divided by 1, 2 and 4 as (high, low)."""


def _reduce(x: Expr) -> tuple[Expr, Pair]:
    """`(quadrant, r)` with `x = quadrant * pi/2 + r`; of a float32, `r` is a float64 in `r.high`."""
    if x.dtype is dtypes.float32:
        wide = scalar.convert(x, dtypes.float64)
        n, quadrant = nearest_integer(wide, 2.0 / math.pi)
        r = scalar.fma(n, -_HALF_PI[1], scalar.fma(n, -_HALF_PI[0], wide))
        return scalar.convert(quadrant, dtypes.int32), Pair(r, r)
    n, quadrant = nearest_integer(x, 2.0 / math.pi)
    first, second, third, fourth = _HALF_PI_PARTS
    rest = two_sum(scalar.fma(n, -first, x), n * -second)
    low = scalar.fma(n, -fourth, scalar.fma(n, -third, rest.low))
    high = rest.high + low
    return quadrant, Pair(high, (rest.high - high) + low)


def beyond(x: Expr) -> Expr:
    """Where the argument is too large for the reduction."""
    size = scalar.absolute(x)
    return (size > LARGEST[x.dtype]) & (size < math.inf)


def _sin_cos(r: Pair) -> tuple[Expr, Expr]:
    """sin and cos of a reduced argument."""
    x = r.high
    if x.dtype is dtypes.float64:
        (s, sine_rest), (top, cosine_rest) = _sin_cos_double(r)
        return s + sine_rest, top + cosine_rest
    z = x * x
    half = z * 0.5
    top = 1.0 - half
    sine = scalar.fma(x * z, polynomial(z, _SIN[x.dtype]), x)
    return sine, top + scalar.fma(z * z, polynomial(z, _COS[x.dtype]), (1.0 - top) - half)


def _sin_cos_double(r: Pair) -> tuple[Pair, Pair]:
    """sin and cos of a reduced float64 argument, as sums that are not rounded yet."""
    x, y = r
    z = x * x
    half = z * 0.5
    top = 1.0 - half
    sine_rest = scalar.fma(z * x, polynomial(z, _SIN[x.dtype]), y) - half * y
    cosine_rest = ((1.0 - top) - half) + scalar.fma(z * z, polynomial(z, _COS[x.dtype]), -(x * y))
    return Pair(x, sine_rest), Pair(top, cosine_rest)


def _single(x: Expr, r: Pair) -> Pair:
    """The reduced argument in the type of `x`."""
    return Pair(scalar.convert(r.high, x.dtype), scalar.convert(r.low, x.dtype))


def _negate_if(x: Expr, flag: Expr) -> Expr:
    """`x`, negated where bit 1 of the integer `flag` is set."""
    fmt = format_of(x)
    sign = (flag & 2) << (8 * fmt.dtype.itemsize - 2)
    return scalar.bitcast(scalar.bitcast(x, fmt.integer) ^ sign, fmt.dtype)


def _or_itself(x: Expr, result: Expr) -> Expr:
    """`result`, but `x` where it is so small that f(x) = x."""
    return where(scalar.absolute(x) < 2.0 ** -(format_of(x).mantissa // 2 + 2), x, result)


def sin(x: Expr) -> Expr:
    """The sine; at most 1.5 ulp in float32, 1 ulp in float64."""
    quadrant, r = _reduce(x)
    s, c = _sin_cos(_single(x, r))
    odd = (quadrant & 1).ne(0)
    return _or_itself(x, _negate_if(where(odd, c, s), quadrant))


def cos(x: Expr) -> Expr:
    """The cosine; at most 1.5 ulp in float32, 1 ulp in float64."""
    quadrant, r = _reduce(x)
    s, c = _sin_cos(_single(x, r))
    odd = (quadrant & 1).ne(0)
    return _negate_if(where(odd, s, c), quadrant + 1)


def tan(x: Expr) -> Expr:
    """The tangent; at most 1 ulp."""
    quadrant, r = _reduce(x)
    odd = (quadrant & 1).ne(0)
    if x.dtype is dtypes.float32:
        z = r.high * r.high
        t = scalar.fma(r.high * z, polynomial(z, _TAN_SINGLE), r.high)
        result = scalar.convert(where(odd, -1.0, t) / where(odd, t, 1.0), x.dtype)
    else:
        s, c = (fast_two_sum(*terms) for terms in _sin_cos_double(r))
        top = Pair(where(odd, -c.high, s.high), where(odd, -c.low, s.low))
        quotient = divide(top, Pair(where(odd, s.high, c.high), where(odd, s.low, c.low)))
        result = quotient.high + quotient.low
    return _or_itself(x, result)


def _pi_over(x: Expr, divisor: int) -> tuple[float, float]:
    return _PARTS_OF_PI[x.dtype][divisor]


def _arc(x: Expr) -> tuple[Expr, Expr, Expr]:
    """`(small, s, t)`: |x| < 1/2, and asin(s) = s + t with s = |x| there, else s = sqrt((1 - |x|) / 2)."""
    a = scalar.absolute(x)
    small = a < 0.5
    z = where(small, a * a, (1.0 - a) * 0.5)
    s = where(small, a, scalar.sqrt(z))
    return small, s, s * z * polynomial(z, _ASIN[x.dtype])


def asin(x: Expr) -> Expr:
    """The inverse sine; at most 1.5 ulp. NaN outside [-1, 1]."""
    small, s, t = _arc(x)
    high, low = _pi_over(x, 2)
    rest = fast_two_sum(scalar.lift(high, x.dtype), -2.0 * s)
    large = rest.high + (rest.low + (low - 2.0 * t))
    return with_sign_of(where(small, s + t, large), x)


def acos(x: Expr) -> Expr:
    """The inverse cosine; at most 1.5 ulp. NaN outside [-1, 1]."""
    small, s, t = _arc(x)
    half_high, half_low = _pi_over(x, 2)
    high, low = _pi_over(x, 1)
    sign = with_sign_of(s, x)
    middle = (half_high - sign) + (half_low - with_sign_of(t, x))
    doubled = 2.0 * (s + t)
    left = (high - 2.0 * s) + (low - 2.0 * t)
    return where(small, middle, where(x < 0.0, left, doubled))


def _arctangent(numerator: Expr, denominator: Expr) -> Expr:
    """atan(numerator / denominator) for a quotient in [0, 1] of finite numbers, `denominator > 0`.

    One division for all: from 7/16 on atan(q) = atan(1/2) + atan((2q - 1) / (2 + q)), from 11/16 on
    pi/4 + atan((q - 1) / (q + 1)).
    """
    upper = numerator * 16.0 > denominator * 11.0
    middle = numerator * 16.0 > denominator * 7.0
    top = where(upper, numerator - denominator, where(middle, scalar.fma(numerator, 2.0, -denominator), numerator))
    bottom = where(upper, numerator + denominator, where(middle, scalar.fma(denominator, 2.0, numerator), denominator))
    t = top / bottom
    z = t * t
    quarter_high, quarter_low = _pi_over(numerator, 4)
    half_high, half_low = _ATAN_HALF[numerator.dtype]
    high = where(upper, quarter_high, where(middle, half_high, scalar.lift(0.0, numerator.dtype)))
    low = where(upper, quarter_low, where(middle, half_low, scalar.lift(0.0, numerator.dtype)))
    return high + (low + scalar.fma(t * z, polynomial(z, _ATAN[t.dtype]), t))


_ATAN_HALF: Final = {
    dtypes.float32: (0.46364760398864746, 5.01215824399992e-09),
    dtypes.float64: (0.4636476090008061, 2.2698777452961687e-17),
}


def atan(x: Expr) -> Expr:
    """The inverse tangent; at most 1.5 ulp."""
    a = scalar.absolute(x)
    large = a > 1.0
    finite = where(a > _HUGE[x.dtype], _HUGE[x.dtype], a)
    angle = _arctangent(where(large, 1.0, finite), where(large, finite, scalar.lift(1.0, x.dtype)))
    high, low = _pi_over(x, 2)
    result = with_sign_of(where(large, high - (angle - low), angle), x)
    return where(scalar.is_nan(x), x, _or_itself(x, result))


_HUGE: Final = {dtypes.float32: 1e30, dtypes.float64: 1e200}
"""Numbers whose arctangent is pi/2 already."""


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y); at most 1.5 ulp. Zeros and infinities as in C's atan2."""
    across, up = scalar.absolute(x), scalar.absolute(y)
    steep = up > across
    smaller, larger = where(steep, across, up), where(steep, up, across)
    infinite = larger.eq(math.inf)
    smaller = where(infinite, where(smaller.eq(math.inf), 1.0, scalar.lift(0.0, x.dtype)), smaller)
    larger = where(infinite, 1.0, larger)
    shrink = where(
        larger > _HUGE[x.dtype], 2.0**-8, where(larger < 1.0 / _HUGE[x.dtype], 2.0**60, scalar.lift(1.0, x.dtype))
    )
    none = larger.eq(0.0)
    angle = _arctangent(smaller * shrink, where(none, 1.0, larger * shrink))
    half_high, half_low = _pi_over(x, 2)
    angle = where(steep, half_high - (angle - half_low), angle)
    high, low = _pi_over(x, 1)
    behind = with_sign_of(scalar.lift(1.0, x.dtype), x) < 0.0
    angle = where(behind, high - (angle - low), angle)
    return where(scalar.is_nan(x) | scalar.is_nan(y), x + y, with_sign_of(angle, y))


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {
    Fn.SIN: sin, Fn.COS: cos, Fn.TAN: tan, Fn.ASIN: asin, Fn.ACOS: acos, Fn.ATAN: atan, Fn.ATAN2: atan2,
}  # fmt: skip
