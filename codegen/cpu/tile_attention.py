"""The attention kernel, whose lanes are queries (Dao et al. 2022, arXiv:2205.14135, algorithm 1).

    for each task: a block of queries of one head
        pack the queries, scaled: [width][query]
        for each block of keys, for each tile of queries
            registers [key][query] = keys[key] * queries[query], over the width: scores, and the largest of each query
            weights [key][query] = exp(scores - largest), and their sums
            registers [feature][query] = results * exp(old largest - largest) + values[feature] * weights, over the keys
        divide by the sums, and transpose to the results' layout

Since lanes are queries, largest scores and sums need no exchange between lanes, and keys and values are read where
they are, whatever their widths. Where attention is causal, keys behind a tile's last query are left out.
"""

from __future__ import annotations

from jitgrad.ir.scalar import Fn

from ..loops.attention import AttentionKernel
from . import llvm_ir as ir
from .emit_types import I64, splat, splat_constant
from .tile_attention_builder import AttentionBuilder


def emit_attention(module: ir.Module, symbol: str, kernel: AttentionKernel, scales: bool) -> ir.Function:
    """Add the kernel to `module`. Buffers: queries, keys, values, mask if there is one, results, logarithms.

    With dropout, seed and offset are in front of the results. Unless it gives zeros, in place of logarithms there are
    the largest scores, and one over the sums.
    """
    return _Attention(module, symbol, kernel, scales).run()


