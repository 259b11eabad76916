"""`Sort`, `TopK` and `KthValue`: elements along an axis in order, the first of them, or one, and where they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..op import Array, Cotangents, Values, op
from ..types import TensorType
from ..unstable_order import kth, top, top_unsorted
from .arranging import Arrange, Arranging, has_ties, keys_of, order, places, take, with_order, words_of
from .creation import zeros_like
from .indexing import ScatterAdd
from .shape import Reshape

_SHORT: Final = 64  # elements of a row, which are all put in order as soon as some are found
_COUNTED: Final = 1 << 15  # elements, from which PyTorch sorts vectors of integers digit by digit
__all__ = ["KthValue", "Sort", "TopK"]


class _Taking(Arranging):
    """Elements along `axis` and where they were, as int64; cotangents go back there."""

    axis: int
    batchable = True

    def check(self, x: TensorType) -> None:
        """Raise unless it is real and has that axis."""
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"{self.name}: axis {self.axis} is not among {x.ndim} axes{operand_lines([x])}")
        if x.dtype.is_complex:
            raise DTypeError(f"{self.name}: complex numbers have no order{operand_lines([x])}")

    def arranged(self, arrange: Arrange, x: Array) -> tuple[Array, ...]:
        """The elements at the places that `taken` tells."""
        if self.axis == x.ndim - 1:
            index = self.taken(arrange, x)
            return take(x, index), index
        rows = np.moveaxis(x, self.axis, -1)
        index = self.taken(arrange, rows)
        found = (np.moveaxis(v, -1, self.axis) for v in (take(rows, index), index))
        return tuple(np.ascontiguousarray(v) for v in found)

    def taken(self, arrange: Arrange, x: Array) -> Array:
        """Which places of each row are taken, as int64."""
        raise NotImplementedError

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent put back where the elements came from."""
        g = cotangents[0]
        if g is None:
            return (None,)
        return (b(ScatterAdd(self.axis), zeros_like(b, operands[0]), results[1], g),)


@op
class Sort(_Taking):
    """The elements along `axis` from small to large, or from large to small, and their indices as int64.

    If `stable`, equal elements keep their order; else more than 16 are ordered as PyTorch does (see
    `jitgrad.ir.unstable_order`), which sorts long vectors of integers digit by digit, and so stably. NaN counts as
    larger than any number.

    >>> import jitgrad as jg
    >>> jg.sort(jg.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """

    axis: int
    descending: bool = False
    stable: bool = True
    name = "sort"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A real operand with that axis."""
        (x,) = operands
        self.check(x)
        return x, x.with_dtype(dtypes.int64)

    def taken(self, arrange: Arrange, x: Array) -> Array:
        """All of them, in order."""
        counted = x.ndim == 1 and x.size >= _COUNTED and x.dtype.kind in "iu" and not self.descending
        return order(x, self.descending, self.stable or counted, arrange)


@op
class TopK(_Taking):
    """The `k` largest (or smallest) elements along `axis`, and their indices as int64; in order, if `sorted`.

    NaN counts as larger than any number. Of equal elements those are taken that PyTorch takes.
    """

    axis: int
    k: int
    largest: bool = True
    sorted: bool = True
    name = "topk"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A real operand with that axis, at least `k` long."""
        (x,) = operands
        self.check(x)
        if not 0 <= self.k <= x.shape[self.axis]:
            raise ShapeError(
                f"topk: selected index k out of range: k is {self.k}, axis {self.axis} has length "
                f"{x.shape[self.axis]}{operand_lines(operands)}"
            )
        out = x.with_shape(tuple(self.k if a == self.axis else n for a, n in enumerate(x.shape)))
        return out, out.with_dtype(dtypes.int64)

    def taken(self, arrange: Arrange, x: Array) -> Array:
        """Those that NumPy finds, if there are no others; else those that a routine leaves in front."""
        if not self.k or not x.size:
            return np.zeros((*x.shape[:-1], self.k), np.int64)
        if self.sorted and x.itemsize > 1 and (found := self._alone(with_order(x))) is not None:
            return found
        words = words_of(keys_of(x, self.largest))
        arrange(top if self.sorted else top_unsorted, words, self.k)
        return places(words[..., : self.k])

    def _alone(self, x: Array) -> Array | None:
        """The places in order; None where some element equals one of these, or is NaN among them."""
        length = x.shape[-1]
        if length <= _SHORT:
            index = np.argsort(x, axis=-1)
            values = take(x, index)
            near = values[..., max(length - self.k - 1, 0) :] if self.largest else values[..., : self.k + 1]
            if not (near[..., 1:] > near[..., :-1]).all():
                return None
            return np.ascontiguousarray(index[..., : -self.k - 1 : -1] if self.largest else index[..., : self.k])
        border = length - self.k if self.largest else self.k - 1
        parted = np.argpartition(x, border, axis=-1)
        chosen = parted[..., border:] if self.largest else parted[..., : self.k]
        values = take(x, chosen)
        within = np.argsort(values, axis=-1)
        values = take(values, within)
        within_border = x >= values[..., :1] if self.largest else x <= values[..., -1:]
        if has_ties(values) or np.count_nonzero(within_border) != values.size:
            return None
        return take(chosen, within[..., ::-1] if self.largest else within)


@op
class KthValue(_Taking):
    """The element along `axis` that is number `k` in order, counted from 0, and its index as int64.

    The axis is removed. NaN counts as larger than any number. Of equal elements it is the one that PyTorch takes.
    """

    axis: int
    k: int
    name = "kthvalue"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A real operand with that axis, longer than `k`."""
        (x,) = operands
        self.check(x)
        if not 0 <= self.k < x.shape[self.axis]:
            raise ShapeError(
                f"kthvalue: {self.k} is out of range for axis {self.axis} of length {x.shape[self.axis]}"
                f"{operand_lines(operands)}"
            )
        kept = x.with_shape(tuple(n for a, n in enumerate(x.shape) if a != self.axis))
        return kept, kept.with_dtype(dtypes.int64)

    def arranged(self, arrange: Arrange, x: Array) -> tuple[Array, ...]:
        """The element and its place without the axis."""
        values, index = super().arranged(arrange, x)
        return np.squeeze(values, self.axis), np.squeeze(index, self.axis)

    def taken(self, arrange: Arrange, x: Array) -> Array:
        """The place of the only such element, or the one that a routine leaves there."""
        if x.itemsize > 1:  # many bytes are never all different
            numbers = with_order(x)
            chosen = np.argpartition(numbers, self.k, axis=-1)[..., self.k, None]
            if np.count_nonzero(numbers == take(numbers, chosen)) == chosen.size:  # not for NaN
                return chosen
        words = words_of(keys_of(x, False))
        arrange(kth, words, self.k)
        return places(words[..., self.k, None])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent put back where the element came from."""
        g = cotangents[0]
        if g is None:
            return (None,)
        shape = tuple(1 if a == self.axis else n for a, n in enumerate(operands[0].type.shape))
        kept = [b(Reshape(shape), v) for v in (results[1], g)]
        return (b(ScatterAdd(self.axis), zeros_like(b, operands[0]), *kept),)
