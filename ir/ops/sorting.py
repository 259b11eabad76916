"""`Sort`: the elements along an axis in order, and where they came from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .creation import zeros_like
from .indexing import ScatterAdd

__all__ = ["Sort"]


@op
class Sort(Op):
    """The elements along `axis` from small to large, or from large to small, and their indices as int64.

    Equal elements keep their order. NaN counts as larger than any number.

    >>> import jitgrad as jg
    >>> jg.sort(jg.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """

    axis: int
    descending: bool = False
    name = "sort"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A real operand with that axis."""
        (x,) = operands
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"sort: axis {self.axis} is not among {x.ndim} axes{operand_lines(operands)}")
        if x.dtype.is_complex:
            raise DTypeError(f"sort: complex numbers have no order{operand_lines(operands)}")
        return x, x.with_dtype(dtypes.int64)

    def reference(self, *operands: Array) -> Array:
        """A stable `numpy.argsort`, backwards for descending order."""
        (x,) = operands
        keys = x.astype(np.float32) if x.dtype == dtypes.bfloat16.np else x
        if self.descending:
            keys = np.flip(keys, self.axis)
        index = np.argsort(keys, axis=self.axis, kind="stable")
        if self.descending:
            index = np.flip(x.shape[self.axis] - 1 - index, self.axis)
        return np.take_along_axis(x, index, self.axis), np.ascontiguousarray(index, dtype=np.int64)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by NumPy's sort."""
        return False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent put back where the elements came from."""
        g = cotangents[0]
        if g is None:
            return (None,)
        return (b(ScatterAdd(self.axis), zeros_like(b, g), results[1], g),)
