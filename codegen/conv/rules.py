"""Which convolutions become tile ops, and how: rules tried before an op is decomposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.rewrite import Rules
from jitgrad.ir.types import TensorType

from .launch import block_width, scratch_bytes
from .ops import TileConv, TileTransposed, TileWeightGrad, packed_shape, packed_weight, unpacked_weight_gradient
from .schedule import MOST_SCRATCH_BYTES
from .target import TileTarget
from .weight_launch import strands_of, weight_numbers_of, weight_tile

_FLOATS: Final = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
_MAX_PHASES: Final = 16


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


@dataclass(frozen=True, slots=True)
class _Lowering:
    target: TileTarget

    def forward(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """A convolution."""
        op = node.op
        assert isinstance(op, Conv)
        x, weight = node.operands
        if not _is_eligible(node):
            return None
        conv = TileConv(
            node.result.shape[2:], op.stride, op.padding, op.dilation, op.groups, weight.shape[0] // op.groups
        )
        return self._by_tiles(b, conv, x, _grouped(b, weight, op.groups))

    def _by_tiles(self, b: Builder, op: TileConv | TileTransposed, x: Value, weight: Value) -> Sequence[Value] | None:
        """The op for a weight [groups, o, c, ...], or None where it would not pay or not fit."""
        wide = accumulator_dtype(x.type.dtype)
        if op.groups > 1 and op.channels < self.target.lanes(wide):
            return None
        block = block_width(op, x.type, weight.shape[2:], self.target)
        packed = TensorType(packed_shape(weight.shape, block), wide)
        if scratch_bytes(op, x.type, packed, self.target) > MOST_SCRATCH_BYTES:
            return None
        return (b(op, x, packed_weight(b, weight, block)),)

    def input_gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """A transposed convolution: by the kernel reversed, its channels swapped."""
        op = node.op
        assert isinstance(op, ConvInputGrad)
        y, weight = node.operands
        if not _is_eligible(node) or math.prod(op.stride) > _MAX_PHASES:
            return None
        places = tuple(range(3, 3 + len(op.lengths)))
        weight = b(Permute((0, 2, 1, *places)), _grouped(b, weight, op.groups))
        weight = b(Flip(places), weight)
        numbers = op.lengths, op.stride, op.padding, op.dilation
        return self._by_tiles(b, TileTransposed(*numbers, op.groups, weight.shape[1]), y, weight)

    def weight_gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """The gradient in the weight."""
        op = node.op
        assert isinstance(op, ConvWeightGrad)
        if not _is_eligible(node):
            return None
        x, y = node.operands
        wide, channels = accumulator_dtype(x.type.dtype), (x.shape[1] // op.groups, y.shape[1] // op.groups)
        if op.groups > 1 and channels[1] < self.target.lanes(wide):
            return None
        pixels = y.shape[0] * math.prod(y.shape[2:])
        tile = weight_tile(op.kernel, op.dilation, channels, pixels, wide, self.target)
        strands, block = strands_of(op.kernel, channels, pixels), tile.vectors * self.target.lanes(wide)
        tiles = TileWeightGrad(op.kernel, op.stride, op.padding, op.dilation, op.groups, strands, tile.rows, block)
        if weight_numbers_of(tiles, x.type, y.type)["scratch_bytes"] > MOST_SCRATCH_BYTES:
            return None
        parts = b(tiles, x, y)
        return (unpacked_weight_gradient(b, parts, tiles, node.result.shape, x.type.dtype),)


def _is_eligible(node: Node) -> bool:
    values = (*node.operands, *node.results)
    return node.result.type.dtype in _FLOATS and all(v.type.numel for v in values)
