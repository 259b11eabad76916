"""Putting elements at given places of an axis: `Unpool`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import DimError, DTypeError, ShapeError, operand_lines
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .indexing import Gather

__all__ = ["Unpool"]


@op
class Unpool(Op):
    """The elements of `x` put at the places that `index` names along the last axis, of `length`; zeros elsewhere.

    Places are taken to be distinct, as pooling of separate windows gives them. If they are not, the last in
    row-major order stays, and each gets the gradient of its place, as in PyTorch.

    >>> import numpy as np
    >>> Unpool(4).reference(np.array([5.0, 3.0]), np.array([1, 3]))
    array([0., 5., 0., 3.])
    """

    length: int
    name = "unpool"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """An int64 index of the operand's shape."""
        x, index = operands
        if index.dtype is not dtypes.int64:
            raise DTypeError(f"unpool: the index is {index.dtype.name}, not int64{operand_lines(operands)}")
        if x.shape != index.shape or not x.ndim:
            raise ShapeError(f"unpool: the index must have the operand's shape{operand_lines(operands)}")
        return (x.with_shape((*x.shape[:-1], self.length)),)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: an index out of range must raise."""
        return False

    def reference(self, *operands: Array) -> Array:
        """`numpy.put_along_axis`."""
        x, index = operands
        if index.size and (index.min() < 0 or index.max() >= self.length):
            bad = next(int(i) for i in index.flat if not 0 <= i < self.length)
            raise DimError(f"unpool: index {bad} is out of range for length {self.length}")
        out = np.zeros((*x.shape[:-1], self.length), x.dtype)
        np.put_along_axis(out, index, x, -1)
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent read at the index."""
        (g,) = cotangents
        assert g is not None
        return b(Gather(g.ndim - 1), g, operands[1]), None
