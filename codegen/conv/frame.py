"""Lengths and strides of a convolution as run-time numbers, and the input that a block of its output needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from jitgrad.ir.types import Shape, TensorType

from .schedule import Blocks


def sizes(
    x: TensorType, y: TensorType, groups: int, kernel: Shape, stride: tuple[int, ...], low: tuple[int, ...],
    dilation: tuple[int, ...],
) -> dict[str, int]:  # fmt: skip
    """Lengths and strides of input, output and kernel; an axis that there is not has length 1."""
    found = {
        "images": x.shape[0], "x_image": math.prod(x.shape[1:]), "x_channel": math.prod(x.shape[2:]),
        "y_image": math.prod(y.shape[1:]), "y_channel": math.prod(y.shape[2:]),
        "groups": groups, "in_channels": x.shape[1] // groups, "out_channels": y.shape[1] // groups,
    }  # fmt: skip
    by_axis: dict[str, tuple[tuple[int, ...], int]] = {
        "in": (x.shape[2:], 1), "out": (y.shape[2:], 1), "kernel": (kernel, 1), "stride": (stride, 1),
        "low": (low, 0), "dilation": (dilation, 1),
    }  # fmt: skip
    for name, (values, fill) in by_axis.items():
        padded = (*(fill,) * (3 - len(values)), *values)
        for axis, value in zip(("depth", "height", "width"), padded, strict=True):
            found[f"{name}_{axis}"] = value
    return found


@dataclass(frozen=True, slots=True)
class Frame:
    """The packed input of a block, whose columns are `step` apart, and which see `reach` columns each."""

    n: Mapping[str, int]
    step: int
    reach: int

    @property
    def row_step(self) -> int:
        """Rows of the input from one packed row to the next."""
        return self.n["stride_height"] if self.n["kernel_height"] == 1 else 1

    @property
    def down(self) -> int:
        """Packed rows from one row of the output to the next."""
        return self.n["stride_height"] // self.row_step

    def pitch(self, columns: int) -> int:
        """Packed columns."""
        return (columns - 1) * self.step + max(1, self.reach)

    def rows(self, rows: int) -> int:
        """Packed rows."""
        return (rows - 1) * self.down + max(0, self.n["kernel_height"] - 1) * self.n["dilation_height"] + 1

    def packed(self, rows: int, columns: int) -> int:
        """Packed elements."""
        return self.n["kernel_depth"] * self.n["in_channels"] * self.rows(rows) * self.pitch(columns)

    def numbers(self, cut: Blocks, width: int) -> dict[str, int]:
        """Blocks of an output `width` columns wide, and what is packed for each."""
        return {
            "rows": cut.rows, "columns": cut.columns, "row_step": self.row_step, "down": self.down,
            "row_blocks": math.ceil(self.n["out_height"] / cut.rows),
            "column_blocks": math.ceil(width / cut.columns),
            "pitch": self.pitch(cut.columns), "packed_rows": self.rows(cut.rows),
        }  # fmt: skip
