"""sinh, cosh and tanh from expm1, which keeps their relative precision around 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr, Fn

from .exponential import expm1
from .formats import at_most, format_of, with_sign_of


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent `t / (t + 2)` with `t = expm1(2|x|)`."""
    largest = 0.36 * (format_of(x).mantissa + 3)
    doubled = at_most(scalar.absolute(x), largest) * 2.0
    t = expm1(doubled)
    return with_sign_of(t / (t + 2.0), x)


EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {Fn.TANH: tanh}
