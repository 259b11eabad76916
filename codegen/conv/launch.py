"""From a node to the kernel that runs it, with its run-time numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Node
from jitgrad.ir.ops.broadcast import accumulator_dtype
from jitgrad.ir.types import Shape, TensorType

from ..lower.kernel_builder import Launch
from .kernel import CHANNELS, CHANNELS_WEIGHT, SLOTS, TileKernel
from .ops import TileConv, TileWeightGrad, multiplications
from .schedule import MIN_TASKS, TASK_FLOPS, Blocks, TileShape, Work, blocks, tile_shape
from .target import TileTarget

_PIXELS_OF_STRAND: Final = 512  # at least: adding up strands costs as much as some pixels
_NEAR_PIXELS: Final = 96  # whose input and gradients stay in the first cache, for one block of channels
_LEAST_COLUMNS: Final = 16
_TASKS: Final = ("images", "groups", "out_depth", "row_blocks", "column_blocks", "channel_chunks")


def launches(node: Node, target: TileTarget) -> list[Launch]:
    """The launches of a tile op, in order."""
    if isinstance(node.op, TileWeightGrad):
        return [_weight_gradient(node, node.op, target)]
    assert isinstance(node.op, TileConv)
    return [_forward(node, node.op, target)]


def _three(values: tuple[int, ...], fill: int) -> tuple[int, int, int]:
    """Depth, height, width."""
    depth, height, width = (*(fill,) * (3 - len(values)), *values)
    return depth, height, width


def block_width(x: TensorType, lengths: Shape, channels: int, terms: int, target: TileTarget) -> int:
    """The channels in a block of a packed weight, for an output of `lengths` with so many channels in each group."""
    lanes = target.lanes(accumulator_dtype(x.dtype))
    return tile_shape(lengths[-1], channels, terms, lanes, target).vectors * lanes


def _forward(node: Node, op: TileConv, target: TileTarget) -> Launch:
    x, weight, *bias = (v.type for v in node.operands)
    tile = tile_of(op, x, weight, target)
    numbers = numbers_of(op, x, weight, target)
    lanes = target.lanes(weight.dtype)
    kernel = TileKernel(CHANNELS, x.dtype, tile.rows, tile.vectors, lanes, op.stride[-1], bool(bias))
    tasks = math.prod(numbers[k] for k in _TASKS)
    return Launch(
        kernel, (*node.operands, node.result), tuple(numbers.get(k, 1) for k in SLOTS), (), tasks,
        multiplications(node),
        f"convolution of {list(op.kernel(weight))} in tiles of {tile.rows} by {tile.vectors * lanes}",
    )  # fmt: skip


def tile_of(op: TileConv, x: TensorType, weight: TensorType, target: TileTarget) -> TileShape:
    """The register tile."""
    return tile_shape(op.lengths[-1], op.channels, math.prod(weight.shape[2:-1]), target.lanes(weight.dtype), target)


def numbers_of(op: TileConv, x: TensorType, weight: TensorType, target: TileTarget) -> dict[str, int]:
    """The run-time numbers, `scratch_bytes` and "images" among them."""
    (y,) = op.infer(x, weight)
    n = _sizes_of(x, y, op.kernel(weight), op.stride, op.low, op.dilation)
    n |= {
        "groups": op.groups, "in_channels": weight.shape[-2], "out_channels": op.channels, "blocks": weight.shape[1],
    }  # fmt: skip
    frame = _Frame(n, op.stride[-1])

    def scratch(rows: int, columns: int) -> int:
        return weight.dtype.itemsize * (frame.packed(rows, columns) + rows * columns * weight.shape[-1])

    flops = 2 * y.numel * math.prod(weight.shape[2:-1])
    tasks = n["images"] * n["groups"] * n["out_depth"]
    work = Work(n["out_height"], n["out_width"], tasks, n["blocks"], flops, scratch)
    cut = blocks(work, tile_of(op, x, weight, target))
    n |= frame.numbers(cut)
    return n | {
        "chunk_blocks": cut.chunk, "channel_chunks": math.ceil(n["blocks"] / cut.chunk),
        "scratch_bytes": scratch(cut.rows, cut.columns),
    }  # fmt: skip


def _weight_gradient(node: Node, op: TileWeightGrad, target: TileTarget) -> Launch:
    x, y = (v.type for v in node.operands)
    wide = node.result.type.dtype
    lanes = target.lanes(wide)
    kernel = TileKernel(CHANNELS_WEIGHT, x.dtype, op.rows, op.block // lanes, lanes, op.stride[-1])
    numbers = weight_numbers_of(op, x, y)
    return Launch(
        kernel, (*node.operands, node.result), tuple(numbers.get(k, 1) for k in SLOTS), (),
        op.strands * op.groups * numbers["channel_chunks"], multiplications(node),
        f"weight gradient of {list(op.kernel)} in tiles of {op.rows} by {op.block}",
    )  # fmt: skip


def weight_tile(
    kernel: Shape, dilation: tuple[int, ...], channels: tuple[int, int], pixels: int, wide: DType, target: TileTarget
) -> TileShape:
    """The register tile of a weight gradient for (input, output) channels in each group."""
    length = channels[0] * (kernel[-1] if dilation[-1] == 1 else 1)
    return tile_shape(length, channels[1], pixels, target.lanes(wide), target)


def strands_of(kernel: Shape, channels: tuple[int, int], pixels: int) -> int:
    """How many parts a weight gradient is added up in: few, because each takes memory."""
    flops = 2 * pixels * math.prod(kernel) * math.prod(channels)
    return max(1, min(MIN_TASKS, pixels // _PIXELS_OF_STRAND, flops // TASK_FLOPS))


def weight_numbers_of(op: TileWeightGrad, x: TensorType, y: TensorType) -> dict[str, int]:
    """The run-time numbers, and `scratch_bytes`."""
    (result,) = op.infer(x, y)
    n = _sizes_of(x, y, op.kernel, op.stride, op.padding, op.dilation)
    step = op.stride[-1]
    n |= {
        "groups": op.groups, "in_channels": x.shape[1] // op.groups, "out_channels": y.shape[1] // op.groups,
        "blocks": result.shape[-1] // op.block, "strands": op.strands,
        "runs": result.shape[-3], "run_length": op.run_length(x.shape[1] // op.groups),
        "run_pitch": result.shape[-2], "channel_pitch": result.shape[-1],
    }  # fmt: skip
    chunk = math.ceil(n["blocks"] / min(n["blocks"], math.ceil(MIN_TASKS / (op.strands * op.groups))))
    frame = _Frame(n, step)
    width = chunk * op.block

    def scratch(rows: int, columns: int) -> int:
        return result.dtype.itemsize * (frame.packed(rows, columns) + rows * columns * width)

    work = Work(n["out_height"], n["out_width"], MIN_TASKS, 1, 0, scratch)
    cut = blocks(work, TileShape(_LEAST_COLUMNS, 1))
    n |= frame.numbers(cut) | {"chunk_blocks": chunk, "channel_chunks": math.ceil(n["blocks"] / chunk)}
    units = n["images"] * n["out_depth"] * n["row_blocks"] * n["column_blocks"]
    near = max(1, _NEAR_PIXELS // cut.columns)
    return n | {"units": units, "near_rows": near, "scratch_bytes": scratch(cut.rows, cut.columns)}


@dataclass(frozen=True, slots=True)
class _Frame:
    """The input that a block of the output needs."""

    n: Mapping[str, int]
    step: int

    @property
    def row_step(self) -> int:
        """Rows of the input from one packed row to the next."""
        return self.n["stride_height"] if self.n["kernel_height"] == 1 else 1

    def pitch(self, columns: int) -> int:
        """Packed columns."""
        return (columns - 1) * self.step + (self.n["kernel_width"] - 1) * self.n["dilation_width"] + 1

    def rows(self, rows: int) -> int:
        """Packed rows."""
        down = self.n["stride_height"] // self.row_step
        return (rows - 1) * down + (self.n["kernel_height"] - 1) * self.n["dilation_height"] + 1

    def packed(self, rows: int, columns: int) -> int:
        """Packed elements."""
        return self.n["kernel_depth"] * self.n["in_channels"] * self.rows(rows) * self.pitch(columns)

    def numbers(self, cut: Blocks) -> dict[str, int]:
        """Blocks and what is packed for each."""
        return {
            "rows": cut.rows, "columns": cut.columns, "row_step": self.row_step,
            "row_blocks": math.ceil(self.n["out_height"] / cut.rows),
            "column_blocks": math.ceil(self.n["out_width"] / cut.columns),
            "pitch": self.pitch(cut.columns), "packed_rows": self.rows(cut.rows),
        }  # fmt: skip


def _sizes_of(
    x: TensorType, y: TensorType, kernel: Shape, stride: tuple[int, ...], low: tuple[int, ...],
    dilation: tuple[int, ...],
) -> dict[str, int]:  # fmt: skip
    """Lengths and strides."""
    found = {
        "images": x.shape[0], "x_image": math.prod(x.shape[1:]), "x_channel": math.prod(x.shape[2:]),
        "y_image": math.prod(y.shape[1:]), "y_channel": math.prod(y.shape[2:]),
    }  # fmt: skip
    by_axis: dict[str, tuple[tuple[int, ...], int]] = {
        "in": (x.shape[2:], 1), "out": (y.shape[2:], 1), "kernel": (kernel, 1), "stride": (stride, 1),
        "low": (low, 0), "dilation": (dilation, 1),
    }  # fmt: skip
    for name, (values, fill) in by_axis.items():
        for axis, value in zip(("depth", "height", "width"), _three(values, fill), strict=True):
            found[f"{name}_{axis}"] = value
    return found
