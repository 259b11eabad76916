"""The kernel of a convolution's weight gradient whose lanes are pixels of a row: for few output channels in a group.

    for each task: a strand, an output channel
        for each unit of the strand: an image, a depth, a block of rows, a block of columns
            pack the input: [kernel depth][channels][rows][columns], zeros around it
            for each input channel, for each tile of places of the kernel: rows by columns of them
                registers [place][pixels] += input[place][pixels] * gradient[pixels], over the block
                add their lanes up to the result

Results are [strands, o, c, ...]; strands are added up later, one after another.
"""

from __future__ import annotations

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I64, lane_order
from .tile_pixel_sums import strided
from .tile_planes import PlanesBuilder


def emit_pixels_weight(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: input, gradient of the output, result by strands."""
    return _PixelsWeight(module, symbol, kernel).run()


class _PixelsWeight(PlanesBuilder):
    def run(self) -> ir.Function:
        """The whole function."""
        n, b = self.n, self.b
        self.y, self.result = self.buffer(1), self.buffer(2)
        kernel = self.kernel  # places beyond it are read, too
        self.reserve(self.sum(self.product(kernel.rows, n["dilation_height"], n["pitch"]),
                              self.product(kernel.vectors, n["dilation_width"])))  # fmt: skip
        self.by_row = self.product(n["down"], n["pitch"])
        taps = self.product(n["kernel_depth"], n["kernel_height"], n["kernel_width"], n["in_channels"])
        with self.loop(self.end, start=self.begin) as task:
            strand, group, o = self.split(task, n["groups"], n["out_channels"])
            out = self.at(self.result, self.product(task, taps), wide=True)
            with self.loop(taps) as k:
                b.store(self.element(0.0), self.at(out, k, wide=True))
            start, stop = (b.sdiv(self.product(self.sum(strand, k), n["units"]), n["strands"]) for k in (0, 1))
            with self.loop(stop, start=start) as unit:
                self._unit(unit, group, o, out)
        return self.finish()

    def _unit(self, unit: ir.Value, group: ir.Value, o: ir.Value, out: ir.Value) -> None:
        n, b, kernel = self.n, self.b, self.kernel
        image, depth, row_block, column_block = self.split(
            unit, n["out_depth"], n["row_blocks"], n["column_blocks"]
        )  # fmt: skip
        row0, column0 = self.product(row_block, n["rows"]), self.product(column_block, n["columns"])
        rows = self.minimum(n["rows"], b.sub(n["out_height"], row0))
        columns = self.minimum(n["columns"], b.sub(n["out_width"], column0))
        self.pack(image, group, depth, row0, column0)
        channel = self.sum(self.product(group, n["out_channels"]), o)
        place = self.sum(self.product(self.sum(self.product(depth, n["out_height"]), row0), n["out_width"]), column0)
        y = self.at(self.y, self.product(image, n["y_image"]), self.product(channel, n["y_channel"]), place)
        with self.loop(n["in_channels"]) as c, self.loop(n["kernel_depth"]) as kd:
            start = self.sum(self.product(c, self.plane), self.product(kd, self.cube))
            area = self.product(n["kernel_height"], n["kernel_width"])
            target = self.at(out, self.product(self.sum(self.product(c, n["kernel_depth"]), kd), area), wide=True)
            with self.loop(n["kernel_height"], kernel.rows) as kh, self.loop(n["kernel_width"], kernel.vectors) as kw:
                place = self.sum(start, self.product(kh, n["dilation_height"], n["pitch"]),
                                 self.product(kw, n["dilation_width"]))  # fmt: skip
                self._tile(self.at(self.packed, place, wide=True), y, rows, columns, target, kh, kw)

    def _tile(
        self, x: ir.Value, y: ir.Value, rows: ir.Value, columns: ir.Value, out: ir.Value, kh: ir.Value, kw: ir.Value
    ) -> None:
        """Places from (kh, kw) on; those beyond the kernel are summed up too, but not kept."""
        n, b, kernel = self.n, self.b, self.kernel
        sums = [[self.cell(self.vector) for _ in range(kernel.vectors)] for _ in range(kernel.rows)]
        for row in sums:
            for cell in row:
                b.store(self.zero, cell)
        whole = b.and_(columns, I64(-self.lanes))
        with self.loop(rows) as r:
            line = self.at(x, self.product(r, self.by_row), wide=True)
            gradient = self.at(y, self.product(r, n["out_width"]))
            with self.loop(whole, step=self.lanes) as j:
                self._pixels(line, gradient, j, self.everywhere, sums, masked=False)
            with self.loop(columns, step=self.lanes, start=whole) as j:
                self._pixels(line, gradient, j, self.between(I64(0), b.sub(columns, j)), sums, masked=True)
        for p, row in enumerate(sums):
            for q, cell in enumerate(row):
                self._keep(self._total(b.load(cell, typ=self.vector)), out, self.sum(kh, p), self.sum(kw, q))

    def _pixels(
        self, line: ir.Value, gradient: ir.Value, j: ir.Value, mask: ir.Value, sums: list[list[ir.Value]], masked: bool
    ) -> None:
        """One vector of pixels."""
        n, b, kernel = self.n, self.b, self.kernel
        y = self.read_some(self.at(gradient, j), mask)
        down, across = self.product(n["dilation_height"], n["pitch"]), n["dilation_width"]
        for p, row in enumerate(sums):
            for q, cell in enumerate(row):
                place = self.sum(self.product(down, p), self.product(across, q), self.product(j, kernel.step))
                x = strided(self, self.at(line, place, wide=True), kernel.step)
                if masked:
                    x = b.select(mask, x, self.zero)
                b.store(self.fma(x, y, b.load(cell, typ=self.vector)), cell)

    def _total(self, value: ir.Value) -> ir.Value:
        """The sum of all lanes, by halves."""
        b, half = self.b, self.lanes // 2
        while half:
            moved = b.shuffle_vector(
                value, value, lane_order(tuple((k + half) % self.lanes for k in range(self.lanes)))
            )
            value = b.fadd(value, moved)
            half //= 2
        return b.extract_element(value, I64(0))

    def _keep(self, total: ir.Value, out: ir.Value, kh: ir.Value, kw: ir.Value) -> None:
        """Add to the result, if the kernel has this place."""
        n, b = self.n, self.b
        exists = b.and_(b.icmp_signed("<", kh, n["kernel_height"]), b.icmp_signed("<", kw, n["kernel_width"]))
        with b.if_then(exists):
            address = self.at(out, self.sum(self.product(kh, n["kernel_width"]), kw), wide=True)
            b.store(b.fadd(b.load(address, typ=self.element), total), address)
