"""From a convolution's weight gradient, or the packing of its weight, to the launch, with its run-time numbers."""

from __future__ import annotations

import math
from typing import Final

from jitgrad.ir.graph import Node
from jitgrad.ir.types import Shape, TensorType

from ..loops.tile import CHANNELS_WEIGHT, SLOTS, WEIGHT, TileKernel
from ..lower.kernel_builder import Launch
from .frame import Frame, sizes
from .ops import PackedWeight, TileWeightGrad, multiplications
from .schedule import MIN_TASKS, TASK_FLOPS, Work, blocks, conv_tile
from .target import TileTarget

_PIXELS_OF_STRAND: Final = 512  # at least: adding up strands costs as much as some pixels
_NEAR_PIXELS: Final = 96  # whose input and gradients stay in the first cache, for one block of channels


def weight_gradient(node: Node, op: TileWeightGrad, target: TileTarget) -> Launch:
    """The launch."""
    x, y = (v.type for v in node.operands)
    tile, lanes = conv_tile(target), target.lanes(node.result.type.dtype)
    numbers = weight_numbers_of(op, x, y, target)
    return Launch(
        TileKernel(CHANNELS_WEIGHT, x.dtype, tile.rows, tile.vectors, lanes), (*node.operands, node.result),
        tuple(numbers.get(k, 1) for k in SLOTS), (),
        op.strands * op.groups * numbers["channel_chunks"], multiplications(node),
        f"weight gradient of {list(op.kernel)} in tiles of {tile.rows} by {tile.vectors * lanes}",
    )  # fmt: skip


def strands_of(kernel: Shape, channels: tuple[int, int], pixels: int) -> int:
    """How many parts a weight gradient is added up in: few, because each takes memory."""
    flops = 2 * pixels * math.prod(kernel) * math.prod(channels)
    return max(1, min(MIN_TASKS, pixels // _PIXELS_OF_STRAND, flops // TASK_FLOPS))


def weight_numbers_of(op: TileWeightGrad, x: TensorType, y: TensorType, target: TileTarget) -> dict[str, int]:
    """The run-time numbers, and `scratch_bytes`."""
    (result,) = op.infer(x, y)
    n = sizes(x, y, op.groups, op.kernel, op.stride, op.padding, op.dilation)
    lanes, vectors, rows = target.lanes(result.dtype), conv_tile(target).vectors, math.prod(result.shape[2:-1])
    blocks_of_all = math.ceil(n["out_channels"] / lanes)
    runs = 1 if op.dilation[-1] == 1 else op.kernel[-1]
    n |= {
        "blocks": blocks_of_all, "strands": op.strands, "rows_of_result": rows, "row_pitch": n["out_channels"],
        "runs": runs, "run_length": n["in_channels"] * op.kernel[-1] // runs,
    }  # fmt: skip
    groups = math.ceil(blocks_of_all / vectors)
    chunk = vectors * math.ceil(groups / min(groups, math.ceil(MIN_TASKS / (op.strands * op.groups))))
    chunk = min(chunk, blocks_of_all)
    frame = Frame(n, op.stride[-1], (op.kernel[-1] - 1) * op.dilation[-1] + 1)

    def scratch(rows: int, columns: int) -> int:
        return int(result.dtype.itemsize) * (frame.packed(rows, columns) + rows * columns * chunk * lanes)

    cut = blocks(Work(n["out_height"], n["out_width"], MIN_TASKS, 1, 0, scratch))
    n |= frame.numbers(cut, n["out_width"])
    units = n["images"] * n["out_depth"] * n["row_blocks"] * n["column_blocks"]
    return n | {
        "chunk_blocks": chunk, "channel_chunks": math.ceil(blocks_of_all / chunk), "units": units,
        "near_rows": max(1, _NEAR_PIXELS // cut.columns), "scratch_bytes": scratch(cut.rows, cut.columns),
    }  # fmt: skip


def weight_packing_launch(node: Node, op: PackedWeight, target: TileTarget) -> Launch:
    """The launch that packs a weight. Tasks are blocks of channels at places; numbers as in `tile_weight_packing`."""
    weight, packed = node.operands[0].type, node.result.type
    groups, outputs, inputs, *kernel = op.grouped(weight)
    places, area = (*(1,) * (3 - len(kernel)), *kernel), math.prod(kernel)
    pitches = [area, weight.shape[1] * area]  # by input, by output of the convolution
    if op.transposed:
        pitches.reverse()
    steps = places[1] * places[2], places[2], 1
    first = area - 1 if op.transposed else 0
    numbers = {
        "out_channels": outputs, "in_channels": inputs, "blocks": packed.shape[1], "first": first,
        "group_pitch": outputs * inputs * area, "in_pitch": pitches[0], "out_pitch": pitches[1],
    }  # fmt: skip
    for axis, length, step in zip(("depth", "height", "width"), places, steps, strict=True):
        numbers |= {f"kernel_{axis}": length, f"weight_{axis}": -step if op.transposed else step}
    return Launch(
        TileKernel(WEIGHT, weight.dtype, 1, 1, op.block), (*node.operands, node.result),
        tuple(numbers.get(k, 1) for k in SLOTS), (), groups * packed.shape[1] * area if packed.numel else 0,
        packed.numel, f"a weight of {list(kernel)}, packed",
    )  # fmt: skip
