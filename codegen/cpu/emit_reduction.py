"""How a vector loop is laid out: lanes, registers at a time, and how each accumulator's partial results are folded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitgrad.ir import scalar

from ..loops import walk
from ..loops.analysis import Dependencies, stride
from ..loops.folds import Fold, folds_of
from ..loops.ir import AccRef, Init, Kernel, Load, Loop, Store
from . import llvm_ir as ir
from .emit_analysis import vector_element_bits
from .emit_scalar import Values, emit_closed
from .emit_types import I32, lane_order, undefined
from .options import EmitOptions

_LARGE: Final = 24
"""From that many instructions on, computing a mask does not show."""
_LONG: Final = 64
"""From that many instructions on, a machine sees little of the next iteration while it waits for this one's results."""
_MATH_SIZE: Final = 24
"""About how many instructions a mathematical function is."""


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """`lanes` elements per value, `interleave` values per iteration, and the accumulators folded.

    `masked` loops do all their iterations under a mask: a little slower, and half the code to compile.
    """

    lanes: int
    interleave: int
    folds: tuple[Fold, ...]
    masked: bool


def vector_plan(loop: Loop, kernel: Kernel, deps: Dependencies, options: EmitOptions) -> VectorPlan | None:
    """How to vectorise `loop`, or `None` where it must run one element at a time."""
    bits = vector_element_bits(loop, [b.dtype for b in kernel.buffers])
    if _is_scattered(loop):  # each lane's bytes are moved one by one: more lanes are more code and no faster
        bits = max(bits, 32)
    lanes = options.vector_bits // bits
    folds = folds_of(loop, deps, options.strict)
    if folds is None or lanes < 2 or not _fits_lanes(loop):
        return None
    nested, size = any(isinstance(s, Loop) for s in loop.body), _size(loop)
    if options.masked_tails and not nested and size > _LONG:
        lanes *= 2  # LLVM makes two instructions of each, side by side
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
    return any(stride(index, loop.var) not in (0, 1) for index in indices)


def _fits_lanes(loop: Loop) -> bool:
    """No store to one place from all lanes, no inner bounds that differ between lanes."""
    own = {s.index for s in walk.statements(loop.body) if isinstance(s, Init)}
    for stmt in walk.statements(loop.body):
        if isinstance(stmt, Store) and stride(stmt.index, loop.var) == 0:
            return False
        if isinstance(stmt, Loop):
            for e in walk.postorder([stmt.start, stmt.stop]):
                if e is loop.var or isinstance(e, Load) or (isinstance(e, AccRef) and e.index in own):
                    return False
    return True


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


__all__ = ["VectorPlan", "combine", "combine_lanes", "vector_plan"]
