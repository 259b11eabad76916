"""From a convolution by pixels, or its weight gradient, to its launch, with its run-time numbers."""

from __future__ import annotations

import math
from typing import Final

from jitgrad.ir.graph import Node
from jitgrad.ir.types import TensorType

from ..loops.tile import PIXELS, PIXELS_WEIGHT, SLOTS, TileKernel
from ..lower.kernel_builder import Launch
from .frame import Frame, sizes
from .pixel_ops import PixelConv, PixelWeightGrad
from .schedule import MIN_TASKS, Work, blocks
from .target import TileTarget

_ROWS: Final = 8  # of a tile, so that a core does not wait for its own additions
_VECTORS: Final = 4  # of a tile of one row
_MOST_PLACES: Final = 4  # of a kernel's rows and columns, in a tile of a weight gradient


def pixel_launch(node: Node, op: PixelConv, target: TileTarget) -> Launch:
    """The launch of a convolution."""
    x, weight = (v.type for v in node.operands)
    y, lanes = node.result.type, target.lanes(weight.dtype)
    n = pixel_numbers(op, x, weight)
    kernel = TileKernel(PIXELS, x.dtype, _ROWS, _VECTORS, lanes, op.stride[-1])
    tasks = math.prod(n[k] for k in ("images", "groups", "out_depth", "row_blocks", "column_blocks"))
    return Launch(
        kernel, (*node.operands, node.result), tuple(n.get(k, 1) for k in SLOTS), (), tasks,
        y.numel * math.prod(weight.shape[1:]),
        f"convolution of {list(weight.shape[2:])} in tiles of {_ROWS} by {lanes}",
    )  # fmt: skip


def pixel_numbers(op: PixelConv, x: TensorType, weight: TensorType) -> dict[str, int]:
    """The run-time numbers, and `scratch_bytes`."""
    (y,) = op.infer(x, weight)
    kernel = weight.shape[2:]
    n = sizes(x, y, op.groups, kernel, op.stride, op.low, op.dilation)
    spread = (*(1,) * (3 - len(op.spread)), *op.spread)
    n |= {f"spread_{axis}": s for axis, s in zip(("depth", "height", "width"), spread, strict=True)}
    frame = Frame(n, op.stride[-1], (kernel[-1] - 1) * op.dilation[-1] + 1)

    def scratch(rows: int, columns: int) -> int:
        return int(weight.dtype.itemsize) * frame.packed(rows, columns)

    tasks = n["images"] * n["groups"] * n["out_depth"]
    flops = 2 * y.numel * math.prod(weight.shape[1:])
    cut = blocks(Work(n["out_height"], n["out_width"], tasks, 1, flops, scratch))
    return n | frame.numbers(cut, n["out_width"]) | {"scratch_bytes": scratch(cut.rows, cut.columns)}


def pixel_weight_launch(node: Node, op: PixelWeightGrad, target: TileTarget) -> Launch:
    """The launch of a weight gradient."""
    x, y = (v.type for v in node.operands)
    result = node.result.type
    n = pixel_weight_numbers(op, x, y)
    rows, columns = (min(_MOST_PLACES, n[k]) for k in ("kernel_height", "kernel_width"))
    kernel = TileKernel(PIXELS_WEIGHT, x.dtype, rows, columns, target.lanes(result.dtype), op.stride[-1])
    return Launch(
        kernel, (*node.operands, node.result), tuple(n.get(k, 1) for k in SLOTS), (), op.strands * y.shape[1],
        y.numel * math.prod(result.shape[2:]),
        f"weight gradient of {list(op.kernel)} in tiles of {rows} by {columns} places",
    )  # fmt: skip


def pixel_weight_numbers(op: PixelWeightGrad, x: TensorType, y: TensorType) -> dict[str, int]:
    """The run-time numbers, and `scratch_bytes`."""
    (result,) = op.infer(x, y)
    n = sizes(x, y, op.groups, op.kernel, op.stride, op.padding, op.dilation) | {"strands": op.strands}
    frame = Frame(n, op.stride[-1], (op.kernel[-1] - 1) * op.dilation[-1] + 1)

    def scratch(rows: int, columns: int) -> int:
        return int(result.dtype.itemsize) * frame.packed(rows, columns)

    cut = blocks(Work(n["out_height"], n["out_width"], MIN_TASKS, 1, 0, scratch))
    n |= frame.numbers(cut, n["out_width"])
    units = n["images"] * n["out_depth"] * n["row_blocks"] * n["column_blocks"]
    return n | {"units": units, "scratch_bytes": scratch(cut.rows, cut.columns)}


def pixel_strands(channels: int, pixels: int) -> int:
    """How many parts a weight gradient is added up in: one, if the output has channels enough to share out."""
    return max(1, min(-(-MIN_TASKS // channels), pixels // 512))
