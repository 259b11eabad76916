"""Ops that make values out of nothing: `Full`, `Iota` and `Constant`, and short forms for gradient rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..dtypes import DType
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph import Value
from ..op import Array, IndexMap, Load, Op, op
from ..scalar import Expr
from ..symbols import Symbolic, SymbolicFloat, SymbolicInt
from ..tracked import Tracked
from ..types import CPU, Device, Shape, TensorType

__all__ = ["Constant", "Full", "Iota", "Literal", "full_like", "zeros_like"]

Number = bool | int | float | complex


def _check_shape(name: str, shape: Shape) -> None:
    if any(n < 0 for n in shape):
        raise ArgumentError(f"{name}: negative length in shape {list(shape)}")


def _as_dtype(value: Number, dtype: DType) -> Number:
    """`value` as a Python number of `dtype`'s kind, integers wrapped to its width."""
    if dtype.kind == "bool":
        return value != 0
    if dtype.is_complex:
        return complex(value)
    if isinstance(value, complex):
        raise DTypeError(f"full: the complex number {value} does not fit {dtype.name}")
    if dtype.is_floating_point:
        if isinstance(value, Tracked):
            return value
        return SymbolicFloat(value, value.expression) if isinstance(value, Symbolic) else float(value)
    span: int = 1 << (8 * dtype.itemsize)
    wrapped = int(value) % span
    wrapped = wrapped - span if dtype.is_signed and wrapped >= span // 2 else wrapped
    return value if isinstance(value, SymbolicInt) and value == wrapped else wrapped


@op
class Full(IndexMap):
    """A tensor whose elements all are `value`, of the given shape, dtype and device.

    The number is kept as a Python number of the dtype's kind; integers wrap. Kernels take it at run time.
    """

    shape: Shape
    dtype: DType
    value: Number
    device: Device = CPU
    name = "full"
    differentiable = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _as_dtype(self.value, self.dtype))

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The given type."""
        _check_shape(self.name, self.shape)
        return (TensorType(self.shape, self.dtype, self.device),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.full`."""
        return np.full(self.shape, self.value, self.dtype.np)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The number, as a run-time parameter."""
        value: Any = self.value
        return scalar.const(value, self.dtype, runtime=True)

    def can_emit(self, *operands: TensorType) -> bool:
        """Real dtypes."""
        return not self.dtype.is_complex


@op
class Iota(IndexMap):
    """The index along `axis`, as `dtype`: 0, 1, 2, ... in every stretch along that axis."""

    shape: Shape
    axis: int
    dtype: DType = dtypes.int64
    device: Device = CPU
    name = "iota"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The given type."""
        _check_shape(self.name, self.shape)
        if not 0 <= self.axis < len(self.shape):
            raise ShapeError(f"iota: axis {self.axis} is not among {len(self.shape)} axes")
        return (TensorType(self.shape, self.dtype, self.device),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.arange` along the axis."""
        length = self.shape[self.axis]
        column = np.arange(length).astype(self.dtype.np)
        stretch = column.reshape([length if i == self.axis else 1 for i in range(len(self.shape))])
        return np.broadcast_to(stretch, self.shape).copy()

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The index."""
        return scalar.convert(index[self.axis], self.dtype)

    def can_emit(self, *operands: TensorType) -> bool:
        """Real dtypes."""
        return not self.dtype.is_complex


class Literal:
    """An array as an op's attribute: read-only, compared and hashed by content (dtype, shape, bytes).

    >>> Literal(np.array([1, 2], np.int8)) == Literal(np.array([1, 2], np.int8))
    True
    """

    __slots__ = ("_key", "array")

    def __init__(self, array: Array) -> None:
        self.array: np.ndarray[Any, Any] = np.array(array, order="C")
        self.array.flags.writeable = False
        self._key = (self.array.dtype.name, self.array.shape, self.array.tobytes())

    @property
    def type(self) -> TensorType:
        """The array's type."""
        return TensorType(self.array.shape, dtypes.FROM_NUMPY[self.array.dtype])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Literal({self.type})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Literal, (self.array,)


@op
class Constant(Op):
    """An array known when the graph is built."""

    literal: Literal
    device: Device = CPU
    name = "constant"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The literal's type."""
        known = self.literal.type
        return (TensorType(known.shape, known.dtype, self.device),)

    def reference(self, *operands: Array) -> Array:
        """The array itself, read-only."""
        return self.literal.array


def full_like(b: Builder, value: Value, number: Number) -> Value:
    """`number` in the shape, dtype and device of `value`."""
    t = value.type
    return b(Full(t.shape, t.dtype, number, t.device))


def zeros_like(b: Builder, value: Value) -> Value:
    """Zeros in the shape, dtype and device of `value`."""
    return full_like(b, value, 0)
