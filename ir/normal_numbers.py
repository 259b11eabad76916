"""Normal random numbers of two uniform ones, in float32 operations that every backend rounds alike.

The method is that of Box and Muller ("A note on the generation of random normal deviates", 1958):
`√(-2 log u) cos(2πv)`. Each product that is added to something is one `fma`, so that there is nothing to contract, and
neither the logarithm nor the cosine is a backend's own. So a number depends on its bits alone: not on the backend, on
numerics, or on whether eager code runs it by NumPy or natively.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from . import dtypes, scalar
from .scalar import Expr
from .scalar_eval import Evaluator

__all__ = ["normal", "normal_of"]

_MANTISSA: Final = 23
_ROOT_HALF: Final = 0x3F3504F3  # the bits of √½, rounded down
_LOG2: Final = 0.6931471805599453
# log((1 + s) / (1 - s)) / s and sin(2πw) / w as polynomials in the square: near-minimax, to 1e-8 of their value.
_LOGARITHM: Final = (2.0, 0.6666668509542907, 0.39988757716604845, 0.29580985929974424)
_SINE: Final = (6.283185273792969, -41.34167747871589, 81.60223125462772, -76.57499230636125, 39.71091817141174)


def normal(u: Expr, v: Expr) -> Expr:
    """√(-2 log u) cos(2πv) for float32 `u` in (0, 1] and `v` in [0, 1), multiples of 2**-24 both.

    >>> import numpy as np
    >>> from jitgrad.ir.normal_numbers import normal_of
    >>> normal_of(np.float32([0.5]), np.float32([0.0])).tolist()
    [1.1774100065231323]
    """
    bits = scalar.bitcast(u, dtypes.int32)
    k = (bits - _ROOT_HALF) >> _MANTISSA
    f = scalar.bitcast(bits - (k << _MANTISSA), dtypes.float32) - 1.0
    s = f / (f + 2.0)
    logarithm = scalar.fma(scalar.convert(k, dtypes.float32), _LOG2, s * _horner(s * s, _LOGARITHM))
    w = scalar.absolute(v - 0.5) - 0.25  # cos(2πv) = sin(2πw), and all of this is exact
    return scalar.sqrt(logarithm * -2.0) * (w * _horner(w * w, _SINE))


def _horner(z: Expr, coefficients: Sequence[float]) -> Expr:
    result = scalar.lift(coefficients[-1], z.dtype)
    for c in coefficients[-2::-1]:
        result = scalar.fma(result, z, c)
    return result


@functools.cache
def _expression() -> Expr:
    return normal(*[scalar.arg(i, dtypes.float32) for i in range(2)])


def normal_of(u: Any, v: Any) -> Any:
    """The same of NumPy's float32 arrays."""
    given = {scalar.arg(0, dtypes.float32): u, scalar.arg(1, dtypes.float32): v}
    return Evaluator(given.__getitem__)(_expression())