class _Attention(AttentionBuilder):
    def run(self) -> ir.Function:
        """The whole function."""
        b, masked = self.b, bool(self.kernel.mask)
        self.q, self.k, self.v = (self.buffer(i) for i in range(3))
        self.mask = self.buffer(3) if masked else None
        results = self.read_random(3 + masked)
        self.y, self.lse = self.buffer(results), self.buffer(results + 1)
        self.block = self.n("query_block")
        self.queries = self.scratch(self.product(self.n("width"), self.block))
        self.results = self.scratch(self.product(self.n("value_width"), self.block))
        self.weights = self.scratch(self.product(self.n("key_block"), self.tile))
        self.largest, self.totals = self.scratch(self.block), self.scratch(self.block)
        with self.loop(self.end, start=self.begin) as task:
            number, block = self.split(task, self.n("blocks"))
            outer, head = self.split(number, self.n("heads"))
            first = self.product(block, self.block)
            count = self.minimum(self.block, b.sub(self.n("queries"), first))
            self._start(self.sum(self.place("q", outer, head), self.product(first, self.n("q_row"))), count)
            shared = b.sdiv(head, self.n("groups"))
            k, v = self.at(self.k, self.place("k", outer, shared)), self.at(self.v, self.place("v", outer, shared))
            stop = self.n("keys")
            if self.kernel.is_causal:
                stop = self.minimum(stop, self.sum(first, count))
            with self.loop(self.ceiling(stop, self.n("key_block"))) as j:
                key = self.product(j, self.n("key_block"))
                with self.loop(count, step=self.tile) as t:
                    end = self.minimum(stop, self.sum(key, self.n("key_block")))
                    if self.kernel.is_causal:
                        end = self.minimum(end, self.sum(first, t, self.tile))
                    mask = self._mask_place(outer, head, self.sum(first, t), key)
                    drawn = self.counter(number, self.sum(first, t), key) if self.kernel.drops else None
                    self._block(k, v, key, b.sub(end, key), self.sum(first, t), t, b.sub(count, t), mask, drawn)
            self._finish(count)
            y = self.sum(self.place("y", outer, head), self.product(first, self.n("y_row")))
            self._store(self.at(self.y, y), count)
            place = self.sum(self.product(number, self.n("queries")), first)
            self._store_totals(place, self.buffer(results + 2) if not self.kernel.gives_zeros else None, count)
        return self.finish()

    def _start(self, source: ir.Value, count: ir.Value) -> None:
        """Pack the queries of a task; no key has been seen."""
        room = self.product(self.ceiling(count, self.tile), self.tile)
        self.pack(
            self.at(self.q, source), self.n("q_row"), count, self.n("width"), self.queries, self.block, room
        )  # fmt: skip
        scale = self.scale()
        with self.loop(self.product(self.n("width"), self.block), step=self.lanes) as i:
            at = self.at(self.queries, i)
            self.write(at, self.b.fmul(self.read(at), scale))
        with self.loop(self.product(self.n("value_width"), self.block), step=self.lanes) as i:
            self.write(self.at(self.results, i), self.zero)
        with self.loop(self.block, step=self.lanes) as i:
            self.write(self.at(self.largest, i), self.blank)
            self.write(self.at(self.totals, i), self.zero)

    def _mask_place(self, outer: ir.Value, head: ir.Value, query: ir.Value, key: ir.Value) -> ir.Value | None:
        if self.mask is None:
            return None
        offset = self.sum(self.place("mask", outer, head), self.product(query, self.n("mask_row")), key)
        return self.at(self.mask, offset)

    def _block(
        self, k: ir.Value, v: ir.Value, key: ir.Value, count: ir.Value, query: ir.Value, t: ir.Value, queries: ir.Value,
        mask: ir.Value | None, drawn: ir.Value | None,
    ) -> None:  # fmt: skip
        """`count` keys from `key` on, for the tile of queries at `t` of the block, the first of which is `query`."""
        b = self.b
        tops = [self.cell(self.vector) for _ in range(self.kernel.vectors)]
        for top, at in zip(tops, self.places(self.largest, t)):
            b.store(self.read(at), top)
        if self.kernel.mask == "full":
            assert mask is not None
            self.pack(
                mask, self.n("mask_row"), queries, count, self.weights, I64(self.tile), I64(self.tile)
            )  # fmt: skip
        self.by_rows(0, count, lambda i, rows: self._scores(k, key, i, rows, query, t, tops, mask))
        shifts = self._weights(count, t, tops, drawn)
        values = self.product(key, self.n("v_row"))
        self.by_rows(0, self.n("value_width"), lambda c, rows: self._add(v, values, count, c, rows, t, shifts))

    def _scores(
        self, k: ir.Value, key: ir.Value, i: ir.Value, rows: int, query: ir.Value, t: ir.Value, tops: list[ir.Value],
        mask: ir.Value | None,
    ) -> None:  # fmt: skip
        """Scores of some keys, [key][query]."""
        b, sums = self.b, self.sums(rows)
        places = [self.at(k, self.product(self.sum(key, i, r), self.n("k_row"))) for r in range(rows)]
        pitch = self.n("query_block")
        self.add_products(
            sums, self.n("width"), lambda r, e: self.at(places[r], e),
            lambda e: [self.read(at) for at in self.places(self.queries, self.product(e, pitch), t)],
        )  # fmt: skip
        behind = b.sub(self.sum(key, i), query)
        for r, row in enumerate(sums):
            targets = self.places(self.weights, self.product(self.sum(i, r), self.tile))
            for v, (cell, target) in enumerate(zip(row, targets, strict=True)):
                score = self.held(cell)
                if self.kernel.mask == "keys":
                    assert mask is not None
                    score = self.masked(score, self.spread(self.at(mask, i, r)))
                elif self.kernel.mask:
                    score = self.masked(score, self.read(target))
                if self.kernel.is_causal:
                    score = b.select(self.lanes_from(self.sum(behind, r), v), score, self.blank)
                self.write(target, score)
                b.store(self.larger(score, self.held(tops[v])), tops[v])

    def _weights(self, count: ir.Value, t: ir.Value, tops: list[ir.Value], drawn: ir.Value | None) -> list[ir.Value]:
        """Scores become weights, some of them dropped behind the sums; what results so far are to be multiplied by."""
        b = self.b
        shifts, totals, peaks = [], [], []
        for top, old, total in zip(tops, self.places(self.largest, t), self.places(self.totals, t), strict=True):
            peak = self.held(top)
            finite = b.select(b.fcmp_ordered("==", peak, self.blank), self.zero, peak)
            shift = self.exponential(b.fsub(self.read(old), finite))
            self.write(old, peak)
            cell = self.cell(self.vector)
            b.store(b.fmul(self.read(total), shift), cell)
            shifts.append(shift)
            peaks.append(finite)
            totals.append(cell)
        counters = None if drawn is None else self.counters(drawn, self.n("keys"))
        with self.loop(count) as i:
            kept = [] if counters is None else self.kept(b.add(counters, splat(b, i, self.tile)))
            for v, at in enumerate(self.places(self.weights, self.product(i, self.tile))):
                weight = self.exponential(b.fsub(self.read(at), peaks[v]))
                b.store(b.fadd(self.held(totals[v]), weight), totals[v])
                if kept:
                    weight = b.fmul(weight, b.select(kept[v], self.kept_factor(), self.zero))
                self.write(at, weight)
        for at, cell in zip(self.places(self.totals, t), totals):
            self.write(at, self.held(cell))
        return shifts

    def _add(
        self, v: ir.Value, values: ir.Value, count: ir.Value, c: ir.Value, rows: int, t: ir.Value,
        shifts: list[ir.Value],
    ) -> None:  # fmt: skip
        """Some features of the values, weighted, to the results."""
        b, sums = self.b, self.sums(rows)
        pitch, by_row = self.n("query_block"), self.n("v_row")
        targets = [self.places(self.results, self.product(self.sum(c, r), pitch), t) for r in range(rows)]
        for row, places in zip(sums, targets):
            for cell, at, shift in zip(row, places, shifts, strict=True):
                b.store(b.fmul(self.read(at), shift), cell)
        here = self.at(v, values, c)
        self.add_products(
            sums, count, lambda r, i: self.at(here, self.product(i, by_row), r),
            lambda i: [self.read(at) for at in self.places(self.weights, self.product(i, self.tile))],
        )  # fmt: skip
        for row, places in zip(sums, targets):
            for cell, at in zip(row, places, strict=True):
                self.write(at, self.held(cell))

    def _finish(self, count: ir.Value) -> None:
        """Divide by the sums; a query that has seen no key gets zeros."""
        b, one = self.b, splat_constant(self.element, 1.0, self.lanes)
        pitch = self.n("query_block")
        with self.loop(count, step=self.lanes) as i:
            at = self.at(self.totals, i)
            total = self.read(at)
            if self.kernel.gives_zeros:
                total = b.select(b.fcmp_ordered("==", total, self.zero), one, total)
            share = b.fdiv(one, total)
            with self.loop(self.n("value_width")) as c:
                result = self.at(self.results, self.product(c, pitch), i)
                self.write(result, b.fmul(self.read(result), share))

    def _store(self, y: ir.Value, count: ir.Value) -> None:
        b, pitch, by_row, width = self.b, self.n("query_block"), self.n("y_row"), self.n("value_width")
        with self.loop(width, step=self.lanes) as c, self.loop(count, step=self.lanes) as i:
            some, left = b.sub(width, c), b.sub(count, i)
            self.unpack_square(
                self.at(self.results, self.product(c, pitch), i), pitch, some, self.between(I64(0), left),
                self.at(y, self.product(i, by_row), c), by_row, left, self.between(I64(0), some),
            )  # fmt: skip

    def _store_totals(self, place: ir.Value, shares: ir.Value | None, count: ir.Value) -> None:
        if shares is None:
            self._store_logarithms(self.at(self.lse, place), count)
        else:
            self._store_sums(self.at(self.lse, place), self.at(shares, place), count)

    def _store_logarithms(self, lse: ir.Value, count: ir.Value) -> None:
        b = self.b
        with self.loop(count, step=self.lanes) as i:
            total = self.read(self.at(self.totals, i))
            peak = self.read(self.at(self.largest, i))
            found = b.fadd(peak, self.called(Fn.LOG, total))
            found = b.select(b.fcmp_ordered("==", total, self.zero), self.endless, found)
            self.write_some(self.at(lse, i), found, self.between(I64(0), b.sub(count, i)))

    def _store_sums(self, largest: ir.Value, shares: ir.Value, count: ir.Value) -> None:
        b, one = self.b, splat_constant(self.element, 1.0, self.lanes)
        with self.loop(count, step=self.lanes) as i:
            some = self.between(I64(0), b.sub(count, i))
            self.write_some(self.at(largest, i), self.read(self.at(self.largest, i)), some)
            self.write_some(self.at(shares, i), b.fdiv(one, self.read(self.at(self.totals, i))), some)
