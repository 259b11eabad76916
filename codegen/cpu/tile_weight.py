"""The kernel of a convolution's weight gradient whose lanes are output channels.

    for each task: a strand, a group, a chunk of channel blocks
        for each unit of the strand: an image, a depth, a block of rows, a block of columns
            pack the input: [kernel depth][rows][columns][channels], zeros around it
            pack the output's gradient: [rows][columns][channels of the chunk]
            for some rows at a time, some blocks of channels, each place of the kernel, each tile of channels
                registers [input channel][output channel] += input[channel] * gradient[channel], over the pixels

Results are [strand][group][place][input channel][output channel]. Each strand adds up into memory of its own, one after
another, so that results are the same for any number of threads. Where columns are not dilated, the kernel's width and
the input channels are one run. Tiles are functions, of which there are a few for any sizes (`tile_gradients`).
"""

from __future__ import annotations

from typing import NamedTuple

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_builder import Numbers, TileBuilder
from .tile_gradients import gradients_function


class _Output(NamedTuple):
    """Where some blocks of output channels are added up: the first place, the number of blocks, and of channels."""

    place: ir.Value
    vectors: ir.Value
    left: ir.Value


def emit_weight_gradient(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: input, gradient of the output, result by strands."""
    return _WeightGradient(module, symbol, kernel).run()


class _WeightGradient(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.n = Numbers(self)

    def run(self) -> ir.Function:
        """The whole function."""
        n, lanes = self.n, self.lanes
        self.x, self.y, self.result = (self.buffer(k) for k in range(3))
        self.row_pitch = self.product(n["in_channels"], n["pitch"])
        self.plane = self.product(n["packed_rows"], self.row_pitch)
        slack = self.kernel.rows + lanes
        self.packed_x = self.scratch(self.sum(self.product(n["kernel_depth"], self.plane), slack))
        self.y_pitch = self.product(n["chunk_blocks"], lanes)
        self.packed_y = self.scratch(self.product(n["rows"], n["columns"], self.y_pitch))
        with self.loop(self.end, start=self.begin) as task:
            strand, group, chunk = self.split(task, n["groups"], n["channel_chunks"])
            first = self.product(chunk, n["chunk_blocks"])
            count = self.minimum(n["chunk_blocks"], self.b.sub(n["blocks"], first))
            left = self.minimum(self.product(count, lanes), self.b.sub(n["out_channels"], self.product(first, lanes)))
            size = self.product(n["rows_of_result"], n["row_pitch"])
            out = self.product(self.sum(self.product(strand, n["groups"]), group), size)
            place = self.at(self.result, out, self.product(first, lanes), wide=True)
            self._clear(place, left)
            start, stop = (self.b.sdiv(self.product(self.sum(strand, k), n["units"]), n["strands"]) for k in (0, 1))
            with self.loop(stop, start=start) as unit:
                self._unit(unit, group, first, _Output(place, count, left))
        return self.finish()

    def _clear(self, out: ir.Value, left: ir.Value) -> None:
        with self.loop(self.n["rows_of_result"]) as row, self.loop(left, step=self.lanes) as o:
            place = self.at(out, self.product(row, self.n["row_pitch"]), o, wide=True)
            self.write_some_wide(place, self.zero, self.between(I64(0), self.b.sub(left, o)))

    def _unit(self, unit: ir.Value, group: ir.Value, first: ir.Value, out: _Output) -> None:
        n, b, lanes, vectors = self.n, self.b, self.lanes, self.kernel.vectors
        image, depth, row_block, column_block = self.split(
            unit, n["out_depth"], n["row_blocks"], n["column_blocks"]
        )  # fmt: skip
        row0, column0 = self.product(row_block, n["rows"]), self.product(column_block, n["columns"])
        rows = self.minimum(n["rows"], b.sub(n["out_height"], row0))
        columns = self.minimum(n["columns"], b.sub(n["out_width"], column0))
        self._pack_x(image, group, depth, row0, column0)
        channel = self.sum(self.product(group, n["out_channels"]), self.product(first, lanes))
        place = self.sum(self.product(self.sum(self.product(depth, n["out_height"]), row0), n["out_width"]), column0)
        source = self.sum(self.product(image, n["y_image"]), self.product(channel, n["y_channel"]), place)
        self._pack_y(source, rows, columns, out.left)
        with self.loop(b.sdiv(self.sum(rows, n["near_rows"], -1), n["near_rows"])) as k:
            start = self.product(k, n["near_rows"])
            near = self.minimum(n["near_rows"], b.sub(rows, start))
            with self.loop(out.vectors, step=vectors) as block:
                o = self.product(block, lanes)
                part = _Output(self.at(out.place, o, wide=True), b.sub(out.vectors, block), b.sub(out.left, o))
                self._places(start, near, columns, block, part)

    # Packing

    def _pack_x(self, image: ir.Value, group: ir.Value, depth: ir.Value, row0: ir.Value, column0: ir.Value) -> None:
        """Copy the input that the unit needs, with zeros where there is none."""
        n, b = self.n, self.b
        source = self.sum(
            self.product(image, n["x_image"]), self.product(group, n["in_channels"], n["x_channel"])
        )  # fmt: skip
        column = b.sub(self.product(column0, n["stride_width"]), n["low_width"])
        row0 = b.sub(self.product(row0, n["stride_height"]), n["low_height"])
        with self.loop(n["kernel_depth"]) as k:
            d = b.sub(self.sum(self.product(depth, n["stride_depth"]), self.product(k, n["dilation_depth"])),
                      n["low_depth"])  # fmt: skip
            with self.loop(n["packed_rows"]) as r:
                row = self.sum(row0, self.product(r, n["row_step"]))
                inside = b.and_(b.icmp_unsigned("<", d, n["in_depth"]), b.icmp_unsigned("<", row, n["in_height"]))
                limit = b.select(inside, n["in_width"], I64(0))
                place = self.product(self.sum(self.product(d, n["in_height"]), row), n["in_width"])
                target = self.sum(self.product(k, self.plane), self.product(r, self.row_pitch))
                with self.loop(n["in_channels"], step=self.lanes) as c, self.loop(n["pitch"], step=self.lanes) as j:
                    self._turn_x(self.sum(source, place, column, self.product(c, n["x_channel"]), j), limit,
                                 self.sum(column, j), self.sum(target, self.product(j, n["in_channels"]), c),
                                 b.sub(n["in_channels"], c), b.sub(n["pitch"], j))  # fmt: skip

    def _turn_x(
        self, source: ir.Value, limit: ir.Value, here: ir.Value, target: ir.Value, channels: ir.Value, pixels: ir.Value
    ) -> None:
        """As many channels as columns of a row, as far as there are any."""
        b = self.b
        inside = self.between(b.sub(I64(0), here), b.sub(limit, here))
        some = self.between(I64(0), channels)
        source, target = self.at(self.x, source), self.at(self.packed_x, target, wide=True)
        self.pack_square(source, self.n["x_channel"], channels, inside, target, self.n["in_channels"], pixels, some)

    def _pack_y(self, source: ir.Value, rows: ir.Value, columns: ir.Value, left: ir.Value) -> None:
        """Copy the output's gradient; channels that there are not are zero."""
        n, b = self.n, self.b
        whole = b.icmp_signed("==", columns, n["out_width"])
        runs = b.select(whole, I64(1), rows)
        length = b.select(whole, self.product(rows, columns), columns)
        with self.loop(runs) as run:
            start = self.sum(source, self.product(run, n["out_width"]))
            target = self.product(run, columns, self.y_pitch)
            with self.loop(self.y_pitch, step=self.lanes) as c, self.loop(length, self.lanes) as j:
                self._turn_y(self.sum(start, self.product(c, n["y_channel"]), j), b.sub(left, c),
                             self.sum(target, self.product(j, self.y_pitch), c), b.sub(length, j))  # fmt: skip

    def _turn_y(self, source: ir.Value, channels: ir.Value, target: ir.Value, pixels: ir.Value) -> None:
        inside = self.between(I64(0), pixels)
        source, target = self.at(self.y, source), self.at(self.packed_y, target, wide=True)
        by_channel = self.n["y_channel"]
        self.pack_square(source, by_channel, channels, inside, target, self.y_pitch, pixels, self.everywhere)

    # Sums

    def _places(self, row: ir.Value, rows: ir.Value, columns: ir.Value, block: ir.Value, out: _Output) -> None:
        """All places of the kernel, for one or more blocks of output channels and some rows."""
        n, b = self.n, self.b
        start = self.product(row, n["down"], self.row_pitch)
        y = self.at(self.packed_y, self.product(row, columns, self.y_pitch), self.product(block, self.lanes), wide=True)
        down, across = self.product(n["dilation_height"], self.row_pitch), self.product(
            n["dilation_width"], n["in_channels"])  # fmt: skip
        with self.loop(n["kernel_depth"]) as kd, self.loop(n["kernel_height"]) as kh, self.loop(n["runs"]) as kw:
            x = self.sum(start, self.product(kd, self.plane), self.product(kh, down), self.product(kw, across))
            place = self.sum(self.product(self.sum(self.product(kd, n["kernel_height"]), kh), n["runs"]), kw)
            with self.loop(n["run_length"], step=self.kernel.rows) as j:
                target = self.product(self.sum(self.product(place, n["run_length"]), j), n["row_pitch"])
                self._tile(self.at(self.packed_x, x, j, wide=True), y, (rows, columns), b.sub(n["run_length"], j),
                           _Output(self.at(out.place, target, wide=True), *out[1:]))  # fmt: skip

    def _tile(self, x: ir.Value, y: ir.Value, pixels: tuple[ir.Value, ir.Value], rows: ir.Value, out: _Output) -> None:
        """By the function whose tile is as wide as there are blocks, and no taller than twice as tall as it must be."""
        b, tall = self.b, self.kernel.rows
        is_wide = b.icmp_signed(">", out.vectors, I64(1))
        with b.if_else(b.icmp_signed(">", rows, I64(tall // 2))) as heights:
            for height, by_height in zip((tall, tall // 2), heights):
                with by_height, b.if_else(is_wide) as widths:
                    for vectors, by_width in zip((self.kernel.vectors, 1), widths):
                        with by_width:
                            function = gradients_function(b.module, self.dtype, self.lanes, height, vectors)
                            b.call(function, [self.slots, x, y, *pixels, rows, out.left, self.y_pitch, out.place])
