"""`AsStrided`: a view of a vector with strides of one's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Load, Values, View, op
from ..scalar import Expr
from ..types import Shape, TensorType
from .arithmetic import Add, Mul
from .broadcast import BroadcastTo
from .creation import Full, Iota, zeros_like
from .indexing import IndexAdd
from .shape import Reshape

__all__ = ["AsStrided"]


@op
class AsStrided(View):
    """Of a vector, the elements at `offset` plus the index times `strides`, counted in elements.

    >>> import jitgrad as jg
    >>> jg.arange(6).as_strided((2, 3), (1, 2))
    tensor([[0, 2, 4],
            [1, 3, 5]])
    """

    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0
    name = "as_strided"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A vector that holds every element named, and a stride of 0 or more for each axis."""
        (x,) = operands
        if x.ndim != 1 or len(self.shape) != len(self.strides):
            raise ShapeError(
                f"as_strided: {len(self.strides)} strides for shape {list(self.shape)}{operand_lines(operands)}"
            )
        last = self.offset + sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True))
        if min((self.offset, *self.strides, *self.shape)) < 0 or (0 not in self.shape and last >= x.numel):
            raise ShapeError(
                f"as_strided: shape {list(self.shape)}, strides {list(self.strides)} and offset {self.offset} need "
                f"{last + 1} elements{operand_lines(operands)}"
            )
        return (x.with_shape(self.shape),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """One stride more: the length of a sample."""
        (x,) = operands
        flat = b(Reshape((x.size,)), x)
        return (b(AsStrided((size, *self.shape), (x.shape[1], *self.strides), self.offset), flat),)

    def reference(self, *operands: Array) -> Array:
        """The same memory with other strides."""
        (x,) = operands
        if 0 in self.shape:
            return x[:0].reshape(self.shape)
        step = x.strides[0]
        return np.lib.stride_tricks.as_strided(x[self.offset :], self.shape, [s * step for s in self.strides])

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element at `offset + index . strides`."""
        position = scalar.size(self.offset)
        for i, stride in zip(index, self.strides, strict=True):
            position = position + i * scalar.size(stride)
        return operands[0]((position,))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent added up where it was read."""
        (g,) = cotangents
        assert g is not None
        places = b(Reshape((g.size,)), self._places(b, g))
        return (b(IndexAdd(0), zeros_like(b, operands[0]), places, b(Reshape((g.size,)), g)),)

    def _places(self, b: Builder, g: Value) -> Value:
        device = g.type.device
        total = b(Full(self.shape, dtypes.int64, self.offset, device))
        for axis, (n, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = b(Mul(), b(Iota((n,), 0, dtypes.int64, device)), b(Full((n,), dtypes.int64, stride, device)))
            line = b(Reshape(tuple(n if a == axis else 1 for a in range(len(self.shape)))), steps)
            total = b(Add(), total, b(BroadcastTo(self.shape), line))
        return total
