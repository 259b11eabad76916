"""The convolution kernel whose lanes are output channels.

    for each task: an image, a group, a depth, a block of rows, a block of columns, a chunk of channel blocks
        pack the input that the block needs: [kernel depth][rows][channels][columns], zeros around it
        for each block of channels
            for each phase, for each row, for each tile of it
                registers [pixel][channel] += input[pixel] * weight[channel], over the kernel and the input channels
            transpose to the output's layout

A weight is packed as [group][block][depth][width][height][channels][lanes of the block], so that it is read from end to
end. Where rows are not dilated, the kernel's height and the input channels are one loop.
"""

from __future__ import annotations

from typing import Final

from ..loops.tile import PHASE_SLOTS, SLOTS, TileKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_builder import Numbers, TileBuilder

_STREAMS: Final = 16  # channels read side by side: more than a core follows through memory would make it wait for each


def emit_forward(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: input, packed weight, bias packed likewise if there is one, result."""
    return _Forward(module, symbol, kernel).run()


class _Forward(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.width = kernel.vectors * kernel.lanes  # channels in a block
        self.n = Numbers(self)

    def run(self) -> ir.Function:
        """The whole function."""
        n = self.n
        self.x, self.weight, self.y = self.buffer(0), self.buffer(1), self.buffer(3 if self.kernel.has_bias else 2)
        self.bias = self.buffer(2) if self.kernel.has_bias else None
        self.row_pitch = self.product(n["in_channels"], n["pitch"])
        self.plane = self.product(n["packed_rows"], self.row_pitch)
        self.packed = self.scratch(self.product(n["kernel_depth"], self.plane))
        self.tile_row = self.product(n["columns"], n["phases"], self.width)
        self.tile = self.scratch(self.product(n["rows"], self.tile_row))
        with self.loop(self.end, start=self.begin) as task:
            self._task(task)
        return self.finish()

    def _task(self, task: ir.Value) -> None:
        n, b = self.n, self.b
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
        with self.loop(last, start=first) as block:
            number = self.sum(self.product(group, n["blocks"]), block)
            weight = self.at(self.weight, self.product(number, n["weight_block"]), wide=True)
            length = self.minimum(self.product(n["columns"], n["phases"]), b.sub(n["out_width"], column))
            place, first_channel = self.at(self.y, out), self.product(block, self.width)
            with self.loop(n["phases"]) as phase, self.loop(rows) as row:
                self._expect(place, first_channel, row, length)
                self._row(row, phase, weight, number)
            self._unpack(place, first_channel, rows, length)

    # Packing

    def _pack(
        self, image: ir.Value, group: ir.Value, depth: ir.Value, first_row: ir.Value, first_column: ir.Value
    ) -> None:
        """Copy the input that the task needs, with zeros where there is none."""
        n, b = self.n, self.b
        source = self.sum(
            self.product(image, n["x_image"]), self.product(group, n["in_channels"], n["x_channel"])
        )  # fmt: skip
        column = b.sub(self.product(first_column, self.kernel.step), n["low_width"])
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

    def _row(self, row: ir.Value, phase: ir.Value, weight: ir.Value, block: ir.Value) -> None:
        """All tiles of a row of the output; the last one is moved back to end with the row."""
        n, b = self.n, self.b
        at = self.sum(self.product(phase, PHASE_SLOTS), len(SLOTS))
        places, skipped, weights = (self.slot(self.sum(at, k)) for k in range(PHASE_SLOTS))
        by_row = b.sdiv(n["stride_height"], n["row_step"])
        start = self.sum(self.product(row, by_row, self.row_pitch), skipped)
        weight = self.at(weight, weights, wide=True)
        with self.loop(n["columns"], step=self.kernel.rows) as j:
            column = self.minimum(j, b.sub(n["columns"], I64(self.kernel.rows)))
            place = self.sum(start, self.product(column, self.kernel.step))
            target = self.sum(
                self.product(row, self.tile_row),
                self.product(self.sum(self.product(column, n["phases"]), phase), self.width),
            )  # fmt: skip
            self._tile(place, weight, places, self.at(self.tile, target, wide=True), block)

    def _tile(self, place: ir.Value, weight: ir.Value, places: ir.Value, target: ir.Value, block: ir.Value) -> None:
        """One tile: `places` of the kernel along its width, from `place` of the packed input on."""
        n, b, kernel = self.n, self.b, self.kernel
        sums = [[self.cell(self.vector) for _ in range(kernel.vectors)] for _ in range(kernel.rows)]
        for row in sums:
            for cell in row:
                b.store(self.zero, cell)
        merged = b.icmp_signed("!=", n["merged"], I64(0))
        heights = b.select(merged, I64(1), n["kernel_height"])
        depth = b.select(merged, self.product(n["in_channels"], n["kernel_height"]), n["in_channels"])
        down = self.product(n["dilation_height"], self.row_pitch)
        with self.loop(n["kernel_depth"]) as kd, self.loop(places) as kw, self.loop(heights) as kh:
            tap = self.sum(place, self.product(kd, self.plane), self.product(kw, n["dilation_width"]),
                           self.product(kh, down))  # fmt: skip
            weights = self.sum(self.product(kd, n["weight_depth"]), self.product(kw, n["weight_width"]),
                               self.product(kh, n["weight_height"]))  # fmt: skip
            self._taps(self.at(self.packed, tap, wide=True), self.at(weight, weights, wide=True), depth, sums)
        by_pixel = self.product(n["phases"], self.width)
        bias = None if self.bias is None else self.at(self.bias, self.product(block, self.width), wide=True)
        for v in range(kernel.vectors):
            added = None if bias is None else self.read(self.at(bias, v * self.lanes, wide=True))
            for p, row in enumerate(sums):
                address = self.at(target, self.product(by_pixel, p), v * self.lanes, wide=True)
                self.write(address, self._finished(b.load(row[v], typ=self.vector), added))

    def _finished(self, value: ir.Value, bias: ir.Value | None) -> ir.Value:
        """A sum with its bias, and no less than 0; half types round after each operation, as they do elsewhere."""
        b = self.b
        if bias is not None:
            value = b.fadd(self.rounded(value), bias)
        if not self.kernel.has_relu:
            return value
        is_less = b.fcmp_ordered("<=", value, self.zero)
        return b.select(is_less, self.zero, value)

    def _taps(self, pixel: ir.Value, weight: ir.Value, depth: ir.Value, sums: list[list[ir.Value]]) -> None:
        """The innermost loop."""
        b, kernel, kind = self.b, self.kernel, pixel.type
        here, ahead = self.cell(kind), self.cell(kind)
        b.store(pixel, here)
        b.store(weight, ahead)
        pitch = self.n["pitch"]
        with self.loop(depth):
            weight, pixel = b.load(ahead, typ=kind), b.load(here, typ=kind)
            factors = [self.read(self.at(weight, v * self.lanes, wide=True)) for v in range(kernel.vectors)]
            for p, row in enumerate(sums):
                x = self.spread(self.at(pixel, p * kernel.step, wide=True))
                for factor, cell in zip(factors, row, strict=True):
                    b.store(self.fma(x, factor, b.load(cell, typ=self.vector)), cell)
            b.store(self.at(weight, self.width, wide=True), ahead)
            b.store(self.at(pixel, pitch, wide=True), here)

    # The output's layout

    def _expect(self, out: ir.Value, first_channel: ir.Value, row: ir.Value, length: ir.Value) -> None:
        """Have a row's lines brought near while its sums are made: later, writing them would wait for memory."""
        n, b = self.n, self.b
        by_channel, left = n["y_channel"], b.sub(n["out_channels"], first_channel)
        target = self.at(out, self.product(row, n["y_row"]), self.product(first_channel, by_channel))
        with self.loop(self.minimum(left, self.width)) as c, self.loop(length, self.lanes) as j:
            self.prefetch(self.at(target, self.product(c, by_channel), j), writes=True)

    def _unpack(self, out: ir.Value, first_channel: ir.Value, rows: ir.Value, length: ir.Value) -> None:
        """From [pixel][channel] to the output: channel by channel, pixels in rows of `length`."""
        n, b = self.n, self.b
        row = self.product(n["columns"], n["phases"])
        whole = b.and_(b.icmp_signed("==", row, n["out_width"]), b.icmp_signed("==", row, n["y_row"]))
        runs = b.select(whole, I64(1), rows)
        length = b.select(whole, self.product(rows, row), length)
        left = b.sub(n["out_channels"], first_channel)
        with self.loop(runs) as run:
            source = self.product(run, self.tile_row)
            target = self.at(out, self.product(run, n["y_row"]), self.product(first_channel, n["y_channel"]))
            with self.loop(self.minimum(left, self.width), step=self.lanes) as c, self.loop(length, self.lanes) as j:
                self._square(self.sum(source, self.product(j, self.width), c), self.at(target, j), c,
                             b.sub(length, j), b.sub(left, c))  # fmt: skip

    def _square(
        self, source: ir.Value, target: ir.Value, channel: ir.Value, pixels: ir.Value, channels: ir.Value
    ) -> None:
        """As many pixels as channels, as far as there are any."""
        by_channel, mask = self.n["y_channel"], self.between(I64(0), pixels)
        source = self.at(self.tile, source, wide=True)
        target = self.at(target, self.product(channel, by_channel))
        width = I64(self.width)
        self.unpack_square(source, width, pixels, self.everywhere, target, by_channel, channels, mask)
