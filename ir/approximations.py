"""Special functions as scalar expressions of float64 elements, for the `scalar` rules of ops.

They are built over the closed set of scalar functions, so that every backend has them and kernels fuse them.
Chebyshev series are fits to 40 digits, kept to float64's last place. Errors stated are against mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from . import scalar
from .scalar import Expr, Fn, where

I0E_NEAR: Final = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
    -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
    -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
    -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17,
    -4.4153416464793395e-18,
)  # fmt: skip
"""exp(-x) I0(x) in x/4 - 1 on [0, 8]."""
I0E_FAR: Final = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18,
)  # fmt: skip
"""sqrt(x) exp(-x) I0(x) in 16/x - 1 on [8, inf)."""
I1E_NEAR: Final = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
"""exp(-x) I1(x) / x in x/4 - 1 on [0, 8]."""
I1E_FAR: Final = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18, -9.314178867326884e-19, -1.242193275194891e-18,
)  # fmt: skip
"""sqrt(x) exp(-x) I1(x) in 16/x - 1 on [8, inf)."""
_ERFCX: Final = (
    1.1774832005374487, -0.007260796620301901, -0.081265123236185, 0.06009212804122225, -0.02875393558027666,
    0.01059566336347286, -0.003136927294554264, 0.0007456494372536184, -0.0001369696503010054,
    1.7183861600300937e-05, -7.158364623450346e-07, -2.4261399442449534e-07, 5.5765709395703566e-08,
    -2.1057869513809494e-09, -1.1717889351884957e-09, 1.9098355172456688e-10, 1.408871764208813e-11,
    -6.901108320480815e-12, 9.167958364111294e-14, 2.1454508286554553e-13, -1.4716575027010623e-14,
    -6.668675118770408e-15, 7.504598509880083e-16, 2.22009300666632e-16, -3.1704898956330886e-17,
    -8.193570309884333e-18,
)  # fmt: skip
"""(1 + 2x) exp(x²) erfc(x) in (x - 4) / (x + 4) on [0, inf) (Shepherd and Laframboise, Math. Comp. 36, 1981)."""
_ERFINV_CENTRE: Final = (
    1.6304220989459326, 0.7315674456742257, -0.021235032142504585, -0.0065808875424494635, 0.0019488711426908524,
    -0.00014158343386374536, -4.9292864636180004e-05, 1.4752887929042498e-05, -6.111918603258194e-07,
    -5.106997335480761e-07, 1.159027723297735e-07, 1.4907998843194937e-09, -5.244776785530681e-09,
    8.51790549109762e-10, 7.917020592973908e-11, -5.0994281737154326e-11, 5.436227530231317e-12,
    1.292282189751795e-12, -4.656064719044143e-13, 2.4256976317675218e-14, 1.6403697972051414e-14,
    -3.94956069090147e-15, -3.9036001761416307e-17, 1.83129083527959e-16, -3.03580260263594e-17,
)  # fmt: skip
"""erfinv(y) / y in w/3.125 - 1 with w = -log(1 - y²) on [0, 6.25]."""
_ERFINV_MIDDLE: Final = (
    3.085744844023102, 0.7524837268921277, 0.0019842584172056767, -0.000534561900101604, 0.0001302806745904227,
    -2.943377534710642e-05, 5.231051543788091e-06, -5.385189635316591e-07, -2.922686732135409e-08,
    2.3903569231251557e-08, -4.411209869554094e-09, 2.2053622855049448e-10, 8.095391923249493e-11,
    -2.1642011149793333e-11, 1.9364299208504444e-12, 1.9183918173325102e-13, -8.245551635697369e-14,
    1.0402388222104601e-14, 2.9484539267546553e-17, -2.4669496593190295e-16, 4.5962728850225956e-17,
)  # fmt: skip
"""The same in (sqrt(w) - 3.25) / 0.75 on [2.5, 4]."""
_ERFINV_TAIL: Final = (
    0.9801039841319912, -0.019341200375899172, -0.001150315888757324, 0.00036994477831878294, -4.193044837514381e-05,
    6.641954136766098e-06, -1.4725405276917473e-06, 3.7490944983992467e-07, -1.0108814962160206e-07,
    3.055143952214779e-08, -8.99603157845767e-09, 3.0747952085346427e-09, -9.605160042935367e-10,
    3.4131790026397755e-10, -1.1918537597281176e-10, 4.043327434185263e-11, -1.5626459826051062e-11,
    5.482974891751189e-12, -2.0022065485222934e-12, 8.030919496882109e-13, -2.853013137240252e-13,
    1.0888441162756298e-13, -4.503013699671069e-14, 1.6221185708079413e-14, -6.283558215401338e-15,
    2.6969568155784864e-15, -9.905140780177032e-16, 3.7719539757522354e-16, -1.6872751308966015e-16,
    6.461492231861863e-17, -2.3417970524576468e-17, 1.071259613752886e-17, -4.469210682885086e-18,
)  # fmt: skip
"""erfinv(y) / (y sqrt(w)), in 1/sqrt(w) on [1/27.4, 1/4] brought to [-1, 1]."""
_TAIL_CENTRE: Final = (0.25 + 1 / 27.4) / 2
_TAIL_HALF: Final = (0.25 - 1 / 27.4) / 2
_DIGAMMA: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B(2k) / 2k, of the asymptotic series in 1/x²."""
_TRIGAMMA: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B(2k)."""
_SHIFT: Final = 10
"""From here on the asymptotic series of digamma and trigamma hold."""


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """`sum(c[i] x**i)` by Horner's rule.

    >>> from jitgrad.ir import dtypes
    >>> print(polynomial(scalar.arg(0, dtypes.float64), [1.0, 2.0]))
    ((2.0 * %0) + 1.0)
    """
    result = scalar.lift(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


def chebyshev(t: Expr, coefficients: Sequence[float]) -> Expr:
    """`sum(c[i] T_i(t))` by Clenshaw's recurrence, for `t` in [-1, 1]."""
    twice = t + t
    below, last = scalar.lift(0.0, t.dtype), scalar.lift(coefficients[-1], t.dtype)
    for c in reversed(coefficients[1:-1]):
        below, last = last, (twice * last - below) + c
    return (t * last - below) + coefficients[0]


