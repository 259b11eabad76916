"""`TensorType`: shape, element type and device of a value. Immutable, compared by content."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .dtypes import DType

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """Where a tensor lives: `cpu`, or `cuda` with an index."""

    type: str = "cpu"
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"


CPU = Device()


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of an IR value. Prints as `f32[32,128]`, with `@cuda:0` behind it off the CPU."""

    shape: Shape
    dtype: DType
    device: Device = CPU

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))  # eager ops look types up, and devices hardly differ

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements (1 for a 0-d tensor)."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous buffer of this type."""
        return math.prod(self.shape) * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        """The same element type and device with another shape."""
        return TensorType(shape, self.dtype, self.device)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape and device with another element type."""
        return TensorType(self.shape, dtype, self.device)

    def __str__(self) -> str:
        suffix = "" if self.device == CPU else f"@{self.device}"
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]{suffix}"
