"""How a vector loop folds into accumulators: which updates may be done in parts, and how parts are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Const, Expr, Fn, Number, intern_expr

from . import walk
from .analysis import Dependencies
from .ir import AccRef, Init, Loop, Update, acc_ref

_REDUCIBLE: Final = frozenset({Fn.ADD, Fn.MUL, Fn.MIN, Fn.MAX, Fn.AND, Fn.OR, Fn.XOR})


@dataclass(frozen=True, slots=True)
class Fold:
    """Accumulators that a vector loop folds into together.

    `combine[m]` is accumulator `indices[m]` from two partial results: `arg(m)` and, of `k` accumulators, `arg(k + m)`.
    Partial results start at `neutral`, or, where it is `None`, at the accumulator's value, which may be met repeatedly.
    """

    indices: tuple[int, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Number, ...] | None


def folds_of(loop: Loop, deps: Dependencies, strict: bool) -> tuple[Fold, ...] | None:
    """How each accumulator from outside is folded into; `None` if one is not, or is read by anything else.

    `strict` takes sums and products of floats to be tied to their order.
    """
    own = {s.index for s in walk.statements(loop.body) if isinstance(s, Init)}
    outer = walk.updated_accumulators(loop.body) - own
    folds: dict[int, Fold] = {}
    for stmt in walk.statements(loop.body):
        targets: set[int] = set()
        if isinstance(stmt, Update) and outer.intersection(stmt.indices):
            for fold in _folds_of(stmt, deps, strict) or ():
                targets.update(fold.indices)
                if any(folds.setdefault(i, fold) != fold for i in fold.indices):
                    return None
            if targets != set(stmt.indices) or not targets <= outer:
                return None
        read = {name for e in walk.expressions(stmt) for kind, name in deps.of(e) if kind == "acc"}
        if (read & outer) - targets:
            return None
    return tuple(dict.fromkeys(folds.values()))


def _folds_of(stmt: Update, deps: Dependencies, strict: bool) -> tuple[Fold, ...] | None:
    """The folds of one update: an associative function per accumulator, or one choice for all."""
    simple = []
    for index, value in zip(stmt.indices, stmt.values):
        others = {("acc", i) for i in stmt.indices if i != index}
        fn = reduction(acc_ref(index, value.dtype), value, deps)
        if fn is None or deps.of(value) & others:
            return _choice(stmt)
        if strict and value.dtype.is_floating_point and fn in (Fn.ADD, Fn.MUL):
            return None
        first, second = scalar.arg(0, value.dtype), scalar.arg(1, value.dtype)
        neutral = (identity(fn, value.dtype),)
        simple.append(Fold((index,), (scalar.apply(fn, first, second),), neutral))
    return tuple(simple)


def _choice(stmt: Update) -> tuple[Fold, ...] | None:
    """The fold of `acc[m] = select(c, x[m], acc[m])` with one `c` made of the accumulators and the `x[m]` alone.

    Such an update keeps the better of two candidates. To combine partial results, the candidate is the other part.
    """
    count = len(stmt.indices)
    known: dict[Expr, Expr] = {}
    for m, (index, value) in enumerate(zip(stmt.indices, stmt.values)):
        acc = acc_ref(index, value.dtype)
        if value.fn is not Fn.SELECT or value.args[0] is not stmt.values[0].args[0] or value.args[2] is not acc:
            return None
        known[acc] = scalar.arg(m, value.dtype)
        known[value.args[1]] = scalar.arg(count + m, value.dtype)
    if len(known) != 2 * count:
        return None
    for e in walk.postorder(stmt.values):
        if e not in known and all(a in known for a in e.args):
            if isinstance(e, Const):
                known[e] = e
            elif e.fn is not None and e.fn not in scalar.MATH:
                known[e] = intern_expr(Expr, e.dtype, e.fn, tuple(known[a] for a in e.args))
    if not all(v in known for v in stmt.values):
        return None
    return (Fold(stmt.indices, tuple(known[v] for v in stmt.values), None),)


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
