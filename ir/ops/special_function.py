"""What ops of special functions share: one float operand, computed in float64 by kernels."""

from __future__ import annotations

from typing import ClassVar

from .. import dtypes, scalar
from ..scalar import Expr
from .math import SmoothPointwise

__all__ = ["SpecialFunction"]


class SpecialFunction(SmoothPointwise):
    """A smooth function of one float, whose `formula` is written for float64 elements."""

    accepts: ClassVar[tuple[str, ...]] = ("float",)

    def scalar(self, *xs: Expr) -> Expr:
        """`formula` in float64, rounded once."""
        (x,) = xs
        return scalar.convert(self.formula(scalar.convert(x, dtypes.float64)), x.dtype)
