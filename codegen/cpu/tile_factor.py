"""The kernel of a product whose second factor is packed in blocks of columns.

for each task: a block of columns
    for each tile of rows, of which the last one is moved back to end with the matrix
        registers [row][column] += x[row] * packed[column], over the contracted axis
"""

from __future__ import annotations

from llvmlite import ir

from ..conv.kernel import TileKernel
from .emit_types import I64
from .tile_builder import TileBuilder


def emit_factor(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the kernel to `module`. Buffers: first factor, packed factor, result. Numbers: rows, inner, columns."""
    return _Factor(module, symbol, kernel).run()


class _Factor(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.width = kernel.vectors * kernel.lanes

    def run(self) -> ir.Function:
        """The whole function."""
        b = self.b
        self.x, self.packed, self.y = (self.buffer(k) for k in range(3))
        self.rows, self.inner, self.columns = (self.slot(k) for k in range(3))
        with self.loop(self.end, start=self.begin) as block:
            first = self.product(block, self.width)
            panel = self.at(self.packed, self.product(first, self.inner))
            left = b.sub(self.columns, first)
            with self.loop(self.rows, step=self.kernel.rows) as j:
                row = self.minimum(j, b.sub(self.rows, I64(self.kernel.rows)))
                target = self.at(self.y, self.product(row, self.columns), first)
                self._tile(self.at(self.x, self.product(row, self.inner)), panel, target, left)
        return self.finish()

    def _tile(self, x: ir.Value, panel: ir.Value, target: ir.Value, left: ir.Value) -> None:
        b, kernel = self.b, self.kernel
        sums = [[self.cell(self.vector) for _ in range(kernel.vectors)] for _ in range(kernel.rows)]
        for row in sums:
            for cell in row:
                b.store(self.zero, cell)
        rows = [self.at(x, self.product(self.inner, r)) for r in range(kernel.rows)]
        with self.loop(self.inner) as k:
            here = self.at(panel, self.product(k, self.width))
            factors = [self.read(self.at(here, v * self.lanes)) for v in range(kernel.vectors)]
            for place, row in zip(rows, sums):
                value = self.spread(self.at(place, k))
                for factor, cell in zip(factors, row):
                    b.store(self.fma(value, factor, b.load(cell, typ=self.vector)), cell)
        for r, row in enumerate(sums):
            for v, cell in enumerate(row):
                mask = self.between(I64(0), b.sub(left, I64(v * self.lanes)))
                address = self.at(target, self.product(self.columns, r), v * self.lanes)
                self.write_some(address, b.load(cell, typ=self.vector), mask)
