"""Special functions that NumPy lacks, for references: the C library's, element by element.

They are the oracle and serve small arrays; large ones run on generated kernels.
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


def erf(x: Any) -> Any:
    """The error function, in the dtype of `x`.

    >>> erf(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8427])
    """
    return np.asarray(_erf(x), dtype=x.dtype)


def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation, in the dtype of `x`."""
    return np.asarray(_erfc(x), dtype=x.dtype)


def lgamma(x: Any) -> Any:
    """The logarithm of |gamma(x)|, infinite at the poles, in the dtype of `x`."""
    return np.asarray(_lgamma(x), dtype=x.dtype)
