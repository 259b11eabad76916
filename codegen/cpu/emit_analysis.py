"""What the emitter asks of a kernel before and while emitting: dependencies, affine indices, reductions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Const, Expr, Fn

from ..loops import walk
from ..loops.ir import AccRef, Init, Load, Loop, LoopVar, Stmt, Store, Update

Dependency: TypeAlias = "tuple[str, str | int]"
"""("loop", name), ("acc", index), or ("buffer", index) of a buffer the kernel writes; ("load", "") for any load."""

ANY_LOAD: Final[Dependency] = ("load", "")
_REDUCIBLE: Final = frozenset({Fn.ADD, Fn.MUL, Fn.MIN, Fn.MAX, Fn.AND, Fn.OR, Fn.XOR})


class Dependencies:
    """Which changing things each expression reads; memoised over one kernel."""

    def __init__(self, written: frozenset[int]) -> None:
        self._written = written
        self._known: dict[Expr, frozenset[Dependency]] = {}

    def of(self, expr: Expr) -> frozenset[Dependency]:
        """The dependencies of `expr`."""
        known = self._known
        found = known.get(expr)
        if found is None:
            for e in walk.postorder([expr]):
                if e not in known:
                    known[e] = self._leaf(e).union(*(known[a] for a in e.args))
            found = known[expr]
        return found

    def _leaf(self, expr: Expr) -> frozenset[Dependency]:
        match expr:
            case LoopVar(name=name):
                return frozenset({("loop", name)})
            case AccRef(index=index):
                return frozenset({("acc", index)})
            case Load(buffer=buffer):
                own = {("buffer", buffer)} if buffer in self._written else set()
                return frozenset({ANY_LOAD, *own})
        return frozenset()


def changes(loop: Loop) -> frozenset[Dependency]:
    """What may differ from one iteration of `loop` to the next."""
    accs = {("acc", a) for a in walk.updated_accumulators(loop.body)}
    buffers = {("buffer", b) for b in walk.stored_buffers(loop.body)}
    inner = {("loop", s.var.name) for s in walk.statements(loop.body) if isinstance(s, Loop)}
    return frozenset({("loop", loop.var.name), *accs, *buffers, *inner})


def stride(index: Expr, var: LoopVar) -> int | None:
    """How many elements `index` moves when `var` grows by one, if that is a number of the kernel's structure.

    `None` where it is not: a run-time stride, or an index that is not affine in `var`.
    """
    if index is var:
        return 1
    if not index.args:
        return 0 if not isinstance(index, Load) else None
    strides = [stride(a, var) for a in index.args]
    if all(s == 0 for s in strides):
        return 0
    if None in strides or isinstance(index, Load):
        return None
    match index.fn, strides:
        case Fn.ADD, [int(a), int(b)]:
            return a + b
        case Fn.SUB, [int(a), int(b)]:
            return a - b
        case Fn.NEG, [int(a)]:
            return -a
        case Fn.MUL, [int(a), 0] if isinstance(index.args[1], Const):
            return a * int(index.args[1].value)
        case Fn.MUL, [0, int(b)] if isinstance(index.args[0], Const):
            return b * int(index.args[0].value)
    return None


def vector_element_bits(loop: Loop, buffers: Iterable[DType]) -> int:
    """The width of the widest value computed in `loop`, which decides how many lanes a register holds.

    Indices (int64 made of loop variables and slots alone) don't count: they are computed once per vector.
    """
    types = list(buffers)
    widest = 8
    for stmt in walk.statements(loop.body):
        for root in _values(stmt):
            for expr in walk.postorder([root]):
                if isinstance(expr, Load):
                    widest = max(widest, 8 * types[expr.buffer].itemsize)
                elif expr.dtype is not dtypes.int64:
                    widest = max(widest, 32 if expr.dtype.kind == "float" else 0, 8 * expr.dtype.itemsize)
    return widest


def _values(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case Init(value=value) | Store(value=value):
            return (value,)
        case Update(values=values):
            return values
    return ()


def reduction(acc: AccRef, value: Expr, dependencies: Dependencies) -> Fn | None:
    """The associative function by which `acc = value` folds, or `None`.

    `value` may be `fn(acc, x)`, `acc - x`, `fma(a, b, acc)`, or a select between such forms and `acc` itself,
    where the rest does not read `acc`.
    """
    found = _folds(acc, value, dependencies)
    return found if isinstance(found, Fn) else None


def _folds(acc: AccRef, value: Expr, dependencies: Dependencies) -> Fn | str | None:
    """A function, "same" for `acc` itself, or `None`."""
    if value is acc:
        return "same"

    def free(e: Expr) -> bool:
        return ("acc", acc.index) not in dependencies.of(e)

    match value.fn, value.args:
        case Fn.SELECT, (condition, a, b) if free(condition):
            first, second = _folds(acc, a, dependencies), _folds(acc, b, dependencies)
            if first is None or second is None:
                return None
            if "same" in (first, second):
                return second if first == "same" else first
            return first if first is second else None
        case Fn.SUB, (a, b) if free(b):
            return Fn.ADD if _folds(acc, a, dependencies) in ("same", Fn.ADD) else None
        case Fn.FMA, (a, b, c) if free(a) and free(b):
            return Fn.ADD if _folds(acc, c, dependencies) in ("same", Fn.ADD) else None
        case fn, (a, b) if fn in _REDUCIBLE and free(a) != free(b):
            inner = _folds(acc, b if free(a) else a, dependencies)
            return fn if inner in ("same", fn) else None
    return None


def identity(fn: Fn, dtype: DType) -> bool | int | float:
    """The value that leaves others unchanged under `fn`."""
    if dtype is dtypes.bool_:
        return fn in (Fn.AND, Fn.MUL, Fn.MIN)
    values: dict[Fn, int | float]
    if dtype.is_floating_point:
        values = {Fn.ADD: -0.0, Fn.MUL: 1.0, Fn.MIN: float("inf"), Fn.MAX: float("-inf")}
        return values[fn]
    bits = 8 * dtype.itemsize
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
    ones = -1 if dtype.is_signed else high
    values = {Fn.ADD: 0, Fn.MUL: 1, Fn.MIN: high, Fn.MAX: low, Fn.AND: ones, Fn.OR: 0, Fn.XOR: 0}
    return values[fn]
