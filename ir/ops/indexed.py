"""What ops that read or write at integer indices share: checks of types, shapes and the indices, and sums by place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..dtypes import DType
from ..errors import DTypeError, InternalError, ShapeError, operand_lines
from ..op import Array, Load, Op, ScatterOp
from ..scalar import Expr
from ..types import Shape, TensorType
from .broadcast import accumulator_dtype
from .check import CheckIndex

__all__: list[str] = []  # no ops here


class Indexed(Op):
    """An op with integer tensors among its operands that name places."""

    def index_axes(self, *operands: TensorType) -> tuple[int, ...]:
        """The axis that each index operand goes along; index operands follow the first operand."""
        raise InternalError(f"op {self.name} does not say what it indexes")

    def value_checks(self, *operands: TensorType) -> Sequence[tuple[int, Op]]:
        """Every index in range."""
        lengths = operands[0].shape
        axes = enumerate(self.index_axes(*operands), 1)
        return tuple((k, CheckIndex(self.name, a, lengths[a])) for k, a in axes)

    def _check_index(self, index: TensorType) -> None:
        if index.dtype.kind != "int":
            raise DTypeError(f"{self.name}: the index is {index.dtype.name}, not an integer type")

    def _check_axis(self, axis: int, x: TensorType) -> None:
        if not 0 <= axis < x.ndim:
            raise ShapeError(f"{self.name}: axis {axis} is not among {x.ndim} axes{operand_lines((x,))}")

    def _check_source(self, base: TensorType, source: TensorType, shape: Shape) -> None:
        if source.dtype is not base.dtype:
            raise DTypeError(f"{self.name}: operand dtypes differ{operand_lines((base, source))}")
        if source.shape != shape:
            raise ShapeError(
                f"{self.name}: the source's shape is {list(source.shape)}, the region's {list(shape)}"
                f"{operand_lines((base, source))}"
            )

    def _wrapped(self, index: Array, axis: int, length: int) -> Array:
        """`index` with negative values counted from the end, checked."""
        CheckIndex(self.name, axis, length).refuse(index)
        index = index.astype(np.int64)
        return np.where(index < 0, index + length, index)


def wrapped_expr(index: Expr, length: int) -> Expr:
    """An index with negative values counted from the end, as int64."""
    index = scalar.convert(index, dtypes.int64)
    return scalar.where(index < 0, index + scalar.size(length), index)


def load_wrapped(x: Load, position: Sequence[Expr], axes: Sequence[int]) -> Expr:
    """The element at `position`, which is computed along `axes`; 0 out of range."""
    lengths = x.type.shape
    within = [c for a in axes for c in (position[a] >= 0, position[a] < scalar.size(lengths[a]))]
    return x(tuple(position), scalar.every(within))


def add_rows(out: Array, rows: Array, values: Array) -> None:
    """`out[rows[i]] += values[i]` for matrices `out` and `values`, rows repeated or not."""
    if values.size == 0:
        return
    wide = accumulator_dtype(dtypes.FROM_NUMPY[values.dtype]).np
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(values[order].astype(wide, copy=False), starts, axis=0, dtype=wide)
        out[rows[starts]] = (out[rows[starts]] + sums).astype(out.dtype)


class Summing(ScatterOp):
    """A scatter that adds up; half types in float32."""

    def meet(self, present: Expr, coming: Expr) -> Expr:
        """The sum."""
        return present + coming

    def wide(self, dtype: DType) -> DType:
        """The type of sums."""
        return accumulator_dtype(dtype)
