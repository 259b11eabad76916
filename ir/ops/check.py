"""Checks of values: what an op refuses at run time, as nodes of their own.

Eagerly an op looks at its operands and raises. Generated kernels cannot raise, so a trace puts the checks that an
op names in `value_checks` in front of it; they run on the host, in program order.
"""

from __future__ import annotations

import numpy as np

from ..errors import DimError, DivisionByZeroError
from ..op import Array, Op, op
from ..types import TensorType

__all__ = ["CheckDivisor", "CheckRange"]


class _Check(Op):
    """Gives its operand unchanged, or raises."""

    effect = True
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        return operands[:1]

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: kernels cannot raise."""
        return False

    def refuse(self, x: Array) -> None:
        """Raise if a value is not allowed."""

    def reference(self, *operands: Array) -> Array:
        """The operand, after the check."""
        (x,) = operands
        self.refuse(x)
        return x


@op
class CheckDivisor(_Check):
    """Raises `ZeroDivisionError` where an integer divisor of the op `of` is zero."""

    of: str
    name = "check_divisor"

    def refuse(self, x: Array) -> None:
        """No zeros."""
        if not np.all(x):
            raise DivisionByZeroError(f"{self.of}: an integer is divided by zero")


@op
class CheckRange(_Check):
    """Raises `IndexError` where an index for the op `of` is outside `[low, high)` and is not `ignored`."""

    of: str
    low: int
    high: int
    ignored: int
    name = "check_range"

    def refuse(self, x: Array) -> None:
        """Every index in range."""
        bad = ((x < self.low) | (x >= self.high)) & (x != self.ignored)
        if np.any(bad):
            raise DimError(f"{self.of}: target {x[bad].flat[0]} is out of range for {self.high} classes")
