"""Tile kernels: the ops that they run, and what tells one from another. All else is a run-time number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitgrad.ir.dtypes import DType
from jitgrad.ir.op import Op
from jitgrad.ir.ops.broadcast import accumulator_dtype

from .ir import Buffer, Stmt

CHANNELS, CHANNELS_WEIGHT = "channels", "channels weight"
PIXELS, PIXELS_WEIGHT = "pixels", "pixels weight"
WEIGHT = "weight"  # packed
PRODUCT = "product"  # of two matrices
STRAIGHT, TURNED, PACKED, PACKS = range(4)  # how its factors are come by; or what is done instead

_NUMBERS: Final = (
    "groups", "out_depth", "row_blocks", "column_blocks", "channel_chunks",
    "x_image", "x_channel", "in_channels", "in_depth", "in_height", "in_width",
    "y_image", "y_channel", "out_channels", "out_height", "out_width",
    "kernel_depth", "kernel_height", "kernel_width", "stride_depth", "stride_height",
    "low_depth", "low_height", "low_width", "dilation_depth", "dilation_height", "dilation_width",
    "rows", "columns", "pitch", "packed_rows", "row_step", "chunk_blocks", "blocks",
    "phases", "phase_width", "tap_rows", "terms", "weight_block", "weight_depth", "weight_width", "weight_height",
    "y_offset", "y_depth", "y_row",
    "spread_depth", "spread_height", "spread_width",
    "strands", "units", "near_rows", "runs", "run_length", "rows_of_result",
    "row_pitch", "stride_width", "tile_width", "pixel_pitch", "down", "has_bias", "has_relu",
    "group_pitch", "out_pitch", "in_pitch", "first",
)  # fmt: skip
SLOTS: Final = {name: n for n, name in enumerate(_NUMBERS)}
PHASE_SLOTS: Final = 3  # of each phase, behind the others: places along the width, columns to skip, weights to skip


class TileOp(Op):
    """An op that tile kernels run."""


@dataclass(frozen=True, slots=True)
class TileKernel:
    """A tile kernel's structure.

    `form` says which loops. `rows` by `vectors` registers of `lanes` elements are summed up at a time, at most;
    neighbouring elements of a row are `step` elements of the input apart, where that is in the code.
    """

    form: str
    dtype: DType
    rows: int
    vectors: int
    lanes: int
    step: int = 1

    @property
    def wide(self) -> DType:
        """The type that sums are in, and weights."""
        return accumulator_dtype(self.dtype)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Input, weight, perhaps a bias, result; input, output, the weight's gradient; or a weight, packed."""
        if self.form in (CHANNELS_WEIGHT, PIXELS_WEIGHT):
            return Buffer(self.dtype, "in"), Buffer(self.dtype, "in"), Buffer(self.wide, "out")
        if self.form == WEIGHT:
            return Buffer(self.dtype, "in"), Buffer(self.wide, "out")
        weights = 2 if self.form == CHANNELS else 1
        return (Buffer(self.dtype, "in"), *[Buffer(self.wide, "in")] * weights, Buffer(self.dtype, "out"))

    @property
    def params(self) -> tuple[DType, ...]:
        """None: all its numbers are integers."""
        return ()

    @property
    def body(self) -> tuple[Stmt, ...]:
        """No loop-level IR: a tile kernel is emitted from its structure."""
        return ()
