"""The kernel of attention's gradients (Dao et al. 2022, arXiv:2205.14135, algorithm 4).

    for each task: a strand of a head of keys
        for each block of keys of the strand
            pack the keys and values: [width][key]
            for each query head that shares them, for each block of queries
                registers [query][key] = queries[query] * keys[key], over the width: weights = exp(scores - logarithm)
                registers [query][key] = g[query] * values[key], over the width: S = weights * (that - delta)
                with dropout: weights that are dropped are negative in between, and then 0
                registers [key][feature] += weights * g, and S * queries, over the queries
                registers [query][feature] += S * keys, over the keys

The gradients in keys and values are a task's own. Those in queries come from all keys: each strand adds up its blocks
in order, in memory of its own, so that results are the same for any number of threads. That memory is for some queries
at a time: a launch goes over these alone, and is followed by the sum of the strands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..loops.attention import AttentionKernel
from . import llvm_ir as ir
from .emit_types import I64
from .tile_attention_builder import AttentionBuilder


def emit_attention_grad(module: ir.Module, symbol: str, kernel: AttentionKernel, scales: bool) -> ir.Function:
    """Add the kernel to `module`.

    "goes_on": some queries have been seen. Buffers: queries, keys, values, g, logarithms, delta, mask if there is one,
    seed and offset with dropout; the gradients in queries by strand, in keys, in values.
    """
    return _AttentionGrad(module, symbol, kernel, scales).run()


def emit_sum_of_strands(module: ir.Module, symbol: str, kernel: AttentionKernel, scales: bool) -> ir.Function:
    """Add the kernel to `module`. Buffers: strands of the gradients in queries, and their sum; tasks are heads."""
    return _StrandsSum(module, symbol, kernel, scales).run()


class _StrandsSum(AttentionBuilder):
    def run(self) -> ir.Function:
        """The whole function."""
        b, n, parts, dq = self.b, self.n, self.buffer(0), self.buffer(1)
        heads, part = self.product(n("tasks"), n("groups")), self.product(n("part_rows"), n("width"))
        count = self.product(b.sub(n("last_query"), n("first_query")), n("width"))
        with self.loop(self.end, start=self.begin) as head:
            row = self.sum(self.product(head, n("queries")), n("first_query"))
            source, target = self.at(parts, self.product(head, part)), self.at(dq, self.product(row, n("width")))
            with self.loop(count, step=self.lanes) as i:
                some = self.between(I64(0), b.sub(count, i))
                total = self.cell(self.vector)
                b.store(self.read_some(self.at(source, i), some), total)
                with self.loop(n("strands"), start=1) as strand:
                    more = self.read_some(self.at(source, self.product(strand, heads, part), i), some)
                    b.store(b.fadd(self.held(total), more), total)
                self.write_some(self.at(target, i), self.held(total), some)
        return self.finish()


@dataclass(frozen=True, slots=True)
class _Keys:
    """A block of `count` keys, the first of which is `first`: where its keys and its gradients are."""

    first: ir.Value
    count: ir.Value
    k: ir.Value
    dk: ir.Value
    dv: ir.Value


@dataclass(frozen=True, slots=True)
class _Queries:
    """A block of `count` queries, the first of which is `first`: where it is in all that is by query."""

    first: ir.Value
    count: ir.Value
    number: ir.Value  # of the head
    q: ir.Value
    g: ir.Value
    lse: ir.Value
    delta: ir.Value
    mask: ir.Value | None
    dq: ir.Value


class _AttentionGrad(AttentionBuilder):
    def run(self) -> ir.Function:
        """The whole function."""
        b, masked = self.b, bool(self.kernel.mask)
        self.q, self.k, self.v, self.g, self.lse, self.delta = (self.buffer(i) for i in range(6))
        self.mask = self.buffer(6) if masked else None
        results = self.read_random(6 + masked)
        self.dq, self.dk, self.dv = (self.buffer(results + i) for i in range(3))
        pitch = self.n("key_block")
        self.keys = self.scratch(self.product(self.n("width"), pitch))
        self.values = self.scratch(self.product(self.n("value_width"), pitch))
        size = self.product(self.n("query_block"), pitch)
        self.weights, self.scores = self.scratch(size), self.scratch(size)
        with self.loop(self.end, start=self.begin) as task:
            strand, number = self.split(task, self.n("tasks"))
            shared = b.sdiv(self.n("heads"), self.n("groups"))
            outer, head = self.split(number, shared)
            self._clear_queries(strand, number)
            with self._blocks(strand, self.product(self.n("blocks"), b.sub(I64(1), self.n("goes_on")))) as block:
                self._clear_keys(number, self.product(block, pitch))
            with self._blocks(strand, self._blocks_seen()) as block:
                keys = self._keys(outer, head, number, self.product(block, pitch))
                with self.loop(self.n("groups")) as g:
                    self._head(strand, outer, self.sum(self.product(head, self.n("groups")), g), keys)
        return self.finish()

    @contextmanager
    def _blocks(self, strand: ir.Value, stop: ir.Value) -> Iterator[ir.Value]:
        """The blocks of keys of a strand in front of block `stop`."""
        with self.loop(self.ceiling(self.b.sub(stop, strand), self.n("strands"))) as j:
            yield self.sum(strand, self.product(j, self.n("strands")))

    def _blocks_seen(self) -> ir.Value:
        """How many blocks of keys the queries see."""
        if not self.kernel.is_causal:
            return self.n("blocks")
        return self.ceiling(self.minimum(self.n("keys"), self.n("last_query")), self.n("key_block"))

    def _clear_queries(self, strand: ir.Value, number: ir.Value) -> None:
        """No key has been seen by the query heads of a task."""
        n = self.n
        head = self.product(n("part_rows"), n("width"))
        first = self.product(self.sum(self.product(strand, n("tasks")), number), n("groups"))
        self.cleared(self.at(self.dq, self.product(first, head)), self.product(n("groups"), head))

    def _clear_keys(self, number: ir.Value, first: ir.Value) -> None:
        """No query has been seen by a block of keys."""
        n = self.n
        count, row = (
            self.minimum(n("key_block"), self.b.sub(n("keys"), first)),
            self.sum(self.product(number, n("keys")), first),
        )
        for base, width in ((self.dk, n("width")), (self.dv, n("value_width"))):
            self.cleared(self.at(base, self.product(row, width)), self.product(count, width))

    def _keys(self, outer: ir.Value, head: ir.Value, number: ir.Value, first: ir.Value) -> _Keys:
        """A block of keys, packed."""
        n, pitch = self.n, self.n("key_block")
        count = self.minimum(pitch, self.b.sub(n("keys"), first))
        k, v = (
            self.at(base, self.place(name, outer, head), self.product(first, n(name + "_row")))
            for base, name in ((self.k, "k"), (self.v, "v"))
        )
        self.pack(k, n("k_row"), count, n("width"), self.keys, pitch, pitch)
        self.pack(v, n("v_row"), count, n("value_width"), self.values, pitch, pitch)
        row = self.sum(self.product(number, n("keys")), first)
        dk, dv = self.at(self.dk, self.product(row, n("width"))), self.at(self.dv, self.product(row, n("value_width")))
        return _Keys(first, count, k, dk, dv)

    def _head(self, strand: ir.Value, outer: ir.Value, head: ir.Value, keys: _Keys) -> None:
        """All queries of a head that see some of the keys."""
        b, n = self.b, self.n
        size = n("query_block")
        start = b.sdiv(n("first_query"), size)
        if self.kernel.is_causal:
            start = self.maximum(start, b.sdiv(keys.first, size))
        with self.loop(self.ceiling(n("last_query"), size), start=start) as j:
            self._queries(self._block(strand, outer, head, keys, self.product(j, size)), keys)

    def _block(self, strand: ir.Value, outer: ir.Value, head: ir.Value, keys: _Keys, first: ir.Value) -> _Queries:
        n = self.n
        number = self.sum(self.product(outer, n("heads")), head)
        row = self.sum(self.product(number, n("queries")), first)
        heads = self.product(n("tasks"), n("groups"))
        result = self.product(self.sum(self.product(strand, heads), number), n("part_rows"))
        result = self.sum(result, self.b.sub(first, n("first_query")))
        mask = None
        if self.mask is not None:
            offset = self.sum(self.place("mask", outer, head), self.product(first, n("mask_row")), keys.first)
            mask = self.at(self.mask, offset)
        return _Queries(
            first, self.minimum(n("query_block"), self.b.sub(n("last_query"), first)), number,
            self.at(self.q, self.place("q", outer, head), self.product(first, n("q_row"))),
            self.at(self.g, self.place("y", outer, head), self.product(first, n("y_row"))),
            self.at(self.lse, row), self.at(self.delta, row), mask,
            self.at(self.dq, self.product(result, n("width"))),
        )  # fmt: skip

    def _queries(self, queries: _Queries, keys: _Keys) -> None:
        """A block of queries by a block of keys. `ahead`: how far behind the first query the first key is."""
        b, rows = self.b, self.kernel.rows
        ahead = b.sub(keys.first, queries.first)
        with self.loop(keys.count, step=self.tile) as t:
            start = self._from(self.sum(ahead, t), rows)
            self.by_rows(start, queries.count, lambda i, rows: self._weigh(queries, keys, ahead, t, i, rows))
        self.by_rows(0, keys.count, lambda k, rows: self._to_keys(queries, keys, ahead, k, rows))
        limit = self._from(ahead, rows)
        self.by_rows(limit, queries.count, lambda i, rows: self._to_queries(queries, keys, ahead, i, rows))

    def _from(self, first: ir.Value, rows: int) -> ir.Value:
        """The first query that may see a key, `first` behind the block's first: at the start of a tile."""
        if not self.kernel.is_causal:
            return I64(0)
        return self.product(self.b.sdiv(self.maximum(first, 0), I64(rows)), rows)

    def _weigh(
        self, queries: _Queries, keys: _Keys, ahead: ir.Value, t: ir.Value, i: ir.Value, rows: int
    ) -> None:  # fmt: skip
        """Weights, and the cotangents of scores, [query][key]."""
        b, n, pitch = self.b, self.n, self.n("key_block")
        left = self.lanes_left(b.sub(keys.count, t))
        for packed, name, base, by_row in (
            (self.keys, "width", queries.q, n("q_row")), (self.values, "value_width", queries.g, n("y_row")),
        ):  # fmt: skip
            sums = self.sums(rows)
            places = [self.at(base, self.product(self.sum(i, r), by_row)) for r in range(rows)]
            self.add_products(
                sums, n(name), lambda r, e: self.at(places[r], e),  # noqa: B023
                lambda e: [self.read(at) for at in self.places(packed, self.product(e, pitch), t)],  # noqa: B023
            )  # fmt: skip
            for r, row in enumerate(sums):
                at = self.sum(self.product(self.sum(i, r), pitch), t)
                found = list(map(self.held, row))
                if packed is self.keys:
                    weights = self._weights(queries, found, ahead, t, i, r, left)
                    for place, weight in zip(self.places(self.weights, at), weights, strict=True):
                        self.write(place, weight)
                else:
                    self._store_cotangents(queries, found, at, t, i, r, left)

    def _weights(
        self, queries: _Queries, products: list[ir.Value], ahead: ir.Value, t: ir.Value, i: ir.Value, r: int,
        left: list[ir.Value],
    ) -> list[ir.Value]:  # fmt: skip
        """exp(score - logarithm), of a query by a tile of keys; the negative of it where that is dropped."""
        b, found = self.b, []
        logarithm = self.spread(self.at(queries.lse, i, r))
        last = b.sub(self.sum(i, r), self.sum(ahead, t))
        for v, product in enumerate(products):
            score = b.fmul(product, self.scale())
            if queries.mask is not None:
                score = self.masked(score, self._mask(queries, t, i, r, v, left[v]))
            weight = self.exponential(b.fsub(score, logarithm))
            if self.kernel.is_causal:
                weight = b.select(self.lanes_up_to(last, v), weight, self.zero)
            found.append(weight)
        if not self.kernel.drops:
            return found
        counter = self.counter(queries.number, self.sum(queries.first, i, r), self.sum(queries.first, ahead, t))
        kept = self.kept(self.counters(counter, 1))
        return [b.select(k, weight, b.fneg(weight)) for k, weight in zip(kept, found, strict=True)]

    def _store_cotangents(
        self, queries: _Queries, products: list[ir.Value], at: ir.Value, t: ir.Value, i: ir.Value, r: int,
        left: list[ir.Value],
    ) -> None:  # fmt: skip
        """The cotangents of scores, of a query by a tile of keys, from those of the weights."""
        b = self.b
        delta = self.spread(self.at(queries.delta, i, r))
        places = zip(products, self.places(self.weights, at), self.places(self.scores, at), strict=True)
        for v, (given, place, target) in enumerate(places):
            weight = self.read(place)
            if self.kernel.drops:
                factor, weight = self._kept_factor(weight), self.magnitude(weight)
                given = b.fmul(given, factor)
                self.write(place, b.fmul(weight, factor))
            given = b.fmul(b.fmul(weight, b.fsub(given, delta)), self.scale())
            if self.kernel.is_chosen:
                given = b.select(self.is_kept(self._mask(queries, t, i, r, v, left[v])), given, self.zero)
            self.write(target, given)

    def _kept_factor(self, weight: ir.Value) -> ir.Value:
        """What dropout multiplies by, by the sign of a weight."""
        kind = ir.VectorType(ir.IntType(8 * self.wide.itemsize), self.lanes)
        dropped = self.b.icmp_signed("<", self.b.bitcast(weight, kind), ir.Constant(kind, None))
        return self.b.select(dropped, self.zero, self.kept_factor())

    def _mask(self, queries: _Queries, t: ir.Value, i: ir.Value, r: int, v: int, left: ir.Value) -> ir.Value:
        """A query's mask, for a vector of keys."""
        assert queries.mask is not None
        row = self.product(self.sum(i, r), self.n("mask_row"))
        return self.read_some(self.at(queries.mask, row, t, v * self.lanes), left)

    def _to_keys(self, queries: _Queries, keys: _Keys, ahead: ir.Value, k: ir.Value, rows: int) -> None:
        """What some keys and values get from the block's queries."""
        n, pitch = self.n, self.n("key_block")
        start: ir.Value = I64(0)
        if self.kernel.is_causal:
            start = self.minimum(self.maximum(self.sum(ahead, k), 0), queries.count)
        for factors, source, by_row, target, width in (
            (self.weights, queries.g, n("y_row"), keys.dv, n("value_width")),
            (self.scores, queries.q, n("q_row"), keys.dk, n("width")),
        ):
            self._add_features(
                [self.at(target, self.product(self.sum(k, r), width)) for r in range(rows)], width, start,
                queries.count, [self.at(factors, k, r) for r in range(rows)], pitch, source, by_row,
            )  # fmt: skip

    def _to_queries(self, queries: _Queries, keys: _Keys, ahead: ir.Value, i: ir.Value, rows: int) -> None:
        """What some queries get from the block's keys."""
        n = self.n
        stop = keys.count
        if self.kernel.is_causal:
            stop = self.minimum(stop, self.b.sub(self.sum(i, rows), ahead))
        each = [self.sum(i, r) for r in range(rows)]
        self._add_features(
            [self.at(queries.dq, self.product(x, n("width"))) for x in each], n("width"), I64(0), stop,
            [self.at(self.scores, self.product(x, n("key_block"))) for x in each], I64(1), keys.k, n("k_row"),
        )  # fmt: skip

    def _add_features(
        self, targets: list[ir.Value], width: ir.Value, start: ir.Value, stop: ir.Value, factors: list[ir.Value],
        step: ir.Value, source: ir.Value, by_row: ir.Value,
    ) -> None:  # fmt: skip
        """`target += factor[x] * source[x]`, for rows of features, over x; factors are `step` apart."""
        b = self.b
        with self.loop(width, step=self.tile) as c:
            left: list[ir.Value | None] = [None] * self.kernel.vectors
            if not self.kernel.is_whole:
                left = list(self.lanes_left(b.sub(width, c)))
            sums = self.sums(len(targets))
            for row, target in zip(sums, targets, strict=True):
                for cell, at, mask in zip(row, self.places(target, c), left, strict=True):
                    b.store(self._read(at, mask), cell)
            self.add_products(
                sums, stop, lambda r, x: self.at(factors[r], self.product(x, step)),
                lambda x: list(map(self._read, self.places(source, self.product(x, by_row), c), left)), start,
            )  # fmt: skip
            for row, target in zip(sums, targets, strict=True):
                for cell, at, mask in zip(row, self.places(target, c), left, strict=True):
                    if mask is None:
                        self.write(at, self.held(cell))
                    else:
                        self.write_some(at, self.held(cell), mask)

    def _read(self, address: ir.Value, mask: ir.Value | None) -> ir.Value:
        """A vector, or what the mask chooses of it: the comparison that a mask takes is made where the mask is used."""
        return self.read(address) if mask is None else self.read_some(address, mask)
