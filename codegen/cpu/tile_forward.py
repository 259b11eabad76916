"""The convolution kernel whose lanes are output channels.

    for each task: an image, a group, a depth, a block of rows, a block of columns, a chunk of channel blocks
        pack the input that the block needs: [kernel depth][rows][channels][columns], zeros around it
        for some blocks of channels
            for each phase, for each tile of pixels, which go on from row to row
                registers [pixel][channel] += input[pixel] * weight[channel], over the kernel and the input channels
            transpose to the output's layout

A weight is packed as [group][block][depth][width][height][channels][lanes], so that it is read from end to end. A block
is a register wide; tiles are one or more of them wide (`tile_sums`), as many as there are: one kernel serves all
numbers of channels, widths and strides, with a bias and a rectifier or without.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..loops.tile import PHASE_SLOTS, SLOTS, TileKernel
from . import llvm_ir as ir
from .emit_types import I64, POINTER
from .tile_builder import Numbers, TileBuilder
from .tile_memory import masked_read
from .tile_sums import sums_function

_STREAMS: Final = 8  # channels read side by side: planes of a power of two share a set of the first cache


class _Output(NamedTuple):
    """Where some blocks of channels go: the first address, registers, channels, elements of a row; and their bias."""

    place: ir.Value
    vectors: ir.Value
    channels: ir.Value
    length: ir.Value
    bias: ir.Value


def emit_forward(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: input, packed weight, bias (or anything), result."""
    return _Forward(module, symbol, kernel).run()


