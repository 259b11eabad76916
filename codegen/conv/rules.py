"""Which convolutions become tile ops, and how: rules tried before an op is decomposed.

The gradient in the input is a convolution again, of the output's gradient with the kernel reversed and its channels
swapped. With a stride, elements of the input that are a stride apart see the same places of the kernel; each such
phase is a convolution of its own, by those places alone, and phases are put together like windows side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.ops.slicing import Concat, Slice
from jitgrad.ir.ops.windows import Fold
from jitgrad.ir.rewrite import Rules
from jitgrad.ir.types import TensorType

from .launch import block_width, numbers_of, strands_of, weight_numbers_of, weight_tile
from .ops import TileConv, TileWeightGrad, packed_shape, packed_weight, unpacked_weight_gradient
from .schedule import MOST_SCRATCH_BYTES
from .target import TileTarget

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
        y = self.convolution(b, conv, x, _grouped(b, weight, op.groups))
        return None if y is None else (y,)

    def convolution(self, b: Builder, op: TileConv, x: Value, weight: Value) -> Value | None:
        """The tile op for a weight [groups, o, c, ...], or None where it would not pay or not fit."""
        wide = accumulator_dtype(x.type.dtype)
        channels, terms = weight.shape[1], math.prod(weight.shape[2:])
        if op.groups > 1 and channels < self.target.lanes(wide):
            return None
        block = block_width(x.type, op.lengths, channels, terms, self.target)
        packed = TensorType(packed_shape(weight.shape, block), wide)
        if numbers_of(op, x.type, packed, self.target)["scratch_bytes"] > MOST_SCRATCH_BYTES:
            return None
        return b(op, x, packed_weight(b, weight, block))

    def input_gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """A transposed convolution."""
        op = node.op
        assert isinstance(op, ConvInputGrad)
        y, weight = node.operands
        if not _is_eligible(node) or math.prod(op.stride) > _MAX_PHASES:
            return None
        rank = len(op.lengths)
        weight = b(Permute((0, 2, 1, *range(3, 3 + rank))), _grouped(b, weight, op.groups))
        axes = [
            _phases(*numbers)
            for numbers in zip(op.lengths, weight.shape[3:], op.stride, op.padding, op.dilation, strict=True)
        ]
        found = [self._phase(b, y, weight, phase, op.groups) for phase in itertools.product(*axes)]
        parts = [x for x in found if x is not None]
        if len(parts) < len(found):
            return None
        return (_interleaved(b, parts, op),) if len(parts) > 1 else (parts[0],)

    def _phase(self, b: Builder, y: Value, weight: Value, phase: tuple[_Phase, ...], groups: int) -> Value | None:
        """The elements of the input at one phase."""
        lengths, outputs = tuple(p.length for p in phase), weight.shape[1]
        if any(p.taps == 0 for p in phase):
            shape = (y.shape[0], groups * outputs, *lengths)
            return b(Full(shape, y.type.dtype, 0, y.type.device))
        rank = len(phase)
        starts, sizes = (0, 0, 0, *(p.first for p in phase)), (*weight.shape[:3], *(p.taps for p in phase))
        weight = b(Slice(starts, sizes, (1, 1, 1, *(p.step for p in phase))), weight)
        weight = b(Flip(tuple(range(3, 3 + rank))), weight)
        op = TileConv(
            lengths, (1,) * rank, tuple(p.low for p in phase), tuple(p.dilation for p in phase), groups, outputs
        )
        return self.convolution(b, op, y, weight)

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


@dataclass(frozen=True, slots=True)
class _Phase:
    """Along one axis: elements r, r + stride, ... of the input, `length` of them.

    They see the places `first`, `first + step`, ... of the kernel, `taps` of them, as a convolution of stride 1.
    """

    length: int
    first: int
    step: int
    taps: int
    dilation: int
    low: int


def _phases(length: int, kernel: int, stride: int, padding: int, dilation: int) -> list[_Phase]:
    """The phases of an axis, all as long as the first.

    Output q reaches element i by place k where i + padding = q stride + k dilation.

    >>> [(p.first, p.taps, p.low) for p in _phases(8, 3, 2, 1, 1)]
    [(1, 1, 0), (0, 2, 0)]
    """
    common = math.gcd(stride, dilation)
    step, found = stride // common, []
    for r in range(stride):
        first = next((k for k in range(min(step, kernel)) if (r + padding - k * dilation) % stride == 0), kernel)
        taps = len(range(first, kernel, step))
        apart = dilation // common
        start = (r + padding - first * dilation) // stride
        found.append(_Phase(-(-length // stride), first, step, taps, apart, apart * (taps - 1) - start))
    return found


def _interleaved(b: Builder, parts: Sequence[Value], op: ConvInputGrad) -> Value:
    """The input from its phases: windows of a stride's size, side by side."""
    rank, lead = len(op.lengths), parts[0].shape[:2]
    counts = parts[0].shape[2:]
    stacked = b(Concat(2 + rank), *(b(Reshape((*p.shape, 1)), p) for p in parts))
    windows = b(Reshape((*lead, *counts, *op.stride)), stacked)
    whole = tuple(n * s for n, s in zip(counts, op.stride, strict=True))
    axes = tuple(range(2, 2 + rank))
    x = b(Fold(whole, axes, op.stride, op.stride, (1,) * rank), windows)
    if whole == op.lengths:
        return x
    return b(Slice((0,) * (2 + rank), (*lead, *op.lengths), (1,) * (2 + rank)), x)
