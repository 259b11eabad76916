"""`Sort` and `TopK`: the elements along an axis in order, or the first of them, and where they came from."""

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

__all__ = ["Sort", "TopK"]


def _check(name: str, axis: int, x: TensorType) -> None:
    if not 0 <= axis < x.ndim:
        raise ShapeError(f"{name}: axis {axis} is not among {x.ndim} axes{operand_lines([x])}")
    if x.dtype.is_complex:
        raise DTypeError(f"{name}: complex numbers have no order{operand_lines([x])}")


def _order(x: Array, axis: int, descending: bool) -> Array:
    """The indices that sort, equal elements in order: a stable `numpy.argsort`, backwards for descending order."""
    keys = np.flip(x, axis) if descending else x
    index = np.argsort(keys, axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - index, axis) if descending else index


def _sortable(x: Array) -> Array:
    """bfloat16 as float32, which NumPy can sort."""
    return x.astype(np.float32) if x.dtype == dtypes.bfloat16.np else x


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
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A real operand with that axis."""
        (x,) = operands
        _check(self.name, self.axis, x)
        return x, x.with_dtype(dtypes.int64)

    def reference(self, *operands: Array) -> Array:
        """By a stable sort of the indices."""
        (x,) = operands
        index = _order(_sortable(x), self.axis, self.descending)
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


@op
class TopK(Op):
    """The `k` largest (or smallest) elements along `axis` in order, and their indices as int64.

    NaN counts as larger than any number. Which of equal elements are taken is not told.
    """

    axis: int
    k: int
    largest: bool = True
    name = "topk"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A real operand with that axis, at least `k` long."""
        (x,) = operands
        _check(self.name, self.axis, x)
        if not 0 <= self.k <= x.shape[self.axis]:
            raise ShapeError(
                f"topk: selected index k out of range: k is {self.k}, axis {self.axis} has length "
                f"{x.shape[self.axis]}{operand_lines(operands)}"
            )
        out = x.with_shape(tuple(self.k if a == self.axis else n for a, n in enumerate(x.shape)))
        return out, out.with_dtype(dtypes.int64)

    def reference(self, *operands: Array) -> Array:
        """The elements before a border by `numpy.argpartition`, sorted; all of them sorted where `k` is not small."""
        x = np.moveaxis(operands[0], self.axis, -1)
        keys, n = _sortable(x), x.shape[-1]
        if x.size and 0 < 4 * self.k < n:
            border = n - self.k if self.largest else self.k - 1
            parted = np.argpartition(keys, border, axis=-1)
            places = np.sort(parted[..., border:] if self.largest else parted[..., : self.k], axis=-1)
            keys = np.take_along_axis(keys, places, -1)
            index = np.take_along_axis(places, _order(keys, keys.ndim - 1, self.largest), -1)
        else:
            index = _order(keys, x.ndim - 1, self.largest)[..., : self.k]
        values = np.take_along_axis(x, index, -1)
        moved = (np.moveaxis(v, -1, self.axis) for v in (values, index.astype(np.int64, copy=False)))
        return tuple(np.ascontiguousarray(v) for v in moved)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by NumPy."""
        return False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent put back where the elements came from."""
        g = cotangents[0]
        if g is None:
            return (None,)
        return (b(ScatterAdd(self.axis), zeros_like(b, operands[0]), results[1], g),)
