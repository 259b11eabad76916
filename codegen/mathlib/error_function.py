"""erf and erfc.

Near 0 erf is `x + x P(x**2)`. Elsewhere erfc(a) for `a >= 0` is `exp(-a**2) Q(q) / (1 + 2 a)` with `q = (a - 4) /
(a + 4)` (Shepherd and Laframboise, Math. Comp. 36, 1981), the square taken exactly as a pair. float32's erf is
`1 - exp(-a - a R(a))` everywhere, the rounding of its exponent taken back. The coefficients are near-minimax fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .double_word import Pair, divide, fast_two_sum
from .exponential import reduced_expm1, split_expm1
from .formats import FLOAT32, at_least, at_most, polynomial, power_of_two, scale, with_sign_of

_SMALL: Final = (
    0.12837916709551256, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777, 0.0052239776071164225,
    -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05, 1.6447424703317362e-06,
    -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10,
)  # fmt: skip
"""erf(x) / x - 1 in x**2, of float64 near 0."""
_LOG_ERFC: Final = (
    0.12837917161167645, 0.6366193819466036, 0.10277783061285276, -0.01915306405495036, -0.0001603962247104184,
    0.0016670280008678165, -0.000632837301900404, 0.00011764142261484277, -9.256283498383625e-06,
)  # fmt: skip
"""-log(erfc(a)) / a - 1 on [0, 4], weighted for the relative error of erf."""
_SCALED: Final = (
    1.2329951186255526, -0.1396211168405626, 0.015379652102606335, 0.06809705425470826, -0.10103906603558883,
    0.09373283499780011, -0.06633036582719405, 0.03716751554495891, -0.016197733896081708, 0.0050319699333652435,
    -0.000757774311953688, -0.00019925661348791846, 0.00015062572040252812, -2.4398824898573882e-05,
    -1.1232269801279568e-05, 5.707145040289054e-06, 3.103102566197293e-07, -8.189831956867985e-07,
    5.845493461944841e-08, 1.0181275012136232e-07, -9.297814102078907e-09, -8.85115922344989e-09,
)  # fmt: skip
"""(1 + 2 a) exp(a**2) erfc(a) in q on a in [0, 27.5]."""


def _small(x: Expr) -> Expr:
    """erf(x) - x of a float64 near 0."""
    return x * polynomial(x * x, _SMALL)


def _tail(a: Expr) -> Expr:
    """erfc(a) of a float64 in [0, 27.5]; what the square, the quotient and the polynomial's last sum lose is kept."""
    square = -(a * a)
    n, _, high, low = split_expm1(square, scalar.fma(-a, a, -square))
    q = (a - 4.0) / (a + 4.0)
    numerator = fast_two_sum(scalar.lift(_SCALED[0], a.dtype), q * polynomial(q, _SCALED[1:]))
    denominator = scalar.fma(a, 2.0, scalar.lift(1.0, a.dtype))
    scaled = divide(numerator, Pair(denominator, scalar.fma(a, 2.0, 1.0 - denominator)))
    return scale(scaled.high + scalar.fma(scaled.high, high + low, scaled.low), n)


def erf(x: Expr) -> Expr:
    """The error function; at most 1.5 ulp."""
    a = scalar.absolute(x)
    if x.dtype is dtypes.float32:
        return with_sign_of(_single(at_most(a, 4.0)), x)
    tail = _tail(at_most(at_least(a, 1.0), 6.0))
    near = at_most(a, 1.0)
    result = where(a < 1.0, near + _small(near), 1.0 - tail)
    return where(scalar.is_nan(x), x, with_sign_of(result, x))


def _single(a: Expr) -> Expr:
    """erf(a) of a float32 in [0, 4], as -expm1(log(erfc(a)))."""
    series = polynomial(a, _LOG_ERFC)
    size = scalar.fma(a, series, a)
    _, n, fraction = reduced_expm1(-size, scalar.fma(-a, series, size - a))
    power = power_of_two(n, FLOAT32)
    return scalar.fma(-power, fraction, 1.0 - power)


def erfc(x: Expr) -> Expr:
    """1 - erf(x), with full relative precision in the tail; at most 1 ulp in float32, 2 ulp in float64."""
    if x.dtype is dtypes.float32:
        return scalar.convert(erfc(scalar.convert(x, dtypes.float64)), x.dtype)
    a = scalar.absolute(x)
    tail = _tail(at_most(a, 27.5))
    near = at_least(at_most(x, 0.75), -0.75)
    small = (1.0 - near) - _small(near)
    return where(a < 0.75, small, where(x < 0.0, 2.0 - tail, tail))


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.ERF: erf, Fn.ERFC: erfc}
