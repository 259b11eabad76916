"""Checks a kernel against the rules of the loop-level IR; every pass and lowering is held to them.

Scopes: a loop variable is read inside its loop only, an accumulator after its `Init` in the same or an enclosing block.
Buffers: "in" is never written; roles are known. Loops: one parallel loop, outermost, alone in writing memory, and
folding into no accumulator from outside; a vector loop holds no other. Types: each function's operands agree.
"""

from __future__ import annotations

from typing import Final, NoReturn

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Const, Expr, Fn

from . import walk
from .ir import AccRef, Init, Kernel, Load, Loop, LoopVar, Param, Slot, Stmt, Store, Update
from .printer import print_kernel

KINDS: Final = ("serial", "vector", "parallel", "parallel_vector")
ROLES: Final = ("in", "out", "inout", "local")
_FLOAT_ONLY: Final = scalar.MATH | {Fn.SQRT, Fn.COPYSIGN, Fn.SCALE}
_INTEGER_ONLY: Final = frozenset({Fn.AND, Fn.OR, Fn.XOR, Fn.NOT, Fn.SHL, Fn.SHR, Fn.LSHR})
_ARITY: Final = {
    **dict.fromkeys(Fn, 1),
    **dict.fromkeys(list(Fn)[: list(Fn).index(Fn.NEG)], 2),
    **dict.fromkeys(scalar.COMPARISONS, 2),
    **dict.fromkeys((Fn.MIN, Fn.MAX, Fn.COPYSIGN, Fn.SCALE, Fn.AND, Fn.OR, Fn.XOR, Fn.SHL, Fn.SHR, Fn.LSHR), 2),
    **dict.fromkeys((Fn.ATAN2, Fn.POW), 2),
    **dict.fromkeys((Fn.FMA, Fn.SELECT), 3),
}


