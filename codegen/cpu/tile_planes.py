"""What the kernels whose lanes are pixels share: planes of the input, packed channel by channel, read at a step."""

from __future__ import annotations

from ..loops.tile import TileKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_builder import Numbers, TileBuilder


class PlanesBuilder(TileBuilder):
    """Packs [kernel depth][input channels][rows][columns], zeros around and, where the input is spread, within."""

    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.n = Numbers(self)
        self.x = self.buffer(0)

    def reserve(self, beyond: ir.Value) -> None:
        """Room for what is packed; at its end vectors, and `beyond` elements more, may be read and written."""
        n = self.n
        self.plane = self.product(n["packed_rows"], n["pitch"])
        self.cube = self.product(n["in_channels"], self.plane)
        slack = self.sum(beyond, 2 * self.lanes * self.kernel.step)
        self.packed = self.scratch(self.sum(self.product(n["kernel_depth"], self.cube), slack))

    def pack(
        self, image: ir.Value, group: ir.Value, depth: ir.Value, first_row: ir.Value, first_column: ir.Value
    ) -> None:
        """Copy the input of one group that a block of the output needs."""
        n, b = self.n, self.b
        source = self.sum(self.product(image, n["x_image"]), self.product(group, n["in_channels"], n["x_channel"]))
        column = b.sub(self.product(first_column, self.kernel.step), n["low_width"])
        row0 = b.sub(self.product(first_row, n["stride_height"]), n["low_height"])
        with self.loop(n["kernel_depth"]) as k:
            d = b.sub(self.sum(self.product(depth, n["stride_depth"]), self.product(k, n["dilation_depth"])),
                      n["low_depth"])  # fmt: skip
            d, has_depth = self._unspread(d, n["spread_depth"], n["in_depth"])
            with self.loop(n["packed_rows"]) as r:
                row, has_row = self._unspread(
                    self.sum(row0, self.product(r, n["row_step"])), n["spread_height"], n["in_height"]
                )
                limit = b.select(b.and_(has_depth, has_row), n["in_width"], I64(0))
                place = self.product(self.sum(self.product(d, n["in_height"]), row), n["in_width"])
                start = self.sum(source, place)
                target = self.sum(self.product(k, self.cube), self.product(r, n["pitch"]))
                self._pack_row(start, column, limit, target)

    def _unspread(self, at: ir.Value, spread: ir.Value, length: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The input's index at a place of the spread input, and whether there is one. A division takes long."""
        b, cell = self.b, self.cell(I64)
        b.store(at, cell)
        with b.if_then(b.icmp_signed("!=", spread, I64(1))):
            b.store(b.sdiv(at, spread), cell)
        index = b.load(cell, typ=I64)
        exact = b.icmp_signed("==", self.product(index, spread), at)
        return index, b.and_(exact, b.and_(b.icmp_signed(">=", at, I64(0)), b.icmp_signed("<", index, length)))

    def _pack_row(self, source: ir.Value, column: ir.Value, limit: ir.Value, target: ir.Value) -> None:
        """One row of all channels; the end of a row is written before the start of the next."""
        b, n, lanes = self.b, self.n, self.lanes
        by_channel, pitch, spread = n["x_channel"], n["pitch"], n["spread_width"]
        copied = b.select(b.icmp_signed("==", spread, I64(1)), limit, I64(0))
        with self.loop(pitch, step=lanes) as j:
            here = self.sum(column, j)
            mask = self.between(b.sub(I64(0), here), b.sub(copied, here))
            inside = self.between(I64(0), b.sub(pitch, j))
            with self.loop(n["in_channels"]) as c:
                value = self.read_some(self.at(self.x, source, here, self.product(c, by_channel)), mask)
                at = self.at(self.packed, target, j, self.product(c, self.plane), wide=True)
                self.write_some_wide(at, value, inside)
        with b.if_then(b.icmp_signed("!=", spread, I64(1))):
            self._spread_row(source, column, limit, target)

    def _spread_row(self, source: ir.Value, column: ir.Value, limit: ir.Value, target: ir.Value) -> None:
        """The elements of a row that there are, one by one, zeros between them."""
        b, n = self.b, self.n
        by_channel, pitch, spread = n["x_channel"], n["pitch"], n["spread_width"]
        first = b.select(b.icmp_signed(">", column, I64(0)), b.sdiv(self.sum(column, spread, -1), spread), I64(0))
        last = self.minimum(limit, b.sdiv(self.sum(column, pitch, spread, -1), spread))
        with self.loop(last, start=first) as i, self.loop(n["in_channels"]) as c:
            value = self.read_one(self.at(self.x, source, i, self.product(c, by_channel)))
            place = b.sub(self.product(i, spread), column)
            b.store(value, self.at(self.packed, target, place, self.product(c, self.plane), wide=True))
