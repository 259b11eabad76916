"""How a vector loop is laid out: lanes, registers at a time, and how each accumulator's partial results are folded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Const, Expr, Fn, Number, intern_expr

from ..loops import walk
from ..loops.ir import AccRef, Init, Kernel, Load, Loop, Store, Update, acc_ref
from . import emit_analysis as analysis
from .emit_analysis import Dependencies
from .emit_scalar import Values, emit_closed
from .emit_types import I32, lane_order, undefined
from .options import EmitOptions

_LARGE: Final = 24
"""From that many instructions on, computing a mask does not show."""
_MATH_SIZE: Final = 24
"""About how many instructions a mathematical function is."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Accumulators that a vector loop folds into together.

    `combine[m]` is accumulator `indices[m]` from two partial results: `arg(m)` and, of `k` accumulators, `arg(k + m)`.
    Partial results start at `neutral`, or, where it is `None`, at the accumulator's value, which may be met repeatedly.
    """

    indices: tuple[int, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Number, ...] | None


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """`lanes` elements per register, `interleave` registers per iteration, and the accumulators folded.

    `masked` loops do all their iterations under a mask: a little slower, and half the code to compile.
    """

    lanes: int
    interleave: int
    folds: tuple[Fold, ...]
    masked: bool


def vector_plan(loop: Loop, kernel: Kernel, deps: Dependencies, options: EmitOptions) -> VectorPlan | None:
    """How to vectorise `loop`, or `None` where it must run one element at a time."""
    bits = analysis.vector_element_bits(loop, [b.dtype for b in kernel.buffers])
    if _is_scattered(loop):  # each lane's bytes are moved one by one: more lanes are more code and no faster
        bits = max(bits, 32)
    lanes = options.vector_bits // bits
    folds = _folds(loop, deps, options)
    if folds is None or lanes < 2 or not _fits_lanes(loop):
        return None
    nested, size = any(isinstance(s, Loop) for s in loop.body), _size(loop)
    if options.masked_tails and (nested or size > _LARGE):
        return VectorPlan(lanes, 1, folds, masked=True)
    interleave = 1 if nested or not folds else 4 if size <= 16 else 2 if size <= 40 else 1
    return VectorPlan(lanes, interleave, folds, masked=False)


def _size(loop: Loop) -> int:
    """About how many instructions the loop is."""
    nodes = [e for s in walk.statements(loop.body) for e in walk.postorder(walk.expressions(s))]
    return len(nodes) + _MATH_SIZE * sum(e.fn in scalar.MATH for e in nodes)


def _is_scattered(loop: Loop) -> bool:
    """Whether some access is neither consecutive nor the same for all lanes."""
    indices = [s.index for s in walk.statements(loop.body) if isinstance(s, Store)]
    for stmt in walk.statements(loop.body):
        indices += [x.args[0] for x in walk.loads(walk.expressions(stmt))]
    return any(analysis.stride(index, loop.var) not in (0, 1) for index in indices)


def _fits_lanes(loop: Loop) -> bool:
    """No store to one place from all lanes, no inner bounds that differ between lanes."""
    own = {s.index for s in walk.statements(loop.body) if isinstance(s, Init)}
    for stmt in walk.statements(loop.body):
        if isinstance(stmt, Store) and analysis.stride(stmt.index, loop.var) == 0:
            return False
        if isinstance(stmt, Loop):
            for e in walk.postorder([stmt.start, stmt.stop]):
                if e is loop.var or isinstance(e, Load) or (isinstance(e, AccRef) and e.index in own):
                    return False
    return True


def _folds(loop: Loop, deps: Dependencies, options: EmitOptions) -> tuple[Fold, ...] | None:
    """How each accumulator from outside is folded into; `None` if one is not, or is read by anything else."""
    own = {s.index for s in walk.statements(loop.body) if isinstance(s, Init)}
    outer = walk.updated_accumulators(loop.body) - own
    folds: dict[int, Fold] = {}
    for stmt in walk.statements(loop.body):
        targets: set[int] = set()
        if isinstance(stmt, Update) and outer.intersection(stmt.indices):
            for fold in _folds_of(stmt, deps, options) or ():
                targets.update(fold.indices)
                if any(folds.setdefault(i, fold) != fold for i in fold.indices):
                    return None
            if targets != set(stmt.indices) or not targets <= outer:
                return None
        read = {name for e in walk.expressions(stmt) for kind, name in deps.of(e) if kind == "acc"}
        if (read & outer) - targets:
            return None
    return tuple(dict.fromkeys(folds.values()))


def _folds_of(stmt: Update, deps: Dependencies, options: EmitOptions) -> tuple[Fold, ...] | None:
    """The folds of one update: an associative function per accumulator, or one choice for all."""
    simple = []
    for index, value in zip(stmt.indices, stmt.values):
        others = {("acc", i) for i in stmt.indices if i != index}
        fn = analysis.reduction(acc_ref(index, value.dtype), value, deps)
        if fn is None or deps.of(value) & others:
            return _choice(stmt)
        if options.strict and value.dtype.is_floating_point and fn in (Fn.ADD, Fn.MUL):
            return None
        first, second = scalar.arg(0, value.dtype), scalar.arg(1, value.dtype)
        neutral = (analysis.identity(fn, value.dtype),)
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


def combine(b: ir.IRBuilder, fold: Fold, first: Values, second: Values, lanes: int) -> list[ir.Value]:
    """Two partial results as one, lane by lane."""
    nodes = walk.postorder(fold.combine)
    args = [*first, *second]
    values = emit_closed(b, nodes, args, lanes)
    return [values[e] for e in fold.combine]


def combine_lanes(b: ir.IRBuilder, fold: Fold, parts: list[ir.Value], lanes: int) -> list[ir.Value]:
    """All lanes folded into one, halves upon halves."""
    while lanes > 1:
        lanes //= 2
        low, high = ([_part(b, p, start, lanes) for p in parts] for start in (0, lanes))
        parts = combine(b, fold, low, high, lanes)
    return parts


def _part(b: ir.IRBuilder, value: ir.Value, start: int, lanes: int) -> ir.Value:
    if lanes == 1:
        return b.extract_element(value, I32(start))
    return b.shuffle_vector(value, undefined(value.type), lane_order(tuple(range(start, start + lanes))))


__all__ = ["Fold", "VectorPlan", "combine", "combine_lanes", "vector_plan"]
