"""Orthogonal polynomials, for references: of a place `x` and a degree `n`, both arrays of one float dtype.

The degree is cut to a whole number; where it is negative, or NaN, the value is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .special import scipy_function

_HERMITE_LIMIT = {4: 128, 8: 512}
"""The largest degree of Hermite polynomials, by item size; above they are NaN, as in PyTorch."""


def _by_degree(name: str, x: Any, n: Any, shift: int = 0, start: float = 0.0) -> Any:
    """SciPy's polynomial of degree `n + shift` in float64; `start` where that is negative."""
    with np.errstate(all="ignore"):
        degree = np.trunc(np.nan_to_num(n.astype(np.float64), nan=-1.0, posinf=-1.0, neginf=-1.0)).astype(np.int64)
        degree = degree + shift
        value = scipy_function(name)(np.maximum(degree, 0), x.astype(np.float64))
    return np.where(degree < 0, start, value)


def _result(value: Any, x: Any, n: Any) -> Any:
    """In the dtype of `x`, and 0 for negative degrees."""
    with np.errstate(all="ignore"):
        return np.where(n > -1, value, 0.0).astype(x.dtype)


def chebyshev_polynomial_t(x: Any, n: Any) -> Any:
    """The polynomial of the first kind: `cos(n t)` at `x = cos(t)`.

    >>> chebyshev_polynomial_t(np.array([0.5]), np.array([2.0]))
    array([-0.5])
    """
    return _result(_by_degree("eval_chebyt", x, n), x, n)


def chebyshev_polynomial_u(x: Any, n: Any) -> Any:
    """The polynomial of the second kind: `sin((n + 1) t) / sin(t)` at `x = cos(t)`."""
    return _result(_by_degree("eval_chebyu", x, n), x, n)


def chebyshev_polynomial_v(x: Any, n: Any) -> Any:
    """The polynomial of the third kind: U(n) - U(n-1)."""
    return _result(_by_degree("eval_chebyu", x, n) - _by_degree("eval_chebyu", x, n, -1), x, n)


def chebyshev_polynomial_w(x: Any, n: Any) -> Any:
    """The polynomial of the fourth kind: U(n) + U(n-1)."""
    return _result(_by_degree("eval_chebyu", x, n) + _by_degree("eval_chebyu", x, n, -1), x, n)


def _shifted(x: Any) -> Any:
    return 2.0 * x.astype(np.float64) - 1.0


def shifted_chebyshev_polynomial_t(x: Any, n: Any) -> Any:
    """The polynomial of the first kind at `2x - 1`."""
    return chebyshev_polynomial_t(_shifted(x), n).astype(x.dtype)


def shifted_chebyshev_polynomial_u(x: Any, n: Any) -> Any:
    """The polynomial of the second kind at `2x - 1`."""
    return chebyshev_polynomial_u(_shifted(x), n).astype(x.dtype)


def shifted_chebyshev_polynomial_v(x: Any, n: Any) -> Any:
    """The polynomial of the third kind at `2x - 1`."""
    return chebyshev_polynomial_v(_shifted(x), n).astype(x.dtype)


def shifted_chebyshev_polynomial_w(x: Any, n: Any) -> Any:
    """The polynomial of the fourth kind at `2x - 1`."""
    return chebyshev_polynomial_w(_shifted(x), n).astype(x.dtype)


def _hermite(name: str, x: Any, n: Any) -> Any:
    value = _by_degree(name, x, np.minimum(n, 513).astype(n.dtype))
    return np.where(n >= _HERMITE_LIMIT.get(x.dtype.itemsize, 128) + 1, np.nan, value)


def hermite_polynomial_h(x: Any, n: Any) -> Any:
    """The physicists' polynomial: `H(n+1) = 2x H(n) - 2n H(n-1)`."""
    return _result(_hermite("eval_hermite", x, n), x, n)


def hermite_polynomial_he(x: Any, n: Any) -> Any:
    """The probabilists' polynomial: `He(n+1) = x He(n) - n He(n-1)`."""
    return _result(_hermite("eval_hermitenorm", x, n), x, n)


def laguerre_polynomial_l(x: Any, n: Any) -> Any:
    """The Laguerre polynomial, 1 at 0."""
    return _result(_by_degree("eval_laguerre", x, n), x, n)


def legendre_polynomial_p(x: Any, n: Any) -> Any:
    """The Legendre polynomial, 1 at 1."""
    return _result(_by_degree("eval_legendre", x, n), x, n)
