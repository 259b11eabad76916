"""Matrix products, and the packing of their second factors.

    for each task: a chunk of rows, some blocks of columns
        for each piece of the contracted axis
            pack the chunk of `x` as [tile][term][row], if it is turned
            for each block of columns
                pack the block of `w` as [term][column], a panel, unless it is packed already, or the first tile does it
                multiply the rows of the chunk by the panel (see `tile_registers`)

One kernel serves all sizes, factors that are transposed or not, and those that are packed in front of a product:
[block][term][column]. Columns are shared out in parts: of one register, so that groups are alike, or of a block where
one is packed in front. The numbers: rows, inner, columns, chunks, groups of parts, parts, columns of a part, terms of a
piece, and how the factors are come by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ..loops.tile import PACKED, PACKS, STRAIGHT, TURNED, TileKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_builder import TileBuilder
from .tile_packing import packing_function
from .tile_registers import LINE, SHARED, tile_function

_NUMBERS: Final = ("rows", "inner", "columns", "chunks", "groups", "parts", "part", "depth", "first", "second")
_AHEAD: Final = 8  # terms of a turned factor, which are brought near because they are far apart
_GAP: Final = 16  # elements between packed tiles, which else begin in the same set of a cache

_Range = tuple[ir.Value, ir.Value]  # where it starts, and how many there are


class _Panel(NamedTuple):
    """The terms of a block of columns: where the first tile finds them, and their pitch; where they are once they are
    packed; 1 if it is the first tile that packs them, or 0.
    """

    first: ir.Value
    pitch: ir.Value
    packed: ir.Value
    copies: ir.Value


def emit_product(module: ir.Module, symbol: str, kernel: TileKernel) -> ir.Function:
    """Add the product to `module`. Buffers: first factor, second factor, result."""
    return _Product(module, symbol, kernel).run()


class _Product(TileBuilder):
    def __init__(self, module: ir.Module, symbol: str, kernel: TileKernel) -> None:
        super().__init__(module, symbol, kernel.dtype, kernel.lanes)
        self.kernel = kernel
        self.tall = kernel.rows
        self.width = kernel.vectors * kernel.lanes
        self.x, self.w, self.y = (self.buffer(k) for k in range(3))
        self.n = {name: self.slot(k) for k, name in enumerate(_NUMBERS)}

    def run(self) -> ir.Function:
        """The whole function."""
        b, n = self.b, self.n
        self.is_turned = self._is("first", TURNED)
        self.tiles = b.sdiv(self.sum(n["rows"], self.tall - 1), I64(self.tall))
        most = self.sum(b.sdiv(self.tiles, n["chunks"]), 1)
        self.tile_pitch = self.sum(self.product(n["depth"], self.tall), _GAP)
        self.packed = self.scratch(b.select(self.is_turned, self.product(most, self.tile_pitch), I64(0)))
        self.panel = self.scratch(self.product(n["depth"], self.width))
        self.shared = self.scratch(I64(len(SHARED) * 8 // self.wide.itemsize))
        does_pack = self._is("first", PACKS)
        with self.loop(self.end, start=self.begin) as task, b.if_else(does_pack) as (packs, multiplies):
            with packs:
                self._pack(task)
            with multiplies:
                self._task(task)
        return self.finish()

    def _is(self, number: str, value: int) -> ir.Value:
        return self.b.icmp_signed("==", self.n[number], I64(value))

    def _share(self, whole: ir.Value, part: ir.Value, parts: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The start and stop of one of some parts that are equal but for one."""
        start, stop = (self.b.sdiv(self.product(whole, self.sum(part, k)), parts) for k in (0, 1))
        return start, stop

    def _task(self, task: ir.Value) -> None:
        b, n = self.b, self.n
        chunk, group = self.split(task, n["groups"])
        start, stop = (self.product(t, self.tall) for t in self._share(self.tiles, chunk, n["chunks"]))
        rows = start, b.sub(self.minimum(stop, n["rows"]), start)
        columns = self._columns(group)
        pieces = b.sdiv(self.sum(n["inner"], n["depth"], -1), n["depth"])
        pieces = b.select(b.icmp_signed(">", pieces, I64(1)), pieces, I64(1))
        with self.loop(pieces) as piece:
            at = self.product(piece, n["depth"])
            terms = at, self.minimum(n["depth"], b.sub(n["inner"], at))
            with b.if_then(self.is_turned):
                self._turn_rows(rows, terms)
            with self._blocks(*columns) as block:
                self._multiply(rows, terms, block, self._panel(block, rows[1], terms))

    def _columns(self, group: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first column of a group, and the one behind its last."""
        n = self.n
        start, stop = (self.product(part, n["part"]) for part in self._share(n["parts"], group, n["groups"]))
        return start, self.minimum(stop, n["columns"])

    @contextmanager
    def _blocks(self, start: ir.Value, stop: ir.Value) -> Iterator[_Range]:
        """For each block of these columns: its first one, and how many of them are left."""
        with self.loop(stop, step=self.width, start=start) as column:
            yield column, self.b.sub(stop, column)

    # The second factor

    def _pack(self, task: ir.Value) -> None:
        """A task of packing in front of a product: some terms of some blocks."""
        b, n = self.b, self.n
        chunk, group = self.split(task, n["groups"])
        first, stop = self._share(n["inner"], chunk, n["chunks"])
        with self._blocks(*self._columns(group)) as block:
            place = self.sum(self.product(block[0], n["inner"]), self.product(first, self.width))
            self._pack_block(block, (first, b.sub(stop, first)), self.at(self.y, place))

    def _panel(self, block: _Range, height: ir.Value, terms: _Range) -> _Panel:
        """Packed by now, or else by the first tile."""
        b, n, (first, _), (column, left) = self.b, self.n, terms, block
        width = I64(self.width)
        is_packed = self._is("second", PACKED)
        is_direct = b.and_(self._is("second", STRAIGHT), b.icmp_signed(">=", left, width))
        with b.if_then(b.icmp_signed("==", b.zext(b.or_(is_packed, is_direct), I64), I64(0))):
            self._pack_block(block, terms, self.panel)
        packed = self.at(self.w, self.sum(self.product(column, n["inner"]), self.product(first, width)))
        direct = self.at(self.w, self.product(first, n["columns"]), column)
        panel = b.select(is_packed, packed, self.panel)
        copies = b.zext(b.and_(is_direct, b.icmp_signed(">", height, I64(self.tall))), I64)
        return _Panel(b.select(is_direct, direct, panel), b.select(is_direct, n["columns"], width), panel, copies)

    def _following(self, column: ir.Value, first: ir.Value) -> tuple[ir.Value, ...]:
        """Where the block behind that at `column` is, of which each tile brings some lines near, and their pitches: by
        tile, term and line.
        """
        b, n, vectors = self.b, self.n, self.kernel.vectors
        line = I64(LINE // self.wide.itemsize)
        column = self.sum(column, self.width)
        packed = self.sum(self.product(column, n["inner"]), self.product(first, self.width))
        straight = self.sum(self.product(first, n["columns"]), column)
        turned = self.sum(self.product(column, n["inner"]), first)
        ways = zip(
            (packed, self.product(n["depth"], vectors), I64(vectors), line),
            (straight, n["columns"], n["columns"], line),
            (turned, self.product(n["inner"], vectors), I64(1), n["inner"]),
            strict=True,
        )  # fmt: skip
        is_packed, is_turned = self._is("second", PACKED), self._is("second", TURNED)
        return tuple([b.select(is_packed, p, b.select(is_turned, t, s)) for p, s, t in ways])

    def _pack_block(self, block: _Range, terms: _Range, target: ir.Value) -> None:
        b, n, kernel = self.b, self.n, self.kernel
        function = packing_function(b.module, self.dtype, self.lanes, kernel.vectors)
        is_turned = b.zext(self._is("second", TURNED), I64)
        b.call(function, [self.w, n["inner"], n["columns"], is_turned, *block, *terms, target])

    # The first factor

    def _turn_rows(self, rows: _Range, terms: _Range) -> None:
        """As [tile][term][row], term by term, because each is a run of memory, and two are far apart."""
        b, n, tall, (start, height), (first, count) = self.b, self.n, self.tall, rows, terms
        kind = ir.VectorType(self.element, tall)
        whole = b.sub(height, b.srem(height, I64(tall)))
        with self.loop(count) as k:
            source = self.at(self.x, self.product(self.sum(first, k), n["rows"]), start)
            place = self.product(k, tall)
            ahead = self.at(source, self.product(n["rows"], _AHEAD))
            with self.loop(height, step=LINE // self.wide.itemsize) as row:
                self.prefetch(self.at(ahead, row))
            with self.loop(whole, step=tall) as row:
                value = b.load(self.at(source, row), align=self.wide.itemsize, typ=kind)
                target = self.at(self._packed_tile(b.sdiv(row, I64(tall))), place)
                b.store(value, target, align=self.wide.itemsize)
            with self.loop(height, start=whole) as row:
                target = self.at(self._packed_tile(b.sdiv(whole, I64(tall))), place, b.sub(row, whole))
                b.store(self.read_one(self.at(source, row)), target)

    def _packed_tile(self, number: ir.Value) -> ir.Value:
        return self.at(self.packed, self.product(number, self.tile_pitch))

    # Sums

    def _multiply(self, rows: _Range, terms: _Range, block: _Range, panel: _Panel) -> None:
        """The rows of a chunk by a panel: as wide as the panel, or one vector after another if few columns are left."""
        b, n, (start, height), (first, count), (column, left) = self.b, self.n, rows, terms, block
        x, *pitches = self._first_factor(start, first)
        y = self.at(self.y, self.product(start, n["columns"]), column)
        goes_on = b.zext(b.icmp_signed(">", first, I64(0)), I64)
        place, by_tile, *ahead = self._following(column, first)
        following = self.at(self.w, place), by_tile
        self._share_numbers([*panel[:3], *pitches, count, n["columns"], left, goes_on, *ahead])
        vectors = self.kernel.vectors
        narrow = b.icmp_signed("<=", left, I64((vectors - 1) * self.lanes))
        with b.if_else(narrow) as (is_narrow, is_wide):
            with is_narrow, self.loop(left, step=self.lanes) as v:
                self._share_numbers([self.at(panel.first, v)])
                b.store(b.sub(left, v), self._shared(SHARED.index("left")))
                self._tiles(1, x, self.at(y, v), height, following)
            with is_wide:
                done = self._first_tile(panel, x, y, height, following)
                self._tiles(vectors, x, y, height, following, done)

    def _share_numbers(self, values: list[ir.Value]) -> None:
        """Put down what tiles share, from the first on."""
        for k, value in enumerate(values):
            self.b.store(value, self._shared(k))

    def _shared(self, index: int) -> ir.Value:
        return self.b.gep(self.shared, [I64(index)], source_etype=I64)

    def _tiles(
        self,
        vectors: int,
        x: ir.Value,
        y: ir.Value,
        height: ir.Value,
        following: tuple[ir.Value, ir.Value],
        done: int | ir.Value = 0,
    ) -> None:
        """The rows that are not done yet, tile by tile."""
        b, n, tall = self.b, self.n, self.tall
        by_tile = b.load(self._shared(SHARED.index("tile_pitch")), typ=I64)
        function = tile_function(b.module, self.dtype, self.lanes, tall, vectors)
        with self.loop(height, step=tall, start=done) as row:
            number = b.sdiv(row, I64(tall))
            b.call(function, [
                self.shared, self.at(x, self.product(number, by_tile)), self.at(y, self.product(row, n["columns"])),
                b.sub(height, row), self.at(following[0], self.product(number, following[1])),
            ])  # fmt: skip

    def _first_tile(
        self, panel: _Panel, x: ir.Value, y: ir.Value, height: ir.Value, following: tuple[ir.Value, ir.Value]
    ) -> ir.Value:
        """The tile that packs the panel for those behind it, if one does; rows that are done."""
        b, vectors = self.b, self.kernel.vectors
        with b.if_then(b.icmp_signed("!=", panel.copies, I64(0))):
            function = tile_function(b.module, self.dtype, self.lanes, self.tall, vectors, copies=True)
            b.call(function, [self.shared, x, y, height, following[0]])
            self._share_numbers([panel.packed, I64(self.width)])
        return self.product(panel.copies, self.tall)

    def _first_factor(self, start: ir.Value, first: ir.Value) -> tuple[ir.Value, ...]:
        """Where a chunk starts, and its pitches: by row, term, tile and line."""
        b, inner, tall = self.b, self.n["inner"], self.tall
        straight = self.at(self.x, self.product(start, inner), first), inner, I64(1), self.product(inner, tall), inner
        turned = self.packed, I64(1), I64(tall), self.tile_pitch, I64(_GAP)
        return tuple([b.select(self.is_turned, *pair) for pair in zip(turned, straight, strict=True)])
