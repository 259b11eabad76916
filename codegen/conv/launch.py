"""From a convolution, transposed or not, to the launches that run it, with their run-time numbers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from jitgrad.ir.graph import Node
from jitgrad.ir.types import TensorType

from ..loops.tile import CHANNELS, SLOTS, TileKernel
from ..lower.kernel_builder import Launch
from .factor_ops import FactorProduct, PackedFactor, TileProduct
from .frame import Frame, sizes
from .ops import PackedWeight, TileConv, TileTransposed, TileWeightGrad, kernel_of, multiplications
from .phases import Phase, phases
from .pixel_launch import pixel_launch, pixel_weight_launch
from .pixel_ops import PixelConv, PixelWeightGrad
from .product_launch import factor_product_launch, packed_launch, tile_product_launch
from .schedule import TileShape, Work, blocks, conv_tile
from .target import TileTarget
from .weight_launch import weight_gradient, weight_packing_launch

_TASKS: Final = ("images", "groups", "out_depth", "row_blocks", "column_blocks", "channel_chunks")


def launches(node: Node, target: TileTarget) -> list[Launch]:
    """The launches of a tile op, in order."""
    op = node.op
    match op:
        case TileWeightGrad():
            return [weight_gradient(node, op, target)]
        case PixelConv():
            return [pixel_launch(node, op, target)]
        case PixelWeightGrad():
            return [pixel_weight_launch(node, op, target)]
        case TileProduct():
            return [tile_product_launch(node, op, target)]
        case FactorProduct():
            return [factor_product_launch(node, op, target)]
        case PackedFactor():
            return [packed_launch(node, op, target)]
        case PackedWeight():
            return [weight_packing_launch(node, op, target)]
    assert isinstance(op, TileConv | TileTransposed)
    x, weight, *bias = node.operands
    tile, lanes = conv_tile(target), target.lanes(weight.type.dtype)
    kernel = TileKernel(CHANNELS, x.type.dtype, tile.rows, tile.vectors, lanes)
    found = _numbers(op, x.type, weight.type, tile, bool(bias))
    return [
        Launch(
            kernel, (x, weight, bias[0] if bias else weight, node.result), slots, (), math.prod(n[k] for k in _TASKS),
            multiplications(node) // len(found),
            f"convolution of {list(kernel_of(weight.type))} in tiles of {tile.rows} by {n['tile_width']}",
        )
        for n, slots in found
    ]  # fmt: skip


def scratch_bytes(op: TileConv | TileTransposed, x: TensorType, weight: TensorType, target: TileTarget) -> int:
    """What a task needs on its thread's stack, at most."""
    return max(n["scratch_bytes"] for n, _ in _numbers(op, x, weight, conv_tile(target)))


@functools.lru_cache(256)
def _numbers(
    op: TileConv | TileTransposed, x: TensorType, weight: TensorType, tile: TileShape, has_bias: bool = False
) -> Sequence[tuple[Mapping[str, int], tuple[int, ...]]]:
    """For each launch its numbers by name, and its slots; asked for when memory is laid out, and again for launches."""
    return list(_each_phase(op, x, weight, tile, has_bias))


def _each_phase(
    op: TileConv | TileTransposed, x: TensorType, weight: TensorType, tile: TileShape, has_bias: bool
) -> Iterator[tuple[dict[str, int], tuple[int, ...]]]:
    more = {"has_bias": int(has_bias), "has_relu": int(op.relu)}
    if isinstance(op, TileConv):
        by_width = [Phase(0, op.lengths[-1], 0, 1, kernel_of(weight)[-1], op.dilation[-1], op.low[-1])]
        n = _direct(op, x, weight) | more
        yield _finished(n, by_width, weight, tile)
        return
    (y,) = op.infer(x, weight)
    axes = [
        phases(*numbers)
        for numbers in zip(op.lengths, kernel_of(weight), op.stride, op.padding, op.dilation, strict=True)
    ]
    for outer in itertools.product(*axes[:-1]):
        yield _finished(_phase(op, x, weight, y, outer, axes[-1]) | more, axes[-1], weight, tile)