class _Forward(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.n = Numbers(self)

    def run(self) -> ir.Function:
        """The whole function."""
        n = self.n
        self.x, self.weight, self.bias, self.y = (self.buffer(k) for k in range(4))
        self.row_pitch = self.product(n["in_channels"], n["pitch"])
        self.plane = self.product(n["packed_rows"], self.row_pitch)
        self.packed = self.scratch(self.product(n["kernel_depth"], self.plane))
        self.tile = self.scratch(self.product(self.sum(self.product(n["rows"], n["columns"]), self.kernel.rows),
                                              n["pixel_pitch"]))  # fmt: skip
        self.pixels = self.scratch(I64(self.kernel.rows * 8 // self.wide.itemsize))
        self.table = self.scratch(self.product(n["kernel_depth"], n["kernel_width"], n["tap_rows"],
                                               2 * 8 // self.wide.itemsize))  # fmt: skip
        self.pixel, self.column = self.cell(POINTER), self.cell(I64)  # of the next tile's first one
        self.row, self.row_begin = self.cell(I64), self.cell(I64)  # which is to be expected, and its first pixel
        with self.loop(self.end, start=self.begin) as task:
            self._task(task)
        return self.finish()

    def _task(self, task: ir.Value) -> None:
        n, b, lanes = self.n, self.b, self.lanes
        extents = [n[k] for k in ("groups", "out_depth", "row_blocks", "column_blocks", "channel_chunks")]
        image, group, depth, row_block, column_block, chunk = self.split(task, *extents)
        first_row = self.product(row_block, n["rows"])
        first_column = self.minimum(self.product(column_block, n["columns"]), b.sub(n["phase_width"], n["columns"]))
        self._pack(image, group, depth, first_row, first_column)
        rows = self.minimum(n["rows"], b.sub(n["out_height"], first_row))
        first = self.product(chunk, n["chunk_blocks"])
        last = self.minimum(self.sum(first, n["chunk_blocks"]), n["blocks"])
        column = self.product(first_column, n["phases"])
        out = self.sum(
            n["y_offset"], self.product(image, n["y_image"]), self.product(group, n["out_channels"], n["y_channel"]),
            self.product(depth, n["y_depth"]), self.product(first_row, n["y_row"]), column,
        )  # fmt: skip
        length = self.minimum(self.product(n["columns"], n["phases"]), b.sub(n["out_width"], column))
        with self.loop(last, start=first, step=self.kernel.vectors) as block:
            vectors, channel = self.minimum(self.kernel.vectors, b.sub(last, block)), self.product(block, lanes)
            channels = self.minimum(self.product(vectors, lanes), b.sub(n["out_channels"], channel))
            bias = self.at(self.bias, self.product(group, n["out_channels"]), channel, wide=True)
            target = _Output(
                self.at(self.y, out, self.product(channel, n["y_channel"])), vectors, channels, length, bias
            )
            number = self.sum(self.product(group, n["blocks"]), block)
            weight = self.at(self.weight, self.product(number, n["weight_block"]), wide=True)
            with self.loop(n["phases"]) as phase:
                self._phase(phase, rows, weight, target)
            self._unpack(target, rows)

    # Packing

    def _pack(
        self, image: ir.Value, group: ir.Value, depth: ir.Value, first_row: ir.Value, first_column: ir.Value
    ) -> None:
        """Copy the input that the task needs, with zeros where there is none."""
        n, b = self.n, self.b
        source = self.sum(
            self.product(image, n["x_image"]), self.product(group, n["in_channels"], n["x_channel"])
        )  # fmt: skip
        column = b.sub(self.product(first_column, n["stride_width"]), n["low_width"])
        row0 = b.sub(self.product(first_row, n["stride_height"]), n["low_height"])
        with self.loop(n["in_channels"], step=_STREAMS) as first, self.loop(n["kernel_depth"]) as k:
            channels = first, self.minimum(n["in_channels"], self.sum(first, _STREAMS))
            d = b.sub(self.sum(self.product(depth, n["stride_depth"]), self.product(k, n["dilation_depth"])),
                      n["low_depth"])  # fmt: skip
            with self.loop(n["packed_rows"]) as r:
                row = self.sum(row0, self.product(r, n["row_step"]))
                inside = b.and_(b.icmp_unsigned("<", d, n["in_depth"]), b.icmp_unsigned("<", row, n["in_height"]))
                limit = b.select(inside, n["in_width"], I64(0))
                place = self.product(self.sum(self.product(d, n["in_height"]), row), n["in_width"])
                start = self.sum(source, place, column)
                target = self.sum(self.product(k, self.plane), self.product(r, self.row_pitch))
                self._pack_row(channels, start, column, limit, target)

    def _pack_row(
        self, channels: tuple[ir.Value, ir.Value], source: ir.Value, column: ir.Value, limit: ir.Value,
        target: ir.Value,
    ) -> None:  # fmt: skip
        """One row of some channels."""
        b, n, lanes = self.b, self.n, self.lanes
        by_channel, pitch = n["x_channel"], n["pitch"]
        with self.loop(pitch, step=lanes) as j:
            here = self.sum(column, j)
            mask = self.between(b.sub(I64(0), here), b.sub(limit, here))
            packed = self.between(I64(0), b.sub(pitch, j))
            first, place = self.sum(source, j), self.sum(target, j)
            with self.loop(channels[1], start=channels[0]) as c:
                value = self.read_some(self.at(self.x, first, self.product(c, by_channel)), mask)
                self.write_some_wide(self.at(self.packed, place, self.product(c, pitch), wide=True), value, packed)

    # Sums

    def _phase(self, phase: ir.Value, rows: ir.Value, weight: ir.Value, out: _Output) -> None:
        """All tiles of one phase, which go on from row to row."""
        n, b, tall = self.n, self.b, self.kernel.rows
        total = self.product(rows, n["columns"])
        taps = self._taps(phase)
        target = self.at(self.tile, self.product(phase, n["tile_width"]), wide=True)
        b.store(self.packed, self.pixel)
        for cell in (self.column, self.row, self.row_begin):
            b.store(I64(0), cell)
        with self.loop(total, step=tall) as q:
            with b.if_then(b.icmp_signed(">=", q, b.load(self.row_begin, typ=I64))):
                self._expect(out)
            left = b.sub(total, q)
            self._point(left)
            place = self.at(target, self.product(q, n["pixel_pitch"]), wide=True)
            self._tile(left, out.vectors, [
                self.pixels, self.table, taps, n["terms"], n["pitch"], weight, n["weight_block"], place,
                n["pixel_pitch"],
            ])  # fmt: skip
            with b.if_then(b.icmp_signed("!=", self.sum(n["has_bias"], n["has_relu"]), I64(0))):
                self._epilogue(place, out)

    def _taps(self, phase: ir.Value) -> ir.Value:
        """Put down where the terms of each place of the kernel are; how many there are.

        Where rows are not dilated, the kernel's height and the input channels are one run of terms.
        """
        n, b = self.n, self.b
        at = self.sum(self.product(phase, PHASE_SLOTS), len(SLOTS))
        places, skipped, weights = (self.slot(self.sum(at, k)) for k in range(PHASE_SLOTS))
        down, cell = self.product(n["dilation_height"], self.row_pitch), self.cell(I64)
        b.store(I64(0), cell)
        with self.loop(n["kernel_depth"]) as kd, self.loop(places) as kw, self.loop(n["tap_rows"]) as kh:
            tap = self.sum(skipped, self.product(kd, self.plane), self.product(kw, n["dilation_width"]),
                           self.product(kh, down))  # fmt: skip
            weight = self.sum(weights, self.product(kd, n["weight_depth"]), self.product(kw, n["weight_width"]),
                              self.product(kh, n["weight_height"]))  # fmt: skip
            count = b.load(cell, typ=I64)
            for k, number in enumerate((tap, weight)):
                b.store(number, b.gep(self.table, [self.sum(self.product(count, 2), k)], source_etype=I64))
            b.store(self.sum(count, 1), cell)
        return b.load(cell, typ=I64)

    def _tile(self, left: ir.Value, vectors: ir.Value, arguments: list[ir.Value]) -> None:
        """By the function whose tile is as wide as there are blocks; a wide one is half as tall where that will do."""
        b, tall, width = self.b, self.kernel.rows, self.kernel.vectors
        with b.if_else(b.icmp_signed(">", vectors, I64(1))) as (is_wide, is_narrow):
            with is_narrow:
                b.call(sums_function(b.module, self.dtype, self.lanes, tall, 1), arguments)
            with is_wide, b.if_else(b.icmp_signed(">", left, I64(tall // 2))) as heights:
                for height, way in zip((tall, tall // 2), heights):
                    with way:
                        b.call(sums_function(b.module, self.dtype, self.lanes, height, width), arguments)

    def _epilogue(self, place: ir.Value, out: _Output) -> None:
        """A tile with its bias, and no less than 0; half types round after each operation, as they do elsewhere."""
        n, b = self.n, self.b
        with self.loop(self.kernel.rows) as p, self.loop(self.product(out.vectors, self.lanes), step=self.lanes) as c:
            address, value = self.at(place, self.product(p, n["pixel_pitch"]), c, wide=True), self.cell(self.vector)
            b.store(self.read(address), value)
            with b.if_then(b.icmp_signed("!=", n["has_bias"], I64(0))):
                there = self.between(I64(0), b.sub(out.channels, c))
                bias = masked_read(b, self.wide, self.at(out.bias, c, wide=True), there, self.lanes)
                b.store(b.fadd(self.rounded(b.load(value, typ=self.vector)), bias), value)
            with b.if_then(b.icmp_signed("!=", n["has_relu"], I64(0))):
                found = b.load(value, typ=self.vector)
                b.store(b.select(b.fcmp_ordered("<=", found, self.zero), self.zero, found), value)
            self.write(address, b.load(value, typ=self.vector))

    def _point(self, count: ir.Value) -> None:
        """Put down the addresses of a tile's pixels, `count` of which there are: behind them is the last one again."""
        n, b = self.n, self.b
        place, column = b.load(self.pixel, typ=POINTER), b.load(self.column, typ=I64)
        step, last = n["stride_width"], b.sub(n["columns"], I64(1))
        down = b.sub(self.product(n["down"], self.row_pitch), self.product(last, step))
        for p in range(self.kernel.rows):
            b.store(place, b.gep(self.pixels, [I64(p)], source_etype=POINTER))
            ends = b.icmp_signed("==", column, last)
            move = b.select(ends, down, step)
            place = self.at(place, b.select(b.icmp_signed("<", I64(p + 1), count), move, I64(0)), wide=True)
            column = b.select(ends, I64(0), self.sum(column, 1))
        b.store(place, self.pixel)
        b.store(column, self.column)

    # The output's layout

    def _expect(self, out: _Output) -> None:
        """Have lines of the next row brought near while sums are made: later, writing them would wait for memory."""
        n, b = self.n, self.b
        row = b.load(self.row, typ=I64)
        target = self.at(out.place, self.product(row, n["y_row"]))
        with self.loop(out.channels) as c, self.loop(out.length, self.lanes) as j:
            self.prefetch(self.at(target, self.product(c, n["y_channel"]), j), writes=True)
        b.store(self.sum(row, 1), self.row)
        b.store(self.sum(b.load(self.row_begin, typ=I64), n["columns"]), self.row_begin)

    def _unpack(self, out: _Output, rows: ir.Value) -> None:
        """From [pixel][channel] to the output: channel by channel, pixels in rows."""
        n, b = self.n, self.b
        row = self.product(n["columns"], n["phases"])
        whole = b.and_(b.icmp_signed("==", row, n["out_width"]), b.icmp_signed("==", row, n["y_row"]))
        runs = b.select(whole, I64(1), rows)
        length = b.select(whole, self.product(rows, row), out.length)
        with self.loop(runs) as run:
            source = self.product(run, row, n["tile_width"])
            target = self.at(out.place, self.product(run, n["y_row"]))
            with self.loop(out.channels, step=self.lanes) as c, self.loop(length, self.lanes) as j:
                self._square(self.sum(source, self.product(j, n["tile_width"]), c), self.at(target, j), c,
                             b.sub(length, j), b.sub(out.channels, c))  # fmt: skip

    def _square(
        self, source: ir.Value, target: ir.Value, channel: ir.Value, pixels: ir.Value, channels: ir.Value
    ) -> None:
        """As many pixels as channels, as far as there are any."""
        by_channel, mask = self.n["y_channel"], self.between(I64(0), pixels)
        source = self.at(self.tile, source, wide=True)
        target = self.at(target, self.product(channel, by_channel))
        self.unpack_square(source, self.n["tile_width"], pixels, self.everywhere, target, by_channel, channels, mask)
