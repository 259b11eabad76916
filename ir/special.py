"""Special functions that NumPy lacks, for references: SciPy's, loaded when first needed.

They are the oracle and serve small arrays; large ones run on generated kernels. On a few elements erf, erfc and
lgamma, which networks use, are Python's, so that small scripts need not load SciPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _lgamma_of(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


_lgamma = np.frompyfunc(_lgamma_of, 1, 1)


def _is_large(x: Any) -> bool:
    """Whether there are enough elements for SciPy's loading to pay."""
    return isinstance(x, np.ndarray) and x.size >= 2048


def erf(x: Any) -> Any:
    """The error function, in the dtype of `x`.

    >>> erf(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8427])
    """
    return _by_scipy("erf", x) if _is_large(x) else np.asarray(_erf(x), dtype=x.dtype)


def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation, in the dtype of `x`."""
    return _by_scipy("erfc", x) if _is_large(x) else np.asarray(_erfc(x), dtype=x.dtype)


def lgamma(x: Any) -> Any:
    """The logarithm of |gamma(x)|, infinite at the poles, in the dtype of `x`."""
    if _is_large(x):
        return np.where(np.isneginf(x), np.inf, _by_scipy("gammaln", x)).astype(x.dtype, copy=False)
    return np.asarray(_lgamma(x), dtype=x.dtype)


def scipy_function(name: str) -> Any:
    """`scipy.special.name`; SciPy is loaded when first asked for."""
    import scipy.special

    return getattr(scipy.special, name)


def _by_scipy(name: str, *xs: Any) -> Any:
    """SciPy's function of that name on float arrays, in their dtype; half types are computed in float32."""
    wide = [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in xs]
    with np.errstate(all="ignore"):
        return np.asarray(scipy_function(name)(*wide), dtype=xs[0].dtype)


def digamma(x: Any) -> Any:
    """The derivative of log gamma, in the dtype of `x`."""
    return _by_scipy("psi", x)


def polygamma(n: int, x: Any) -> Any:
    """The `n`-th derivative of digamma for `n` from 1 on, in the dtype of `x`."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if n == 1:
            return np.asarray(_trigamma(wide), dtype=x.dtype)
        sign = 1.0 if n % 2 else -1.0
        return np.asarray(
            sign * scipy_function("gamma")(n + 1.0) * scipy_function("zeta")(n + 1.0, wide), dtype=x.dtype
        )


def _trigamma(x: Any) -> Any:
    """By reflection below 1/2, where the zeta function does not go."""
    value = scipy_function("zeta")(2.0, np.where(x < 0.5, 1.0 - x, x))
    wave = np.sin(np.pi * (x - np.rint(x)))
    return np.where(x < 0.5, np.where(x == -np.inf, np.inf, (np.pi / wave) ** 2 - value), value)


def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function `sum((k + q)**-x)`, in the dtype of `x`."""
    return _by_scipy("zeta", x, q)


def gammainc(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function, in the dtype of `a`."""
    return _by_scipy("gammainc", a, x)


def gammaincc(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function, in the dtype of `a`."""
    return _by_scipy("gammaincc", a, x)


def erfinv(x: Any) -> Any:
    """The inverse of the error function, in the dtype of `x`."""
    return _by_scipy("erfinv", x)


def erfcx(x: Any) -> Any:
    """exp(x²) erfc(x), in the dtype of `x`."""
    return _by_scipy("erfcx", x)


def ndtri(x: Any) -> Any:
    """The inverse of the normal distribution function, in the dtype of `x`."""
    return _by_scipy("ndtri", x)


def log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution function, in the dtype of `x`."""
    return _by_scipy("log_ndtr", x)


def entr(x: Any) -> Any:
    """`-x log x`, minus infinity below 0, in the dtype of `x`."""
    return _by_scipy("entr", x)


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0, in the dtype of `x`."""
    return np.where(np.isinf(x), abs(x), _by_scipy("i0", x)).astype(x.dtype, copy=False)


def i0e(x: Any) -> Any:
    """exp(-|x|) I0(x), in the dtype of `x`."""
    return _by_scipy("i0e", x)


def i1(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 1, in the dtype of `x`."""
    return np.where(np.isinf(x), x, _by_scipy("i1", x)).astype(x.dtype, copy=False)


def i1e(x: Any) -> Any:
    """exp(-|x|) I1(x), in the dtype of `x`."""
    return _by_scipy("i1e", x)


def bessel_j0(x: Any) -> Any:
    """The Bessel function of the first kind of order 0, in the dtype of `x`."""
    return _by_scipy("j0", x)


def bessel_j1(x: Any) -> Any:
    """The Bessel function of the first kind of order 1, in the dtype of `x`."""
    return _by_scipy("j1", x)


def bessel_y0(x: Any) -> Any:
    """The Bessel function of the second kind of order 0, in the dtype of `x`."""
    return _by_scipy("y0", x)


def bessel_y1(x: Any) -> Any:
    """The Bessel function of the second kind of order 1, in the dtype of `x`."""
    return _by_scipy("y1", x)


def modified_bessel_k0(x: Any) -> Any:
    """The modified Bessel function of the second kind of order 0, in the dtype of `x`."""
    return _by_scipy("k0", x)


def modified_bessel_k1(x: Any) -> Any:
    """The modified Bessel function of the second kind of order 1, in the dtype of `x`."""
    return _by_scipy("k1", x)


def scaled_modified_bessel_k0(x: Any) -> Any:
    """exp(x) K0(x), in the dtype of `x`."""
    return _by_scipy("k0e", x)


def scaled_modified_bessel_k1(x: Any) -> Any:
    """exp(x) K1(x), in the dtype of `x`."""
    return _by_scipy("k1e", x)


def airy_ai(x: Any) -> Any:
    """The Airy function Ai, in the dtype of `x`."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    value = scipy_function("airy")(wide)[0]
    return np.where(wide > 104.0, 0.0, value).astype(x.dtype)  # SciPy gives NaN for huge arguments


def spherical_bessel_j0(x: Any) -> Any:
    """sin(x) / x, in the dtype of `x`."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    with np.errstate(all="ignore"):
        ratio = np.sin(wide) / np.where(wide == 0, 1, wide)
    return np.where(wide == 0, 1.0, np.where(np.isinf(wide), 0.0, ratio)).astype(x.dtype)
