"""Matrix products by tile kernels: the second factor is packed, the first is read as it is.

    x:      [rows, inner], or [inner, rows] if `swapped`
    packed: [blocks, inner, columns of a block]      filled up with zeros, or with nothing in particular
    result: [rows, columns]

A factor that is the same in each step of a loop is packed once, in front of it, because packing is a node of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.op import op
from jitgrad.ir.types import TensorType

from ..loops.tile import TileOp
from .schedule import TileShape
from .target import TileTarget

Array = np.ndarray[Any, Any]


@op
class PackedFactor(TileOp):
    """A matrix [inner, columns], or its transpose if it is `turned`, as [blocks, inner, `block`]."""

    block: int
    turned: bool = False
    name = "packed_factor"

    def sides(self, w: TensorType) -> tuple[int, int]:
        """Lengths of the axes as they are multiplied."""
        first, second = w.shape
        return (second, first) if self.turned else (first, second)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One matrix."""
        (w,) = operands
        if w.ndim != 2 or self.block < 1:
            raise ShapeError(f"packed_factor: a matrix is needed{operand_lines(operands)}")
        inner, columns = self.sides(w)
        return (w.with_shape((-(-columns // self.block), inner, self.block)),)

    def reference(self, *operands: Array) -> Array:
        """Padded, cut and put in order."""
        w = operands[0].T if self.turned else operands[0]
        blocks = -(-w.shape[1] // self.block)
        padded = np.pad(w, ((0, 0), (0, blocks * self.block - w.shape[1])))
        return np.ascontiguousarray(padded.reshape(w.shape[0], blocks, self.block).swapaxes(0, 1))


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


def factor_tile(target: TileTarget) -> TileShape:
    """The register tile: what fits the registers, of whatever sizes the factors are.

    >>> factor_tile(TileTarget(512, 32)), factor_tile(TileTarget(256, 16))
    (TileShape(rows=8, vectors=3), TileShape(rows=4, vectors=3))
    """
    return TileShape(8 if target.registers >= 32 else 4, 3)


__all__ = ["FactorProduct", "PackedFactor", "TileProduct", "factor_tile"]
