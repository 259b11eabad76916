"""The remainder of a division towards zero (C's fmod), exactly, without a library call for ordinary operands.

With the quotient `q = trunc(|x| / |y|)` below 2**53, `fma(-q, |y|, |x|)` is exact, and is the remainder, or that less
`|y|` where rounding lifted the quotient to the next integer. float32 divides in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, where

from .formats import with_sign_of

LARGEST_QUOTIENT: Final = 2.0**53


def _magnitude(x: Expr) -> Expr:
    """|x| in float64."""
    return scalar.convert(scalar.absolute(x), dtypes.float64)


def remainder(x: Expr, y: Expr) -> Expr:
    """`x - trunc(x / y) * y` exactly, with the sign of `x`; NaN for infinite `x` or zero `y`. Quotients to 2**53."""
    a, b = _magnitude(x), _magnitude(y)
    quotient = scalar.apply(Fn.TRUNC, a / b)
    rest = scalar.fma(-quotient, b, a)
    rest = where(rest < 0.0, rest + b, rest)
    rest = where(b.eq(math.inf) & (a < math.inf), a, rest)
    return with_sign_of(scalar.convert(rest, x.dtype), x)


def beyond(x: Expr, y: Expr) -> Expr:
    """Where the quotient is too large for `remainder`."""
    a, b = _magnitude(x), _magnitude(y)
    return (a / b >= LARGEST_QUOTIENT) & (a < math.inf) & (b > 0.0)


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.REM: remainder}
