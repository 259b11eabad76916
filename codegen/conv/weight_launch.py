"""From a convolution's weight gradient to its launch, with its run-time numbers."""

from __future__ import annotations

import math
from typing import Final

from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Node
from jitgrad.ir.types import Shape, TensorType

from ..loops.tile import CHANNELS_WEIGHT, SLOTS, TileKernel
from ..lower.kernel_builder import Launch
from .frame import Frame, sizes
from .ops import TileWeightGrad, multiplications
from .schedule import MIN_TASKS, TASK_FLOPS, TileShape, Work, blocks, tile_shape
from .target import TileTarget

_PIXELS_OF_STRAND: Final = 512  # at least: adding up strands costs as much as some pixels
_NEAR_PIXELS: Final = 96  # whose input and gradients stay in the first cache, for one block of channels
_LEAST_COLUMNS: Final = 16
_FEW_CHANNELS: Final = 16


def weight_gradient(node: Node, op: TileWeightGrad, target: TileTarget) -> Launch:
    """The launch."""
    x, y = (v.type for v in node.operands)
    lanes = target.lanes(node.result.type.dtype)
    kernel = TileKernel(CHANNELS_WEIGHT, x.dtype, op.rows, op.block // lanes, lanes, op.stride[-1])
    numbers = weight_numbers_of(op, x, y)
    return Launch(
        kernel, (*node.operands, node.result), tuple(numbers.get(k, 1) for k in SLOTS), (),
        op.strands * op.groups * numbers["channel_chunks"], multiplications(node),
        f"weight gradient of {list(op.kernel)} in tiles of {op.rows} by {op.block}",
    )  # fmt: skip


def merges(channels: int, dilation: tuple[int, ...]) -> bool:
    """Whether a kernel's width and the input channels are one run: where channels alone fill no tile."""
    return channels < _FEW_CHANNELS and dilation[-1] == 1


def weight_tile(
    kernel: Shape, dilation: tuple[int, ...], channels: tuple[int, int], pixels: int, wide: DType, target: TileTarget
) -> TileShape:
    """The register tile of a weight gradient for (input, output) channels in each group."""
    length = channels[0] * (kernel[-1] if merges(channels[0], dilation) else 1)
    return tile_shape(length, channels[1], pixels, target.lanes(wide), target)


def strands_of(kernel: Shape, channels: tuple[int, int], pixels: int) -> int:
    """How many parts a weight gradient is added up in: few, because each takes memory."""
    flops = 2 * pixels * math.prod(kernel) * math.prod(channels)
    return max(1, min(MIN_TASKS, pixels // _PIXELS_OF_STRAND, flops // TASK_FLOPS))


def weight_numbers_of(op: TileWeightGrad, x: TensorType, y: TensorType) -> dict[str, int]:
    """The run-time numbers, and `scratch_bytes`."""
    (result,) = op.infer(x, y)
    n = sizes(x, y, op.groups, op.kernel, op.stride, op.padding, op.dilation)
    n |= {
        "blocks": result.shape[-1] // op.block, "strands": op.strands,
        "runs": 1 if op.is_merged else op.kernel[-1], "run_length": op.run_length(n["in_channels"]),
        "rows_of_result": math.prod(result.shape[2:-1]), "channel_pitch": result.shape[-1],
        "place_pitch": result.shape[-1] * (result.shape[-2] if op.is_merged else 1),
        "row_pitch": result.shape[-1] * (1 if op.is_merged else math.prod(op.kernel)),
    }  # fmt: skip
    chunk = math.ceil(n["blocks"] / min(n["blocks"], math.ceil(MIN_TASKS / (op.strands * op.groups))))
    frame = Frame(n, op.stride[-1], (op.kernel[-1] - 1) * op.dilation[-1] + 1)

    def scratch(rows: int, columns: int) -> int:
        return int(result.dtype.itemsize) * (frame.packed(rows, columns) + rows * columns * chunk * op.block)

    cut = blocks(Work(n["out_height"], n["out_width"], MIN_TASKS, 1, 0, scratch), TileShape(_LEAST_COLUMNS, 1))
    n |= frame.numbers(cut, n["out_width"])
    units = n["images"] * n["out_depth"] * n["row_blocks"] * n["column_blocks"]
    return n | {
        "chunk_blocks": chunk, "channel_chunks": math.ceil(n["blocks"] / chunk), "units": units,
        "near_rows": max(1, _NEAR_PIXELS // cut.columns), "scratch_bytes": scratch(cut.rows, cut.columns),
    }  # fmt: skip
