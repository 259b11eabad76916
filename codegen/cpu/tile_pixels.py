"""The convolution kernel whose lanes are pixels of a row: for few output channels in each group, as in depthwise ones.

    for each task: an image, a group, a depth, a block of rows, a block of columns
        pack the input that the block needs: [kernel depth][channels][rows][columns], zeros around it
        for each output channel, for each tile of rows by vectors of columns
            registers [row][columns] += input[row][columns] * weight, over the input channels and the kernel

A weight is read as it is, [o, c, ...], in the type that sums are in.
"""

from __future__ import annotations

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_planes import PlanesBuilder


def emit_pixels(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: input, weight, result."""
    return _Pixels(module, symbol, kernel).run()


class _Pixels(PlanesBuilder):
    def run(self) -> ir.Function:
        """The whole function."""
        n = self.n
        self.weight, self.y = self.buffer(1), self.buffer(2)
        self.reserve()
        self.by_row = self.product(self.b.sdiv(n["stride_height"], n["row_step"]), n["pitch"])
        with self.loop(self.end, start=self.begin) as task:
            self._task(task)
        return self.finish()

    def _task(self, task: ir.Value) -> None:
        n, b, kernel = self.n, self.b, self.kernel
        image, group, depth, row_block, column_block = self.split(
            task, n["groups"], n["out_depth"], n["row_blocks"], n["column_blocks"]
        )
        row0, column0 = self.product(row_block, n["rows"]), self.product(column_block, n["columns"])
        row0 = self.minimum(row0, b.sub(n["out_height"], n["rows"]))
        columns = self.minimum(n["columns"], b.sub(n["out_width"], column0))
        self.pack(image, group, depth, row0, column0)
        place = self.sum(self.product(self.sum(self.product(depth, n["out_height"]), row0), n["out_width"]), column0)
        taps = self.product(n["kernel_depth"], n["kernel_height"], n["kernel_width"], n["in_channels"])
        with self.loop(n["out_channels"]) as o:
            channel = self.sum(self.product(group, n["out_channels"]), o)
            weight = self.at(self.weight, self.product(channel, taps), wide=True)
            out = self.sum(self.product(image, n["y_image"]), self.product(channel, n["y_channel"]), place)
            with self.loop(n["rows"], step=kernel.rows) as r, self.loop(columns, kernel.vectors * self.lanes) as j:
                row = self.minimum(r, b.sub(n["rows"], I64(kernel.rows)))
                start = self.sum(self.product(row, self.by_row), self.product(j, kernel.step))
                target = self.at(self.y, out, self.product(row, n["out_width"]), j)
                self._tile(start, weight, target, b.sub(columns, j))

    def _tile(self, start: ir.Value, weight: ir.Value, target: ir.Value, columns: ir.Value) -> None:
        n, b, kernel = self.n, self.b, self.kernel
        sums = [[self.cell(self.vector) for _ in range(kernel.vectors)] for _ in range(kernel.rows)]
        for row in sums:
            for cell in row:
                b.store(self.zero, cell)
        ahead = self.cell(weight.type)
        b.store(weight, ahead)
        down = self.product(n["dilation_height"], n["pitch"])
        across = n["dilation_width"]
        with self.loop(n["in_channels"]) as c, self.loop(n["kernel_depth"]) as kd, self.loop(n["kernel_height"]) as kh:
            tap = self.sum(start, self.product(c, self.plane), self.product(kd, self.cube), self.product(kh, down))
            with self.loop(n["kernel_width"]) as kw:
                here, by_row = self.at(self.packed, tap, self.product(kw, across), wide=True), self.by_row
                factor = self.spread(b.load(ahead, typ=weight.type))
                for r, row in enumerate(sums):
                    line = self.at(here, self.product(by_row, r), wide=True)
                    for v, cell in enumerate(row):
                        x = self.strided(self.at(line, v * self.lanes * kernel.step, wide=True))
                        b.store(self.fma(x, factor, b.load(cell, typ=self.vector)), cell)
                b.store(self.at(b.load(ahead, typ=weight.type), 1, wide=True), ahead)
        masks = [self.between(I64(0), b.sub(columns, I64(v * self.lanes))) for v in range(kernel.vectors)]
        for r, row in enumerate(sums):
            for v, cell in enumerate(row):
                address = self.at(target, self.product(n["out_width"], r), v * self.lanes)
                self.write_some(address, b.load(cell, typ=self.vector), masks[v])
