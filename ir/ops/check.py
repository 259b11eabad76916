"""Checks of values: what an op refuses at run time, as nodes of their own.

Eagerly an op looks at its operands and raises. Generated kernels cannot raise, so a trace puts the checks that an
op names in `value_checks` in front of it; they run on the host, in program order.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .. import lapack
from ..errors import ArgumentError, DimError, DivisionByZeroError, IndexRangeError, LinAlgError, OperationError
from ..op import Array, Op, op
from ..types import TensorType

__all__ = [
    "Check",
    "CheckBetween",
    "CheckDivisor",
    "CheckFinite",
    "CheckIndex",
    "CheckInfo",
    "CheckNotNegative",
    "CheckPositiveSum",
    "CheckRange",
    "CheckWeights",
]


_FEW = 64  # elements, up to which Python looks at them faster than NumPy


def _extremes(x: Array) -> tuple[int, int]:
    """The least and the greatest of some integers; zeros if there are none."""
    if not x.size:
        return 0, 0
    if x.size > _FEW:
        return x.min(), x.max()
    found = x.tolist() if x.ndim == 1 else x.ravel().tolist()
    return min(found), max(found)


def _counts_below(x: Array, limit: int) -> bool:
    """Whether many integers are surely in `[0, limit)`: in one pass, as negative ones are huge without their sign."""
    return x.size > _FEW and x.dtype.kind in "iu" and bool(x.view(f"u{x.itemsize}").max() < limit)


class Check(Op):
    """Gives its operand unchanged, itself, or raises."""

    batchable = True

    effect = True
    differentiable = False
    waits: ClassVar[bool] = False  # whether kernels may run on what is refused, and the answer is looked at afterwards

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        return operands[:1]

    def shifted(self, size: int) -> Op:
        """Axes that a check names are for its message."""
        return self

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
class CheckDivisor(Check):
    """Raises `ZeroDivisionError` where an integer divisor of the op `of` is zero."""

    of: str
    name = "check_divisor"

    def refuse(self, x: Array) -> None:
        """No zeros."""
        if not np.all(x):
            raise DivisionByZeroError(f"{self.of}: an integer is divided by zero")


@op
class CheckRange(Check):
    """Raises `IndexError` where an index for the op `of` is outside `[low, high)` and is not `ignored`."""

    of: str
    low: int
    high: int
    ignored: int
    name = "check_range"

    def refuse(self, x: Array) -> None:
        """Every index in range."""
        if self.low <= 0 and _counts_below(x, self.high):
            return
        least, most = _extremes(x)
        if least >= self.low and most < self.high:
            return
        bad = ((x < self.low) | (x >= self.high)) & (x != self.ignored)
        if np.any(bad):
            raise DimError(f"{self.of}: target {x[bad].flat[0]} is out of range for {self.high} classes")


@op
class CheckIndex(Check):
    """Raises `IndexError` where an index for the op `of`, along `axis` of `length`, is outside `[-length, length)`."""

    of: str
    axis: int
    length: int
    name = "check_index"

    def refuse(self, x: Array) -> None:
        """Every index in range."""
        if _counts_below(x, self.length):
            return
        least, most = _extremes(x)
        if x.size and (most >= self.length or least < -self.length):
            bad = next(int(i) for i in x.flat if not -self.length <= i < self.length)
            raise IndexRangeError(
                f"{self.of}: index {bad} is out of bounds for dimension {self.axis} with size {self.length}"
            )


@op
class CheckBetween(Check):
    """Raises `RuntimeError` where an element of `what`, an operand of the op `of`, is not in `[low, high]`."""

    of: str
    what: str
    low: float
    high: float
    name = "check_between"
    waits = True

    def refuse(self, x: Array) -> None:
        """No element outside; NaN is."""
        if x.size <= _FEW and all(self.low <= v <= self.high for v in x.ravel().tolist()):
            return
        within = (x >= self.low) & (x <= self.high)
        if not np.all(within):
            raise OperationError(
                f"{self.of}: all elements of {self.what} should be between {self.low} and {self.high}, "
                f"but one is {x[~within].flat[0]}"
            )


@op
class CheckPositiveSum(Check):
    """Raises `RuntimeError` where the probabilities along the last axis, for the op `of`, sum to zero."""

    of: str
    name = "check_positive_sum"
    waits = True

    def refuse(self, x: Array) -> None:
        """A sum above 0 in each row."""
        if not np.all(x.sum(-1) > 0):
            raise OperationError(f"{self.of}: invalid multinomial distribution (sum of probabilities <= 0)")


@op
class CheckNotNegative(Check):
    """Raises `ValueError` where an element of `what`, an operand of the op `of`, is negative."""

    of: str
    what: str
    name = "check_not_negative"
    waits = True

    def refuse(self, x: Array) -> None:
        """No element below 0; NaN is not."""
        if np.any(x < 0):
            raise ArgumentError(f"{self.of}: {self.what} has negative entry/entries: {x[x < 0].flat[0]}")


@op
class CheckFinite(Check):
    """Raises `LinAlgError` where a matrix for the function `of` holds NaN or infinity, in the triangle that it reads.

    `part` is "lower", "upper" or "all".
    """

    of: str
    part: str = "all"
    name = "check_finite"

    def refuse(self, x: Array) -> None:
        """Numbers alone."""
        lapack.check_finite(self.of, x if self.part == "all" else lapack.triangle(x, self.part == "upper"))


@op
class CheckInfo(Check):
    """Raises `LinAlgError` where LAPACK's `info` on a matrix is not 0: `rule`, with that number for `{info}`."""

    of: str
    rule: str
    name = "check_info"

    def refuse(self, x: Array) -> None:
        """All zero."""
        if np.any(x):
            first = int(np.flatnonzero(x)[0])
            batch = f": (Batch element {first})" if x.ndim else ""
            raise LinAlgError(f"{self.of}{batch}: {self.rule.format(info=int(x.reshape(-1)[first]))}")


@op
class CheckWeights(Check):
    """Raises `RuntimeError` where a weight, of the operand `what` of the function `of`, is negative."""

    of: str
    what: str
    name = "check_weights"

    def refuse(self, x: Array) -> None:
        """None below 0."""
        if np.any(x < 0):
            raise OperationError(f"{self.of}(): {self.what} cannot be negative")