def _direct(op: TileConv, x: TensorType, weight: TensorType) -> dict[str, int]:
    (y,) = op.infer(x, weight)
    n = sizes(x, y, op.groups, kernel_of(weight), op.stride, op.low, op.dilation)
    block, channels = weight.shape[-1], weight.shape[-2]
    return n | {
        "blocks": weight.shape[1], "phases": 1, "phase_width": n["out_width"],
        "weight_height": channels * block, "tap_rows": 1 if n["dilation_height"] == 1 else n["kernel_height"],
        "first_depth": 0, "first_height": 0, "step_depth": 1,
        "y_offset": 0, "y_depth": n["out_height"] * n["out_width"], "y_row": n["out_width"],
    }  # fmt: skip


def _phase(
    op: TileTransposed, x: TensorType, weight: TensorType, y: TensorType, outer: tuple[Phase, ...], inner: list[Phase]
) -> dict[str, int]:
    """The numbers for one phase of depth and height, and all of width."""
    rank = len(op.lengths)
    full = sizes(x, y, op.groups, kernel_of(weight), op.stride, op.padding, op.dilation)
    low = max(p.low for p in inner)
    kernel = (*(p.taps for p in outer), max(p.taps for p in inner))
    part = y.with_shape((*y.shape[:2], *(p.length for p in outer), y.shape[-1]))
    lows, dilations = (*(p.low for p in outer), low), (*(p.dilation for p in outer), inner[0].dilation)
    n = sizes(x, part, op.groups, kernel, (1,) * rank, lows, dilations)
    block, channels = weight.shape[-1], weight.shape[-2]
    height = outer[-1].step if outer else 1
    none = (0,) * (2 - len(outer))
    offsets, firsts = (*none, *(p.offset for p in outer)), (*none, *(p.first for p in outer))
    steps = (*(1 for _ in none), *(p.step for p in outer))
    area = full["out_height"] * full["out_width"]
    return n | {
        "blocks": weight.shape[1], "phases": len(inner), "phase_width": inner[0].length,
        "y_image": full["y_image"], "y_channel": full["y_channel"],
        "weight_height": height * channels * block,
        "tap_rows": 1 if n["dilation_height"] == 1 and height == 1 else n["kernel_height"],
        "first_depth": firsts[0], "first_height": firsts[1], "step_depth": steps[0],
        "y_offset": offsets[0] * area + offsets[1] * full["out_width"],
        "y_depth": full["stride_depth"] * area, "y_row": full["stride_height"] * full["out_width"],
    }  # fmt: skip


def _finished(
    n: dict[str, int], by_width: list[Phase], weight: TensorType, tile: TileShape
) -> tuple[dict[str, int], tuple[int, ...]]:
    """Blocks, tasks, and how weights are gone through."""
    frame = Frame(n, n["stride_width"], max(n["low_width"] - p.low + (p.taps - 1) * p.dilation for p in by_width) + 1)
    block, places = weight.shape[-1], kernel_of(weight)
    pitch = n["phases"] * min(tile.vectors, n["blocks"]) * block

    table_bytes = 16 * n["kernel_depth"] * n["kernel_width"] * n["tap_rows"]

    def scratch(rows: int, columns: int) -> int:
        elements = frame.packed(rows, columns) + (rows * columns + tile.rows) * pitch
        return int(weight.dtype.itemsize) * elements + table_bytes

    flops = 2 * n["images"] * n["y_image"] * math.prod(weight.shape[2:-1])
    tasks = n["images"] * n["groups"] * n["out_depth"]
    groups = math.ceil(n["blocks"] / tile.vectors)
    cut = blocks(Work(n["out_height"], n["phase_width"], tasks, groups, flops, scratch))
    chunk = cut.chunk * tile.vectors
    unit = weight.shape[-2] * block
    tall = places[-2] if len(places) > 1 else 1
    plane = tall * places[-1] * unit
    start = n["first_depth"] * plane + n["first_height"] * unit
    n = n | frame.numbers(cut, n["phase_width"])
    n |= {
        "terms": n["in_channels"] * n["kernel_height"] // n["tap_rows"] if n["tap_rows"] else 0,
        "chunk_blocks": chunk, "channel_chunks": math.ceil(n["blocks"] / chunk),
        "tile_width": pitch // n["phases"], "pixel_pitch": pitch,
        "weight_block": math.prod(places) * unit, "weight_width": by_width[0].step * tall * unit,
        "weight_depth": n["step_depth"] * plane, "scratch_bytes": scratch(cut.rows, cut.columns),
    }  # fmt: skip
    table = [x for p in by_width for x in (p.taps, n["low_width"] - p.low, start + p.first * tall * unit)]
    return n, (*(n.get(k, 1) for k in SLOTS), *table)
