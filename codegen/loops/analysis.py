"""What emitters ask of a kernel: what an expression depends on, what a loop changes, how far an index moves."""

from __future__ import annotations

from typing import Final, TypeAlias

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Const, Expr, Fn

from . import walk
from .ir import AccRef, Load, Loop, LoopVar, Param

Dependency: TypeAlias = "tuple[str, str | int]"
"""("loop", name), ("acc", index), or ("buffer", index) of a buffer the kernel writes; ("load", "") for any load."""

ANY_LOAD: Final[Dependency] = ("load", "")


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


def stride(index: Expr, var: LoopVar, known: dict[Expr, int | None] | None = None) -> int | None:
    """How many elements `index` moves when `var` grows by one, if that is a number of the kernel's structure.

    `None` where it is not: a run-time stride, or an index that is not affine in `var`. `known` remembers answers for
    the same `var`.
    """
    known = {} if known is None else known
    if index not in known:
        for e in walk.postorder([index]):
            if e not in known:
                known[e] = _stride(e, [known[a] for a in e.args], var)
    return known[index]


def _stride(index: Expr, strides: list[int | None], var: LoopVar) -> int | None:
    """The same, from those of its operands."""
    if index is var:
        return 1
    if not index.args:
        return 0 if not isinstance(index, Load) else None
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


def moved_parts(value: Expr) -> frozenset[Expr]:
    """What a value consists of that is an element of memory, or one chosen among several and numbers, as it is.

    Nothing, if more is done to it.

    >>> from jitgrad.ir import dtypes
    >>> from jitgrad.codegen.loops.ir import load, loop_var
    >>> x = load(0, dtypes.float16, loop_var("i"))
    >>> len(moved_parts(x)), len(moved_parts(x + x))
    (1, 0)
    """
    found, stack = {value}, [value]
    while stack:
        e = stack.pop()
        if e.fn is Fn.SELECT:
            more = [a for a in e.args[1:] if a not in found]
        elif isinstance(e, Load):
            more = [a for a in e.args[2:] if a not in found]
        elif isinstance(e, Const | Param):
            continue
        else:
            return frozenset()
        found.update(more)
        stack += more
    return frozenset(found)


def step(index: Expr, var: LoopVar) -> Expr | None:
    """How many elements `index` moves when `var` grows by one, as an expression without `var`; `None` where there is
    none: `index` is not affine in `var`, or depends on memory."""
    if index is var:
        return scalar.const(1)
    if isinstance(index, Load):
        return None
    if stride(index, var) == 0:
        return scalar.const(0)
    if index.fn not in (Fn.ADD, Fn.SUB, Fn.MUL):
        return None
    match index.fn, [step(a, var) for a in index.args]:
        case Fn.ADD, [Expr() as a, Expr() as b]:
            return a + b
        case Fn.SUB, [Expr() as a, Expr() as b]:
            return a - b
        case Fn.MUL, [Expr() as a, Expr()] if stride(index.args[1], var) == 0:
            return a * index.args[1]
        case Fn.MUL, [Expr(), Expr() as b] if stride(index.args[0], var) == 0:
            return index.args[0] * b
    return None
