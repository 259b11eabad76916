"""Values that are another value's memory seen through strides: what a matrix product reads without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitgrad.ir.graph import Value
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.tracked import always_equal

from .classify import squeezes


@dataclass(frozen=True, slots=True)
class Strided:
    """`source`, contiguous in memory, read from element `offset` on with `strides` (in elements)."""

    source: Value
    offset: int
    strides: tuple[int, ...]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def strided(value: Value) -> Strided:
    """`value` followed back through permutations, broadcasts, slices and axes of length 1."""
    if value.node is None or len(value.node.operands) != 1:
        return Strided(value, 0, contiguous_strides(value.shape))
    (operand,) = value.node.operands
    match value.node.op:
        case Permute(perm=perm):
            inner = strided(operand)
            return Strided(inner.source, inner.offset, tuple(inner.strides[a] for a in perm))
        case BroadcastTo(shape=shape):
            inner = strided(operand)
            extra = (0,) * (len(shape) - len(operand.shape))
            kept = zip(inner.strides, operand.shape, shape[len(extra) :])
            return Strided(inner.source, inner.offset, extra + tuple(s if n == m else 0 for s, n, m in kept))
        case Slice(starts=starts, steps=steps) if all(s > 0 for s in steps):
            inner = strided(operand)
            offset = inner.offset + sum(a * s for a, s in zip(starts, inner.strides))
            return Strided(inner.source, offset, tuple(s * k for s, k in zip(inner.strides, steps)))
        case Reshape(shape=shape) if squeezes(operand.shape, shape):
            inner = strided(operand)
            rest = iter([s for s, n in zip(inner.strides, operand.shape) if not always_equal(n, 1)])
            return Strided(inner.source, inner.offset, tuple(0 if always_equal(n, 1) else next(rest) for n in shape))
    return Strided(value, 0, contiguous_strides(value.shape))


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """How BLAS is told to read the last two axes: transposed or not, and the leading dimension."""

    transposed: bool
    leading: int


def matrix_layout(shape: Sequence[int], strides: Sequence[int]) -> MatrixLayout | None:
    """The layout of the last two axes, or `None` where neither of them is contiguous."""
    (rows, columns), (by_row, by_column) = shape[-2:], strides[-2:]
    if rows == 0 or columns == 0:
        return MatrixLayout(False, max(columns, 1))
    if (by_column == 1 or columns == 1) and (by_row >= max(1, columns) or rows == 1):
        return MatrixLayout(False, max(by_row, columns, 1) if rows != 1 else max(columns, 1))
    if (by_row == 1 or rows == 1) and (by_column >= max(1, rows) or columns == 1):
        return MatrixLayout(True, max(by_column, rows, 1) if columns != 1 else max(rows, 1))
    return None


def product_operand(value: Value) -> Strided:
    """What a matrix product reads for `value`: through views where BLAS can, else `value` itself, contiguous."""
    seen = strided(value)
    if matrix_layout(value.shape, seen.strides) is None:
        return Strided(value, 0, contiguous_strides(value.shape))
    return seen