def _bounded(x: Expr, low: float, high: float) -> Expr:
    x = where(x < low, low, x)
    return where(x > high, high, x)


def _scaled_bessel(a: Expr, near: Expr, series: Sequence[float]) -> Expr:
    """`near` up to 8, and from there on the series in 16/a - 1 over the root of a."""
    bounded = where(a < 8.0, 8.0, a)
    far = chebyshev(16.0 / bounded - 1.0, series) / scalar.sqrt(bounded)
    return where(a <= 8.0, near, where(a.eq(math.inf), 0.0, far))


def i0e(x: Expr) -> Expr:
    """exp(-|x|) I0(x); at most 4 ulp."""
    a = scalar.absolute(x)
    return _scaled_bessel(a, chebyshev(_bounded(a, 0.0, 8.0) * 0.25 - 1.0, I0E_NEAR), I0E_FAR)


def i1e(x: Expr) -> Expr:
    """exp(-|x|) I1(x); at most 10 ulp."""
    a = scalar.absolute(x)
    near = a * chebyshev(_bounded(a, 0.0, 8.0) * 0.25 - 1.0, I1E_NEAR)
    return scalar.apply(Fn.COPYSIGN, _scaled_bessel(a, near, I1E_FAR), x)


def unscaled(value: Expr, x: Expr) -> Expr:
    """`value` times exp(|x|), infinite only where the product is."""
    a = scalar.absolute(x)
    half = scalar.exp(a * 0.5)
    product = (value * half) * half
    return where(a.eq(math.inf), scalar.apply(Fn.COPYSIGN, scalar.const(math.inf, x.dtype), value), product)


def erfcx(x: Expr) -> Expr:
    """exp(x²) erfc(x); at most 6 ulp."""
    a = scalar.absolute(x)
    finite = where(a > 1e300, 1e300, a)
    tail = chebyshev((finite - 4.0) / (finite + 4.0), _ERFCX) / (1.0 + 2.0 * finite)
    tail = where(a > 1e16, (1.0 / math.sqrt(math.pi)) / a, tail)
    bounded = where(a > 27.0, 27.0, a)
    square = bounded * bounded
    lost = scalar.fma(bounded, bounded, -square)
    growth = 2.0 * (scalar.exp(square) * (1.0 + lost))
    return where(x < 0.0, where(a > 26.7, math.inf, growth - tail), tail)


def _erfinv_over(y: Expr, w: Expr) -> Expr:
    """erfinv(y), given w = -log(1 - y²) in [0, 750], in the manner of Giles (GPU Computing Gems 2, 2011)."""
    root = scalar.sqrt(w)
    centre = chebyshev(_bounded(w, 0.0, 6.25) / 3.125 - 1.0, _ERFINV_CENTRE)
    middle = chebyshev((_bounded(root, 2.5, 4.0) - 3.25) / 0.75, _ERFINV_MIDDLE)
    t = 1.0 / _bounded(root, 4.0, 27.4)
    tail = chebyshev((t - _TAIL_CENTRE) / _TAIL_HALF, _ERFINV_TAIL) * root
    return y * where(w < 6.25, centre, where(root < 4.0, middle, tail))


