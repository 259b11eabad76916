"""Which convolutions become tile ops, and how: rules tried before an op is decomposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.ops.broadcast import Sum, accumulator_dtype
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.rewrite import Rules
from jitgrad.ir.tracked import computed

from .launch import scratch_bytes
from .ops import PackedWeight, TileConv, TileTransposed, TileWeightGrad, unpacked_weight_gradient
from .pixel_launch import pixel_numbers, pixel_strands, pixel_weight_numbers
from .pixel_ops import PixelConv, PixelWeightGrad
from .schedule import MOST_SCRATCH_BYTES
from .target import TileTarget
from .weight_launch import strands_of, weight_numbers_of

_FLOATS: Final = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
_MAX_PHASES: Final = 16
_PIXELS_WORTH: Final = 0.5  # each multiplication by pixels takes a load of its own, and the ends of rows go to waste


def tile_rules(target: TileTarget) -> Rules:
    """Rules that turn convolutions into tile ops for a machine, where tiles serve better than matrix products."""
    rules = Rules()
    lowering = _Lowering(target)
    rules(Conv)(lowering.forward)
    rules(ConvInputGrad)(lowering.input_gradient)
    rules(ConvWeightGrad)(lowering.weight_gradient)
    return rules


def _grouped(b: Builder, weight: Value, groups: int) -> Value:
    """[o, c, ...] as [groups, o, c, ...]."""
    return b(Reshape((groups, weight.shape[0] // groups, *weight.shape[1:])), weight)


def _bytes_of(numbers_of: Callable[..., dict[str, int]], *args: Any) -> int:
    """What a task needs on its thread's stack, by a function that gives all run-time numbers."""
    return numbers_of(*args)["scratch_bytes"]


@dataclass(frozen=True, slots=True)
class _Lowering:
    target: TileTarget

    def forward(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """A convolution."""
        op = node.op
        assert isinstance(op, Conv)
        if not _is_eligible(node):
            return None
        x, weight = node.operands
        lengths, channels = node.result.shape[2:], weight.shape[0] // op.groups
        if self._prefers_pixels(channels, x.type.dtype):
            spread = (1,) * len(lengths)
            return self._by_pixels(
                b, PixelConv(lengths, op.stride, spread, op.padding, op.dilation, op.groups), x, weight
            )
        tiles = TileConv(lengths, op.stride, op.padding, op.dilation, op.groups, channels)
        return self._by_tiles(b, tiles, x, weight)

    def input_gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """A transposed convolution: by the kernel reversed, its channels swapped."""
        op = node.op
        assert isinstance(op, ConvInputGrad)
        y, weight = node.operands
        if not _is_eligible(node) or math.prod(op.stride) > _MAX_PHASES:
            return None
        channels, kernel = weight.shape[1], weight.shape[2:]
        if not self._prefers_pixels(channels, y.type.dtype, math.prod(op.stride)):
            numbers = op.lengths, op.stride, op.padding, op.dilation
            return self._by_tiles(b, TileTransposed(*numbers, op.groups, channels), y, weight)
        places = tuple(range(3, 3 + len(kernel)))
        weight = b(Flip(places), b(Permute((0, 2, 1, *places)), _grouped(b, weight, op.groups)))
        low = tuple((k - 1) * d - p for k, d, p in zip(kernel, op.dilation, op.padding, strict=True))
        stride = (1,) * len(kernel)
        weight = b(Reshape((op.groups * channels, *weight.shape[2:])), weight)
        return self._by_pixels(b, PixelConv(op.lengths, stride, op.stride, low, op.dilation, op.groups), y, weight)

    def weight_gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """The gradient in the weight."""
        op = node.op
        assert isinstance(op, ConvWeightGrad)
        if not _is_eligible(node):
            return None
        x, y = node.operands
        dtype, channels = x.type.dtype, (x.shape[1] // op.groups, y.shape[1] // op.groups)
        pixels = y.shape[0] * math.prod(y.shape[2:])
        numbers = op.kernel, op.stride, op.padding, op.dilation, op.groups
        if self._prefers_pixels(channels[1], dtype):
            return self._gradient_by_pixels(
                b, PixelWeightGrad(*numbers, computed(pixel_strands, y.shape[1], pixels)), x, y
            )
        tiles = TileWeightGrad(*numbers, computed(strands_of, op.kernel, channels, pixels))
        if computed(_bytes_of, weight_numbers_of, tiles, x.type, y.type, self.target) > MOST_SCRATCH_BYTES:
            return None
        return (unpacked_weight_gradient(b, b(tiles, x, y), node.result.shape, dtype),)

    def _prefers_pixels(self, channels: int, dtype: DType, zeros: int = 1) -> bool:
        """Whether pixels of a row fill registers better than the channels of a group do.

        With `zeros`, one in so many pixels is not a zero between spread elements. How wide a picture is does not
        count: other pictures take the same kernels.
        """
        return channels * zeros <= _PIXELS_WORTH * self.target.lanes(accumulator_dtype(dtype))

    def _by_tiles(self, b: Builder, op: TileConv | TileTransposed, x: Value, weight: Value) -> Sequence[Value] | None:
        """The op for a weight [o, c, ...], or None where it would not fit."""
        block = self.target.lanes(accumulator_dtype(x.type.dtype))
        packing = PackedWeight(op.groups, block, isinstance(op, TileTransposed))
        (packed,) = packing.infer(weight.type)
        if computed(scratch_bytes, op, x.type, packed, self.target) > MOST_SCRATCH_BYTES:
            return None
        return (b(op, x, b(packing, weight)),)

    def _by_pixels(self, b: Builder, op: PixelConv, x: Value, weight: Value) -> Sequence[Value] | None:
        """The op for a weight [o, c, ...], or None where it would not fit."""
        wide = accumulator_dtype(x.type.dtype)
        weight = b(Convert(wide), weight) if wide is not weight.type.dtype else weight
        if computed(_bytes_of, pixel_numbers, op, x.type, weight.type) > MOST_SCRATCH_BYTES:
            return None
        return (b(op, x, weight),)

    def _gradient_by_pixels(self, b: Builder, op: PixelWeightGrad, x: Value, y: Value) -> Sequence[Value] | None:
        if computed(_bytes_of, pixel_weight_numbers, op, x.type, y.type) > MOST_SCRATCH_BYTES:
            return None
        parts = b(op, x, y)
        whole = b(Sum((0,)), parts)  # also of one strand: how many there are goes by sizes
        return (b(Convert(x.type.dtype), whole) if x.type.dtype is not whole.type.dtype else whole,)


def _is_eligible(node: Node) -> bool:
    values = (*node.operands, *node.results)
    return node.result.type.dtype in _FLOATS and all(v.type.numel for v in values)
