"""Matrix products by a packed factor, and the packing of one that is transposed.

    for each task: a chunk of rows, a block of columns
        for each tile of rows, of which the last one is moved back to end with the chunk
            registers [row][column] += x[row] * packed[column], over the contracted axis

The numbers of a product: rows, inner, columns, strides of `x` by row and along the contracted axis, blocks, chunks,
rows of a chunk (the last one has what is left, and no chunk has fewer rows than a tile). Those of packing: inner,
columns.
"""

from __future__ import annotations

from typing import Final

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_builder import TileBuilder

_NUMBERS: Final = ("rows", "inner", "columns", "by_row", "by_inner", "blocks", "chunks", "chunk")
_AHEAD: Final = 16  # steps along the contracted axis
_TERMS: Final = 4  # in one iteration, so that addresses are reckoned once for them


def emit_factor(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the product to `module`. Buffers: first factor, packed factor, result."""
    return _Factor(module, symbol, kernel).run()


def emit_turned(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the packing to `module`. Buffers: matrix [columns, inner], packed [blocks, inner, columns of a block]."""
    return _Turned(module, symbol, kernel).run()


class _Factor(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.width = kernel.vectors * kernel.lanes

    def run(self) -> ir.Function:
        """The whole function."""
        b = self.b
        x, packed, y = (self.buffer(k) for k in range(3))
        self.n = n = {name: self.slot(k) for k, name in enumerate(_NUMBERS)}
        with self.loop(self.end, start=self.begin) as task:
            chunk, block = self.split(task, n["blocks"])
            first = self.product(block, self.width)
            panel = self.at(packed, self.product(first, n["inner"]))
            left = b.sub(n["columns"], first)
            start = self.product(chunk, n["chunk"])
            is_last = b.icmp_signed("==", self.sum(chunk, 1), n["chunks"])
            stop = b.select(is_last, n["rows"], self.sum(start, n["chunk"]))
            with self.loop(stop, step=self.kernel.rows, start=start) as j:
                row = self.minimum(j, b.sub(stop, I64(self.kernel.rows)))
                target = self.at(y, self.product(row, n["columns"]), first)
                self._tile(self.at(x, self.product(row, n["by_row"])), panel, target, left)
        return self.finish()

    def _tile(self, x: ir.Value, panel: ir.Value, target: ir.Value, left: ir.Value) -> None:
        b, kernel, n = self.b, self.kernel, self.n
        sums = [[self.cell(self.vector) for _ in range(kernel.vectors)] for _ in range(kernel.rows)]
        for row in sums:
            for cell in row:
                b.store(self.zero, cell)
        rows = [self.at(x, self.product(n["by_row"], r)) for r in range(kernel.rows)]
        whole = b.and_(n["inner"], I64(-_TERMS))
        with self.loop(whole, step=_TERMS) as k:
            for term in range(_TERMS):
                self._add(rows, panel, k, term, sums)
        with self.loop(n["inner"], start=whole) as k:
            self._add(rows, panel, k, 0, sums)
        for r, row in enumerate(sums):
            for v, cell in enumerate(row):
                mask = self.between(I64(0), b.sub(left, I64(v * self.lanes)))
                address = self.at(target, self.product(n["columns"], r), v * self.lanes)
                self.write_some(address, b.load(cell, typ=self.vector), mask)

    def _add(self, rows: list[ir.Value], panel: ir.Value, k: ir.Value, term: int, sums: list[list[ir.Value]]) -> None:
        """Term `k + term` of all sums."""
        b = self.b
        if self.kernel.turned[0]:
            by_inner = self.n["by_inner"]
            # The machine does not foresee these long strides.
            self.prefetch(self.at(rows[0], self.product(self.sum(k, term + _AHEAD), by_inner)))
            rows = [self.at(place, self.product(self.sum(k, term), by_inner)) for place in rows]
        else:
            rows = [self.at(self.at(place, k), term) for place in rows]
        here = self.at(self.at(panel, self.product(k, self.width)), term * self.width)
        factors = [self.read(self.at(here, v * self.lanes)) for v in range(self.kernel.vectors)]
        for place, row in zip(rows, sums):
            value = self.spread(place)
            for factor, cell in zip(factors, row):
                b.store(self.fma(value, factor, b.load(cell, typ=self.vector)), cell)


class _Turned(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.vectors = kernel.vectors

    def run(self) -> ir.Function:
        """The whole function."""
        b, lanes = self.b, self.lanes
        source, target = self.buffer(0), self.buffer(1)
        inner, columns = self.slot(0), self.slot(1)
        width = I64(self.vectors * lanes)
        with self.loop(self.end, start=self.begin) as block, self.loop(inner, step=lanes) as k:
            there = b.sub(inner, k)
            mask = self.between(I64(0), there)
            for v in range(self.vectors):
                first = self.sum(self.product(block, width), v * lanes)
                at = self.at(source, self.product(first, inner), k)
                to = self.at(target, self.product(self.sum(self.product(block, inner), k), width), v * lanes)
                self.pack_square(at, inner, b.sub(columns, first), mask, to, width, there, self.everywhere)
        return self.finish()