def erfinv(y: Expr) -> Expr:
    """The inverse of erf; at most 4 ulp. Infinite at -1 and 1, NaN beyond."""
    a = scalar.absolute(y)
    inside = where(a < 1.0, a, 0.0)
    value = _erfinv_over(y, -scalar.log((1.0 - inside) * (1.0 + inside)))
    value = where(a.eq(1.0), y * math.inf, value)
    return where(a > 1.0, math.nan, value)


def ndtri(p: Expr) -> Expr:
    """The inverse of the normal distribution function; at most 8 ulp. Infinite at 0 and 1, NaN beyond."""
    inside = where((p > 0.0) & (p < 1.0), p, 0.5)
    low = inside < 0.5
    q = 2.0 * where(low, inside, 1.0 - inside)
    value = _erfinv_over(where(low, q - 1.0, 1.0 - q), -scalar.log(q * (2.0 - q))) * math.sqrt(2.0)
    value = where(p.eq(0.0), -math.inf, where(p.eq(1.0), math.inf, value))
    return where((p < 0.0) | (p > 1.0), math.nan, where(scalar.is_nan(p), p, value))


def log_ndtr(x: Expr) -> Expr:
    """The logarithm of the normal distribution function, without underflow; at most 8 ulp, up to 2 x² ulp for x > 2."""
    t = x * math.sqrt(0.5)
    low = where(x < -1.0, x, -1.0)
    tail = scalar.log(erfcx(-(low * math.sqrt(0.5))) * 0.5) - low * low * 0.5
    upper = scalar.apply(Fn.LOG1P, -0.5 * scalar.apply(Fn.ERFC, where(x < -1.0, -1.0 * math.sqrt(0.5), t)))
    return where(x < -1.0, tail, upper)


def _steps(x: Expr) -> list[Expr]:
    return [x + float(i) for i in range(_SHIFT)]


def digamma(x: Expr) -> Expr:
    """The derivative of log gamma; at most 8 ulp from 2 on, below that as much of 1.

    Infinite at 0, with the opposite sign, and NaN at the other poles.
    """
    a = where(x < 0.0, 1.0 - x, x)
    factors = _steps(where(a < _SHIFT, a, 1.0))
    total = 1.0 / where(factors[0].eq(0.0), 1.0, factors[0])
    for f in factors[1:]:
        total = total + 1.0 / f
    shifted = where(a < _SHIFT, a + float(_SHIFT), a)
    inverse = 1.0 / shifted
    square = inverse * inverse
    value = (scalar.log(shifted) - 0.5 * inverse) - square * polynomial(square, _DIGAMMA)
    value = where(a < _SHIFT, value - total, value)
    value = where(a.eq(math.inf), math.inf, value)
    fraction = x - scalar.apply(Fn.ROUND, x)
    turned = where(fraction.eq(0.0), 0.25, fraction) * math.pi
    value = where(x < 0.0, value - math.pi / scalar.apply(Fn.TAN, turned), value)
    value = where((x < 0.0) & (fraction.eq(0.0) | x.eq(-math.inf)), math.nan, value)
    pole = scalar.apply(Fn.COPYSIGN, scalar.const(math.inf, x.dtype), -x)
    return where(x.eq(0.0), pole, value)


def trigamma(x: Expr) -> Expr:
    """The second derivative of log gamma; at most 10 ulp. Infinite at 0, -1, ..."""
    a = where(x < 0.5, 1.0 - x, x)
    total = scalar.const(0.0, x.dtype)
    for f in _steps(where(a < _SHIFT, a, 1.0)):
        inverse = 1.0 / f
        total = total + inverse * inverse
    shifted = where(a < _SHIFT, a + float(_SHIFT), a)
    inverse = 1.0 / shifted
    square = inverse * inverse
    value = inverse + 0.5 * square + inverse * square * polynomial(square, _TRIGAMMA)
    value = where(a < _SHIFT, value + total, value)
    wave = scalar.apply(Fn.SIN, math.pi * (x - scalar.apply(Fn.ROUND, x)))
    ratio = math.pi / where(wave.eq(0.0), 1.0, wave)
    reflected = where(wave.eq(0.0), math.inf, ratio * ratio - value)
    return where(x < 0.5, where(x.eq(-math.inf), math.inf, reflected), value)
