"""Matrix products by tile kernels: the second factor is packed, the first is read as it is.

    x:      [rows, inner], or [inner, rows] if `swapped`
    packed: [blocks, inner, columns of a block]      filled up with zeros
    result: [rows, columns]

A factor that is the same in each step of a loop is packed once, in front of it, because packing is a node of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import scalar
from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.op import IndexMap, Load, op
from jitgrad.ir.scalar import Expr
from jitgrad.ir.types import TensorType

from ..loops.tile import TileOp
from .schedule import TileShape
from .target import TileTarget

Array = np.ndarray[Any, Any]


def _packed_type(name: str, w: TensorType, inner: int, columns: int, block: int) -> TensorType:
    if w.ndim != 2 or block < 1:
        raise ShapeError(f"{name}: a matrix is needed{operand_lines([w])}")
    return w.with_shape((-(-columns // block), inner, block))


def _packed(w: Array, block: int) -> Array:
    blocks = -(-w.shape[1] // block)
    padded = np.pad(w, ((0, 0), (0, blocks * block - w.shape[1])))
    return np.ascontiguousarray(padded.reshape(w.shape[0], blocks, block).swapaxes(0, 1))


@op
class PackedFactor(IndexMap):
    """A matrix [inner, columns] as [blocks, inner, `block`], zeros behind the last column."""

    block: int
    name = "packed_factor"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One matrix."""
        (w,) = operands
        return (_packed_type(self.name, w, w.shape[0], w.shape[-1], self.block),)

    def reference(self, *operands: Array) -> Array:
        """Padded, cut and put in order."""
        return _packed(operands[0], self.block)

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The element, or zero behind the last column."""
        block, row, place = index
        (w,) = operands
        column = block * scalar.size(self.block) + place
        return w((row, column), column < scalar.size(w.type.shape[1]))


@op
class TurnedFactor(TileOp):
    """A matrix [columns, inner] packed as its transpose would be: by squares that are turned in registers."""

    block: int
    name = "turned_factor"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One matrix."""
        (w,) = operands
        return (_packed_type(self.name, w, w.shape[-1], w.shape[0], self.block),)

    def reference(self, *operands: Array) -> Array:
        """Transposed and packed."""
        return _packed(operands[0].T, self.block)


@op
class FactorProduct(TileOp):
    """The product of a matrix, transposed if `swapped`, and a packed one, which has `columns` columns."""

    columns: int
    swapped: bool = False
    name = "factor_product"

    def sides(self, x: TensorType) -> tuple[int, int]:
        """Rows, and how many products are added up."""
        rows, inner = x.shape
        return (inner, rows) if self.swapped else (rows, inner)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Factors of one dtype that fit."""
        x, w = operands
        fits = x.ndim == 2 and w.ndim == 3 and self.sides(x)[1] == w.shape[1] and x.dtype is w.dtype
        if not fits or not (w.shape[0] - 1) * w.shape[2] < self.columns <= w.shape[0] * w.shape[2]:
            raise ShapeError(
                f"factor_product: operands that do not fit {self.columns} columns{operand_lines(operands)}"
            )
        return (x.with_shape((self.sides(x)[0], self.columns)),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.matmul`."""
        x, packed = operands
        w = packed.swapaxes(0, 1).reshape(packed.shape[1], -1)[:, : self.columns]
        product: Array = np.matmul(x.T if self.swapped else x, w)
        return product


@op
class TileProduct(TileOp):
    """The product of two matrices, each transposed if it is `turned`."""

    turned: tuple[bool, bool] = (False, False)
    name = "tile_product"

    def sides(self, factor: TensorType, number: int) -> tuple[int, int]:
        """Lengths of a factor's axes as it is multiplied."""
        first, second = factor.shape
        return (second, first) if self.turned[number] else (first, second)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices of one dtype that fit."""
        x, w = operands
        fits = x.ndim == w.ndim == 2 and x.dtype is w.dtype
        if not fits or self.sides(x, 0)[1] != self.sides(w, 1)[0]:
            raise ShapeError(f"tile_product: factors that do not fit{operand_lines(operands)}")
        return (x.with_shape((self.sides(x, 0)[0], self.sides(w, 1)[1])),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.matmul`."""
        x, w = (v.T if turned else v for v, turned in zip(operands, self.turned))
        product: Array = np.matmul(x, w)
        return product


def factor_tile(rows: int, columns: int, lanes: int, target: TileTarget) -> TileShape:
    """The register tile: two vectors of columns by eight rows, or what wastes less of the last block of columns.

    Few rows take more vectors, so that at least eight sums are under way.
    """
    tall = min(rows, 8)
    if tall < 4:
        return TileShape(tall, max(2, -(-8 // tall)))
    waste = {v: -(-columns // (v * lanes)) * v for v in (1, 2, 3)}
    vectors = min((2, 3, 1), key=lambda v: waste[v] * (1.25 if v == 1 else 1.0))
    while tall > 1 and tall * vectors + vectors + 1 > target.registers:
        tall -= 1
    return TileShape(tall, vectors)


__all__ = ["FactorProduct", "PackedFactor", "TileProduct", "TurnedFactor", "factor_tile"]