def verify_kernel(kernel: Kernel) -> None:
    """Raise `InternalError` naming the rule that `kernel` breaks, with its text."""
    _Verifier(kernel).run()


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.open: list[Loop] = []
        self.accumulators: list[dict[int, DType]] = [{}]
        self.checked: list[set[Expr]] = [set()]

    def run(self) -> None:
        for i, buffer in enumerate(self.kernel.buffers):
            if buffer.role not in ROLES:
                self.fail(f"buffer b{i} has the unknown role {buffer.role!r}")
            if (buffer.role == "local") != (buffer.length > 0):
                self.fail(f"buffer b{i}: a length belongs to local buffers, and to them alone")
        self.parallel()
        self.block(self.kernel.body)

    def fail(self, rule: str) -> NoReturn:
        raise InternalError(f"invalid kernel: {rule}\n{print_kernel(self.kernel)}")

    def parallel(self) -> None:
        """The rules on the parallel loop."""
        loops = [s for s in walk.statements(self.kernel.body) if isinstance(s, Loop)]
        parallel = [s for s in loops if s.kind.startswith("parallel")]
        if not parallel:
            return
        if len(parallel) > 1 or parallel[0] not in self.kernel.body:
            self.fail("a kernel has one parallel loop at most, and it is outermost")
        others = [s for s in self.kernel.body if s is not parallel[0]]
        if walk.stored_buffers(others):
            self.fail("a store outside the parallel loop would run once per sub-range")
        own = {s.index for s in walk.statements(parallel[0].body) if isinstance(s, Init)}
        if walk.updated_accumulators(parallel[0].body) - own:
            self.fail("a parallel loop folds into an accumulator from outside")

    def block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            for expr in walk.expressions(stmt):
                self.expression(expr)
            match stmt:
                case Loop():
                    self.loop(stmt)
                case Init(index=index, value=value):
                    self.accumulators[-1][index] = value.dtype
                case Update():
                    self.update(stmt)
                case Store():
                    self.store(stmt)

    def loop(self, loop: Loop) -> None:
        if loop.kind not in KINDS:
            self.fail(f"unknown kind of loop {loop.kind!r}")
        if any(o.var is loop.var for o in self.open):
            self.fail(f"loop variable {loop.var} is already in use around this loop")
        if loop.kind == "vector" and any(o.kind.endswith("vector") for o in self.open):
            self.fail("a vector loop inside a vector loop")
        if not loop.start.dtype is loop.stop.dtype is dtypes.int64:
            self.fail(f"the bounds of loop {loop.var} are not int64")
        self.open.append(loop)
        self.accumulators.append({})
        self.checked.append(set())
        self.block(loop.body)
        self.open.pop()
        self.accumulators.pop()
        self.checked.pop()

    def update(self, stmt: Update) -> None:
        if len(stmt.indices) != len(stmt.values) or len(set(stmt.indices)) != len(stmt.indices):
            self.fail("an update names each of its accumulators once, with one value each")
        for index, value in zip(stmt.indices, stmt.values):
            dtype = self.accumulator(index)
            if dtype is not value.dtype:
                self.fail(f"acc{index} is {dtype.short}, the value given to it is {value.dtype.short}")

    def store(self, stmt: Store) -> None:
        if not 0 <= stmt.buffer < len(self.kernel.buffers):
            self.fail(f"there is no buffer b{stmt.buffer}")
        buffer = self.kernel.buffers[stmt.buffer]
        if buffer.role == "in":
            self.fail(f"b{stmt.buffer} is an input and cannot be stored to")
        if stmt.index.dtype is not dtypes.int64:
            self.fail(f"an index of b{stmt.buffer} is {stmt.index.dtype.short}, not i64")
        if stmt.value.dtype is not buffer.dtype:
            self.fail(f"b{stmt.buffer} is {buffer.dtype.short}, the value stored is {stmt.value.dtype.short}")

    def accumulator(self, index: int) -> DType:
        for scope in reversed(self.accumulators):
            if index in scope:
                return scope[index]
        self.fail(f"acc{index} is used where no Init declares it")

    def expression(self, root: Expr) -> None:
        for expr in walk.postorder([root]):
            if expr.fn is None:
                self.leaf(expr)
            elif expr not in self.checked[-1]:
                self.checked[-1].add(expr)
                self.function(expr, expr.fn)

    def leaf(self, expr: Expr) -> None:
        kernel = self.kernel
        match expr:
            case Const(runtime=runtime):
                if runtime:
                    self.fail(f"the number {expr} of a shape or of the user is not a slot or a param")
            case LoopVar():
                if not any(o.var is expr for o in self.open):
                    self.fail(f"loop variable {expr} is read outside its loop")
            case Slot(index=index):
                if not 0 <= index < kernel.slots:
                    self.fail(f"there is no slot s{index}")
            case Param(index=index):
                if not 0 <= index < len(kernel.params) or kernel.params[index] is not expr.dtype:
                    self.fail(f"there is no param p{index} of type {expr.dtype.short}")
            case AccRef(index=index):
                if self.accumulator(index) is not expr.dtype:
                    self.fail(f"acc{index} is read as {expr.dtype.short}")
            case Load():
                self.load(expr)
            case _:
                self.fail(f"{type(expr).__name__} {expr!r} has no place in a kernel")

    def load(self, expr: Load) -> None:
        if not 0 <= expr.buffer < len(self.kernel.buffers):
            self.fail(f"there is no buffer b{expr.buffer}")
        if self.kernel.buffers[expr.buffer].dtype is not expr.dtype:
            self.fail(f"b{expr.buffer} is read as {expr.dtype.short}")
        if expr.args[0].dtype is not dtypes.int64:
            self.fail(f"an index of b{expr.buffer} is {expr.args[0].dtype.short}, not i64")
        if len(expr.args) == 3 and (expr.args[1].dtype is not dtypes.bool_ or expr.args[2].dtype is not expr.dtype):
            self.fail(f"a masked load of b{expr.buffer} takes a bool mask and a fill of its own type")

    def function(self, expr: Expr, fn: Fn) -> None:
        types = [a.dtype for a in expr.args]
        if len(types) != _ARITY[fn]:
            self.fail(f"{fn.value} takes {_ARITY[fn]} operands, not {len(types)}")
        if any(t.is_complex for t in (*types, expr.dtype)):
            self.fail(f"{fn.value}: complex numbers are pairs of reals in a kernel")
        if fn is Fn.CONVERT:
            return
        if fn is Fn.BITCAST:
            if types[0].itemsize != expr.dtype.itemsize:
                self.fail(f"bitcast from {types[0].short} to {expr.dtype.short} changes the width")
            return
        if fn is Fn.SELECT and types.pop(0) is not dtypes.bool_:
            self.fail("the condition of a select is not bool")
        result = dtypes.bool_ if fn in scalar.COMPARISONS else types[0]
        if any(t is not types[0] for t in types) or expr.dtype is not result:
            given = ", ".join(t.short for t in types)
            self.fail(f"{fn.value} of ({given}) cannot give {expr.dtype.short}")
        if fn in _FLOAT_ONLY and not types[0].is_floating_point:
            self.fail(f"{fn.value} takes floats, not {types[0].short}")
        if fn in _INTEGER_ONLY and types[0].is_floating_point:
            self.fail(f"{fn.value} takes integers or bools, not {types[0].short}")
