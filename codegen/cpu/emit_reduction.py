"""How a vector loop is laid out, and how the lanes of its reductions are folded."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Fn

from ..loops import walk
from ..loops.ir import AccRef, Init, Kernel, Load, Loop, Store, Update, acc_ref
from . import emit_analysis as analysis
from .emit_analysis import Dependencies
from .emit_convert import I32
from .emit_scalar import constant, emit_fn
from .options import EmitOptions


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """`lanes` elements per register, `interleave` registers per iteration, the accumulators folded and by what."""

    lanes: int
    interleave: int
    reductions: dict[int, Fn]


def vector_plan(loop: Loop, kernel: Kernel, deps: Dependencies, options: EmitOptions) -> VectorPlan | None:
    """How to vectorise `loop`, or `None` where it must run one element at a time."""
    bits = analysis.vector_element_bits(loop, [b.dtype for b in kernel.buffers])
    lanes = options.vector_bits // bits
    reductions = _reductions(loop, deps, options)
    if reductions is None or lanes < 2 or not _fits_lanes(loop):
        return None
    size = sum(len(walk.postorder(walk.expressions(s))) for s in walk.statements(loop.body))
    interleave = 1
    if reductions and not any(isinstance(s, Loop) for s in loop.body):
        interleave = 4 if size <= 24 else 2 if size <= 64 else 1
    return VectorPlan(lanes, interleave, reductions)


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


def _reductions(loop: Loop, deps: Dependencies, options: EmitOptions) -> dict[int, Fn] | None:
    """The function of each accumulator from outside that the loop folds into; `None` if one does not fold."""
    own = {s.index for s in walk.statements(loop.body) if isinstance(s, Init)}
    outer = walk.updated_accumulators(loop.body) - own
    found: dict[int, Fn] = {}
    for stmt in walk.statements(loop.body):
        pairs = list(zip(stmt.indices, stmt.values)) if isinstance(stmt, Update) else []
        targets = [i for i, _ in pairs]
        for index, value in pairs:
            if index in outer:
                fn = analysis.reduction(acc_ref(index, value.dtype), value, deps)
                if fn is None or found.setdefault(index, fn) is not fn:
                    return None
                if options.strict and value.dtype.is_floating_point and fn in (Fn.ADD, Fn.MUL):
                    return None
        for expr in walk.expressions(stmt):
            for kind, name in deps.of(expr):
                if kind == "acc" and name in outer and name not in targets:
                    return None
        for index, value in pairs:
            others = {("acc", i) for i in outer if i != index}
            if deps.of(value) & others:
                return None
    return found


def identity_value(fn: Fn, dtype: DType, lanes: int) -> ir.Constant:
    """The value in every lane that leaves others unchanged under `fn`."""
    return constant(analysis.identity(fn, dtype), dtype, lanes)


def fold_pair(b: ir.IRBuilder, fn: Fn, dtype: DType, first: ir.Value, second: ir.Value, lanes: int) -> ir.Value:
    """`fn(first, second)` lane by lane."""
    return emit_fn(b, fn, dtype, dtype, [first, second], lanes, contract=False)


def fold_lanes(b: ir.IRBuilder, fn: Fn, dtype: DType, value: ir.Value, lanes: int) -> ir.Value:
    """All lanes folded into one, halves upon halves."""
    while lanes > 1:
        lanes //= 2
        low, high = (_part(b, value, start, lanes) for start in (0, lanes))
        value = fold_pair(b, fn, dtype, low, high, lanes)
    return value


def _part(b: ir.IRBuilder, value: ir.Value, start: int, lanes: int) -> ir.Value:
    if lanes == 1:
        return b.extract_element(value, I32(start))
    mask = ir.Constant(ir.VectorType(I32, lanes), list(range(start, start + lanes)))
    return b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)
