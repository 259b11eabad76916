"""The driver's loops and choices: functions that run inner code with tables of regions of its own.

SCAN    code, length, regions, then the regions' tracks
WHILE   condition, body, their regions, cell of the outcome in the condition's table, carries,
        then tracks of both, and per carry: bytes, (region, offset) of the result
BRANCH  (region, offset) of the predicate, then and else code, their regions, then tracks of both
track   (region, offset) at first, at odd and at even distances from the end, bytes to go on by
"""

from __future__ import annotations

from typing import Final

from . import llvm_ir as ir
from .cells import I1, I8, I64, PTR, Counted, address, at, cell, opaque

TRACK_CELLS: Final = 7
SCAN_CELLS: Final = 4
WHILE_CELLS: Final = 7
BRANCH_CELLS: Final = 7
CARRIED_CELLS: Final = 3

_FILL_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, I64, PTR, I64, I64, PTR])
_STEP_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64])


class Loops:
    """The functions, built into a module around `run`, the driver itself, which runs inner code."""

    def __init__(self, module: ir.Module, run: ir.Function) -> None:
        self.module = module
        self.run = run
        self.fill = self._build_fill()
        self.scan = self._build_scan()
        self.while_loop = self._build_while()
        self.branch = self._build_branch()

    def _function(self, name: str) -> tuple[ir.Function, ir.IRBuilder]:
        function = ir.Function(self.module, _STEP_TYPE, name)
        return function, ir.IRBuilder(function.append_basic_block("entry"))

    def _table(self, b: ir.IRBuilder, count: ir.Value) -> ir.Value:
        return opaque(b, b.alloca(I64, count))

    def _start(self, b: ir.IRBuilder, code: ir.Value, table: ir.Value, args: list[ir.Value]) -> None:
        b.call(self.run, [b.inttoptr(code, PTR), table, *args])

    def _build_fill(self) -> ir.Function:
        """`fill(tracks, count, outer table, t, length, inner table)`: where regions are in iteration `t`."""
        function = ir.Function(self.module, _FILL_TYPE, "jitgrad_fill")
        tracks, count, outer, t, length, inner = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        odd = b.and_(b.sub(length, t), I64(1))
        later = b.select(b.icmp_unsigned("!=", odd, I64(0)), I64(2), I64(4))
        pair = b.select(b.icmp_signed("==", t, I64(0)), I64(0), later)
        with Counted(function, b, count, "region") as k:
            track = at(b, tracks, b.mul(k, I64(TRACK_CELLS)))
            moved = b.mul(t, cell(b, track, 6))
            b.store(b.add(address(b, outer, track, pair), moved), at(b, inner, k))
        b.ret_void()
        return function

    def _build_scan(self) -> ir.Function:
        function, b = self._function("jitgrad_scan")
        step, outer, *rest = function.args
        code, length, count = (cell(b, step, k) for k in range(1, SCAN_CELLS))
        inner, tracks = self._table(b, count), at(b, step, SCAN_CELLS)
        with Counted(function, b, length, "iteration") as t:
            b.call(self.fill, [tracks, count, outer, t, length, inner])
            self._start(b, code, inner, rest)
        b.ret_void()
        return function

    def _build_while(self) -> ir.Function:
        function, b = self._function("jitgrad_while")
        step, outer, *rest = function.args
        condition, body, asked, done, outcome, carries = (cell(b, step, k) for k in range(1, WHILE_CELLS))
        first, second = self._table(b, asked), self._table(b, done)
        tracks = at(b, step, WHILE_CELLS)
        others = at(b, tracks, b.mul(asked, I64(TRACK_CELLS)))
        entry = b.block
        test, turn, end = (function.append_basic_block(n) for n in ("test", "turn", "end"))
        b.branch(test)
        b.position_at_end(test)
        t = b.phi(I64)
        t.add_incoming(I64(0), entry)
        b.call(self.fill, [tracks, asked, outer, t, I64(0), first])
        self._start(b, condition, first, rest)
        b.cbranch(self._is_true(b, cell(b, first, outcome)), turn, end)
        b.position_at_end(turn)
        b.call(self.fill, [others, done, outer, t, I64(0), second])
        self._start(b, body, second, rest)
        t.add_incoming(b.add(t, I64(1)), b.block)
        b.branch(test)
        b.position_at_end(end)
        results = at(b, others, b.mul(done, I64(TRACK_CELLS)))
        with Counted(function, b, carries, "carry") as k:
            self._bring(b, at(b, results, b.mul(k, I64(CARRIED_CELLS))), outer, cell(b, first, k))
        b.ret_void()
        return function

    def _bring(self, b: ir.IRBuilder, carried: ir.Value, outer: ir.Value, source: ir.Value) -> None:
        """Copy a carry to where its result is expected; nothing happens if it is there."""
        move = b.module.declared("llvm.memmove.p0.p0.i64", ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I1]))
        target = address(b, outer, carried, 1)
        b.call(move, [b.inttoptr(target, PTR), b.inttoptr(source, PTR), cell(b, carried, 0), I1(0)])

    def _is_true(self, b: ir.IRBuilder, place: ir.Value) -> ir.Value:
        return b.icmp_unsigned("!=", b.load(b.inttoptr(place, PTR), typ=I8), I8(0))

    def _build_branch(self) -> ir.Function:
        function, b = self._function("jitgrad_branch")
        step, outer, *rest = function.args
        chosen = self._is_true(b, address(b, outer, step, 1))
        left, right, one, two = (cell(b, step, k) for k in range(3, BRANCH_CELLS))
        code, count = b.select(chosen, left, right), b.select(chosen, one, two)
        skipped = b.select(chosen, I64(0), b.mul(one, I64(TRACK_CELLS)))
        inner = self._table(b, count)
        b.call(self.fill, [at(b, step, b.add(I64(BRANCH_CELLS), skipped)), count, outer, I64(0), I64(0), inner])
        self._start(b, code, inner, rest)
        b.ret_void()
        return function
