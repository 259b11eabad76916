"""A team: the threads that run one call of the driver, from its first step to its last.

Asking the pool for threads costs some 10 microseconds, as much as many a kernel takes. So a call asks once. Whoever
comes first leads: it goes through the code, and publishes each kernel that is worth sharing out. The others follow:
they wait, awake, for something published. The leader takes portions from the first on, followers from the last on, so
that from kernel to kernel each core has much of the same memory. Nobody waits for a follower that has not come, or has
taken nothing: the leader alone can do it all.

What is published is described by job cells, and offered by one number, which says which job it is, and the first and
the last portion not taken. Taking one is an exchange of this number for the next one; that it succeeds proves that
the job cells, read before, were those of this job, because they change only when all portions are taken and done.

    offer = job << 32 | first << 16 | end
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from . import llvm_ir as ir
from .cells import I32, I64, PTR, Counted, at, call, cell, opaque

# Cells of a team, which different cores write on cache lines of their own.
_OFFER, _OVER, _DONE, _LED, _JOB, _CALL = 0, 1, 8, 16, 24, 32  # _CALL: code and table
TEAM_CELLS: Final = 40
_JOB_CELLS: Final = 6  # function, buffers, slots, params, extent, grain
MOST_PORTIONS: Final = (1 << 16) - 1
_PATIENCE: Final = 1 << 10  # looks for work before the core is offered to others

KERNEL_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, I64, I64])
_TASK_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, PTR])
_PARALLEL_FOR_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, PTR, PTR, I64, I64, I32])
_GATHER_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I64])
_SHARE_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR])
_TAKE_TYPE: Final = ir.FunctionType(I64, [PTR, I64])


class Team:
    """The functions, built into a module around `run`, the driver.

    `gather(code, table, threads, parallel_for)` runs code with a team. `share(team, job cells)` is for the leader: it
    publishes a job and comes back when it is done.
    """

    def __init__(self, module: ir.Module, run: ir.Function) -> None:
        self.module = module
        self.run = run
        self.take = self._build_take()
        self.share = self._build_share()
        self.gather = self._build_gather(self._build_member())

    def _function(self, name: str, kind: ir.FunctionType) -> tuple[ir.Function, ir.IRBuilder]:
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        return function, ir.IRBuilder(function.append_basic_block("entry"))

    def _load(self, b: ir.IRBuilder, team: ir.Value, number: int) -> ir.Value:
        return b.load_atomic(at(b, team, number), "acquire", 8, typ=I64)

    def _store(self, b: ir.IRBuilder, team: ir.Value, number: int, value: ir.Value) -> None:
        b.atomic_rmw("xchg", at(b, team, number), value, "acq_rel")

    def _build_take(self) -> ir.Function:
        """`take(team, from the end)`: do one portion of what is offered; 1, or 0 if there is none."""
        function, b = self._function("jitgrad_take", _TAKE_TYPE)
        team, from_end = function.args
        look, try_it, mine, none = (function.append_basic_block(n) for n in ("look", "try", "mine", "none"))
        b.branch(look)
        b.position_at_end(look)
        offer = self._load(b, team, _OFFER)
        first = b.and_(b.lshr(offer, I64(16)), I64(MOST_PORTIONS))
        end = b.and_(offer, I64(MOST_PORTIONS))
        b.cbranch(b.icmp_unsigned("<", first, end), try_it, none)
        b.position_at_end(try_it)
        job = [self._load(b, team, _JOB + k) for k in range(_JOB_CELLS)]
        backwards = b.icmp_unsigned("!=", from_end, I64(0))
        following = b.select(backwards, b.sub(offer, I64(1)), b.add(offer, I64(1 << 16)))
        taken = b.extract_value(b.cmpxchg(at(b, team, _OFFER), offer, following, "acq_rel", "acquire"), 1)
        b.cbranch(taken, mine, look)
        b.position_at_end(mine)
        portion = b.select(backwards, b.sub(end, I64(1)), first)
        kernel, *pointers = job[:4]
        extent, grain = job[4:]
        begin = b.mul(portion, grain)
        stop = b.add(begin, grain)
        stop = b.select(b.icmp_signed("<", stop, extent), stop, extent)
        call(b, KERNEL_TYPE, kernel, [*(b.inttoptr(p, PTR) for p in pointers), begin, stop])
        b.atomic_rmw("add", at(b, team, _DONE), I64(1), "acq_rel")
        b.ret(I64(1))
        b.position_at_end(none)
        b.ret(I64(0))
        return function

    def _build_share(self) -> ir.Function:
        function, b = self._function("jitgrad_share", _SHARE_TYPE)
        team, job = function.args
        for k in range(_JOB_CELLS):
            self._store(b, team, _JOB + k, cell(b, job, k))
        extent, grain = cell(b, job, 4), cell(b, job, 5)
        portions = b.sdiv(b.add(extent, b.sub(grain, I64(1))), grain)
        self._store(b, team, _DONE, I64(0))
        number = b.add(b.lshr(self._load(b, team, _OFFER), I64(32)), I64(1))
        self._store(b, team, _OFFER, b.or_(b.shl(number, I64(32)), portions))
        work, wait, done = (function.append_basic_block(n) for n in ("work", "wait", "done"))
        b.branch(work)
        b.position_at_end(work)
        b.cbranch(b.icmp_unsigned("!=", b.call(self.take, [team, I64(0)]), I64(0)), work, wait)
        b.position_at_end(wait)
        self._patiently(function, b, lambda: b.icmp_unsigned("==", self._load(b, team, _DONE), portions), done)
        b.position_at_end(done)
        b.ret_void()
        return function

    def _build_member(self) -> ir.Function:
        """What the pool calls, `task(args, counts, steps, data)`; `data` is the team. The first one leads."""
        function, b = self._function("jitgrad_member", _TASK_TYPE)
        team = function.args[3]
        lead, follow, look, idle, end = (
            function.append_basic_block(n) for n in ("lead", "follow", "look", "idle", "end")
        )
        before = b.atomic_rmw("xchg", at(b, team, _LED), I64(1), "acq_rel")
        b.cbranch(b.icmp_unsigned("==", before, I64(0)), lead, follow)
        b.position_at_end(lead)
        code, table = (b.inttoptr(cell(b, team, _CALL + k), PTR) for k in range(2))
        b.call(self.run, [code, table, b.ptrtoint(team, I64)])
        self._store(b, team, _OVER, I64(1))
        b.branch(end)
        b.position_at_end(follow)
        b.branch(look)
        b.position_at_end(look)
        b.cbranch(b.icmp_unsigned("!=", b.call(self.take, [team, I64(1)]), I64(0)), look, idle)
        b.position_at_end(idle)
        there = function.append_basic_block("there")

        def is_wanted() -> ir.Value:
            offer = self._load(b, team, _OFFER)
            first, last = b.and_(b.lshr(offer, I64(16)), I64(MOST_PORTIONS)), b.and_(offer, I64(MOST_PORTIONS))
            over = b.icmp_unsigned("!=", self._load(b, team, _OVER), I64(0))
            return b.or_(over, b.icmp_unsigned("<", first, last))

        self._patiently(function, b, is_wanted, there)
        b.position_at_end(there)
        b.cbranch(b.icmp_unsigned("!=", self._load(b, team, _OVER), I64(0)), end, look)
        b.position_at_end(end)
        b.ret_void()
        return function

    def _patiently(self, function: ir.Function, b: ir.IRBuilder, is_so: Callable[[], ir.Value], then: ir.Block) -> None:
        """Wait until something is so, awake; after some time others may have the core in between."""
        test, turn, offer_core = (function.append_basic_block(n) for n in ("test", "turn", "offer_core"))
        before = b.block
        b.branch(test)
        b.position_at_end(test)
        k = b.phi(I64)
        k.add_incoming(I64(0), before)
        b.cbranch(is_so(), then, turn)
        b.position_at_end(turn)
        self._pause(b)
        following = b.add(k, I64(1))
        k.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("==", b.and_(following, I64(_PATIENCE - 1)), I64(0)), offer_core, test)
        b.position_at_end(offer_core)
        if sys.platform != "win32":
            name = "sched_yield"
            b.call(self.module.declared(name, ir.FunctionType(I32, [])), [])
        k.add_incoming(following, b.block)
        b.branch(test)

    def _pause(self, b: ir.IRBuilder) -> None:
        """Tell the core that this is waiting."""
        if str(self.module.triple).startswith(("x86_64", "i686")):
            name = "llvm.x86.sse2.pause"
            b.call(self.module.declared(name, ir.FunctionType(ir.VoidType(), [])), [])

    def _build_gather(self, member: ir.Function) -> ir.Function:
        function, b = self._function("jitgrad_gather", _GATHER_TYPE)
        code, table, threads, parallel_for = function.args
        room = b.alloca(ir.ArrayType(I64, TEAM_CELLS))
        room.align = 64
        team = opaque(b, room)
        with Counted(function, b, I64(TEAM_CELLS), "clear") as k:
            b.store(I64(0), at(b, team, k))
        b.store(b.ptrtoint(code, I64), at(b, team, _CALL))
        b.store(b.ptrtoint(table, I64), at(b, team, _CALL + 1))
        triple = opaque(b, b.alloca(ir.ArrayType(I64, 3)))
        for i, value in enumerate((I64(0), threads, I64(1))):
            b.store(value, at(b, triple, i))
        first, counts, steps = (at(b, triple, k) for k in range(3))
        args = [opaque(b, member), first, counts, steps, team, I64(0), I64(1), b.trunc(threads, I32)]
        call(b, _PARALLEL_FOR_TYPE, parallel_for, args)
        b.ret_void()
        return function
