"""Convolutions by the tile kernels whose lanes are pixels: ops of prepared graphs, over weights as they are.

input:  [n, groups c, ...]           in any floating-point type
weight: [groups o, c, ...]           in the type that sums are in
output: [n, groups o, ...]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.op import op
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.ops.conv import Conv, ConvWeightGrad
from jitgrad.ir.types import Shape, TensorType

from ..loops.tile import TileOp
from .ops import overlap

Array = np.ndarray[Any, Any]


@op
class PixelConv(TileOp):
    """A convolution whose output has spatial `lengths`, of an input whose elements are `spread` apart.

    Between them are zeros; `low` zeros (or fewer elements than none) are in front, as many as it takes behind.
    """

    lengths: Shape
    stride: tuple[int, ...]
    spread: tuple[int, ...]
    low: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    name = "pixel_conv"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Shapes that fit; the rules that users meet are `Conv`'s."""
        x, weight = operands
        fits = x.ndim == weight.ndim == len(self.lengths) + 2 and weight.dtype is accumulator_dtype(x.dtype)
        if not fits or x.shape[1] != weight.shape[1] * self.groups or weight.shape[0] % self.groups:
            raise ShapeError(f"pixel_conv: operands that do not fit{operand_lines(operands)}")
        return (x.with_shape((x.shape[0], weight.shape[0], *self.lengths)),)

    def reference(self, *operands: Array) -> Array:
        """`Conv`'s, on an input that is spread and padded by hand."""
        x, weight = operands
        spread = np.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], self.spread))), weight.dtype)
        everything = slice(None), slice(None)
        spread[(*everything, *(slice(None, None, s) for s in self.spread))] = x
        needed = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.lengths, self.stride, weight.shape[2:], self.dilation, strict=True)
        ]
        padded = np.zeros((*x.shape[:2], *needed), weight.dtype)
        places = [overlap(n, m, low) for n, m, low in zip(spread.shape[2:], needed, self.low, strict=True)]
        targets, sources = ((*everything, *sides) for sides in zip(*places, strict=True))
        padded[targets] = spread[sources]
        return np.asarray(
            Conv(self.stride, (0,) * len(needed), self.dilation, self.groups).reference(padded, weight)
        ).astype(x.dtype)


@op
class PixelWeightGrad(TileOp):
    """The gradient of a convolution in its weight, from its input and its output's gradient, in parts to be added up.

    The result is [strands, o, c, ...], in the type of sums.
    """

    kernel: Shape
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    strands: int
    name = "pixel_weight_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Shapes that fit; the rules that users meet are `ConvWeightGrad`'s."""
        x, y = operands
        if x.ndim != y.ndim or x.ndim != len(self.kernel) + 2 or x.dtype is not y.dtype or x.shape[0] != y.shape[0]:
            raise ShapeError(f"pixel_weight_grad: operands that do not fit{operand_lines(operands)}")
        shape = (self.strands, y.shape[1], x.shape[1] // self.groups, *self.kernel)
        return (TensorType(shape, accumulator_dtype(x.dtype), x.device),)

    def reference(self, *operands: Array) -> Array:
        """All of it in the first strand."""
        x, y = operands
        wide = np.result_type(x.dtype, np.float32)
        grad = ConvWeightGrad(self.kernel, self.stride, self.padding, self.dilation, self.groups)
        whole = np.asarray(grad.reference(x.astype(wide), y.astype(wide)))
        return np.concatenate([whole[None], np.zeros((self.strands - 1, *whole.shape), wide)])
