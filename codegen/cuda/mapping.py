"""How the loops of a kernel are shared out among blocks and threads.

    by thread   each iteration of the parallel loop is one thread's; threads go on in strides of the grid
    by block    each iteration is one block's; the block's threads share out the vector loops inside. What stands
                outside those is computed by all of them, and stored by the first

A kernel is by block where some vector loop inside its parallel loop (or in a kernel without one) may be done in parts.
Accumulators that such a loop folds into are kept by each thread for its share, and put together by halves in shared
memory: a fixed tree, so that results repeat. Where what one thread writes may be read by another, a barrier stands
between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from jitgrad.ir.scalar import MATH, Expr, Fn
from jitgrad.ir.scalar_eval import Evaluator

from ..loops import walk
from ..loops.analysis import Dependencies
from ..loops.folds import Fold, folds_of
from ..loops.ir import AccRef, Init, Kernel, Load, Loop, LoopVar, Slot, Stmt, Store
from .target import Target

_Access: TypeAlias = tuple[Expr, Expr | None]

WARP: Final = 32
_IN_FLIGHT: Final = 4  # iterations of a thread whose loads are issued together, so that memory is kept busy
_SMALL: Final = 64  # weight up to which a loop is worth that
_WEIGHT: Final = {**dict.fromkeys(MATH, 8), Fn.DIV: 16, Fn.REM: 16}


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks, threads in each, and bytes of dynamic shared memory (none: it is declared in the source)."""

    grid: int
    block: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class Mapping:
    """Where a kernel's loops go. `threaded` are the loops that a block's threads share, with what they fold.

    `unrolled` says how many iterations of a loop a thread does at a time, `shared` which buffers threads of a block
    hand values over in.
    """

    kernel: Kernel
    parallel: Loop | None
    by_block: bool
    threaded: dict[Loop, tuple[Fold, ...]]
    unrolled: dict[Loop, int]
    shared: frozenset[int]

    def geometry(self, slots: Sequence[int], target: Target) -> Geometry:
        """The launch for these slots: it depends on nothing else, so that results repeat."""
        extent = 1 if self.parallel is None else _extent(self.parallel, slots) or 0
        if extent <= 0:
            return Geometry(0, 1)
        if self.by_block:
            block = _block(max(self._shares(x, slots, target) for x in self.threaded), target)
            return Geometry(min(extent, target.blocks), block)
        if self.parallel is None:
            return Geometry(1, 1)
        block = _block(extent, target)
        each = block * self.unrolled.get(self.parallel, 1)
        return Geometry(min(-(-extent // each), target.blocks), block)

    def _shares(self, loop: Loop, slots: Sequence[int], target: Target) -> int:
        """How many threads a loop keeps busy: with several iterations side by side where it is unrolled."""
        extent = _extent(loop, slots)
        return target.threads if extent is None else -(-extent // self.unrolled.get(loop, 1))


def _block(iterations: int, target: Target) -> int:
    """A power of two of threads: enough for that many iterations, at least a warp if there may be as many."""
    wanted = max(min(WARP, target.threads), iterations)
    return min(target.threads, 1 << (wanted - 1).bit_length())


def _extent(loop: Loop, slots: Sequence[int]) -> int | None:
    """How often a loop runs, in the first iteration of all loops around it; `None` if that is not told by the slots."""
    unknown = False

    def leaf(expr: Expr) -> Any:
        nonlocal unknown
        match expr:
            case Slot(index=index):
                return np.int64(slots[index])
            case LoopVar():
                return np.int64(0)
        unknown = True
        return np.zeros((), expr.dtype.np)[()]

    evaluate = Evaluator(leaf)
    extent = int(evaluate(loop.stop)) - int(evaluate(loop.start))
    return None if unknown else extent


def map_kernel(kernel: Kernel, strict: bool) -> Mapping:
    """The mapping of `kernel`. `strict` keeps sums of floats in their order, so that one thread does them."""
    parallel = next((s for s in kernel.body if isinstance(s, Loop) and s.kind.startswith("parallel")), None)
    dependencies = Dependencies(walk.stored_buffers(kernel.body))
    threaded: dict[Loop, tuple[Fold, ...]] = {}
    if parallel is None or not parallel.kind.endswith("vector"):
        _find_threaded(kernel.body, dependencies, strict, threaded)
    shared = _shared_buffers(kernel, threaded) if threaded else frozenset[int]()
    candidates = list(threaded) if threaded else [] if parallel is None else [parallel]
    unrolled = {x: _IN_FLIGHT for x in candidates if _may_unroll(x, shared)}
    return Mapping(kernel, parallel, bool(threaded), threaded, unrolled, shared)


def _find_threaded(
    body: Iterable[Stmt], dependencies: Dependencies, strict: bool, found: dict[Loop, tuple[Fold, ...]]
) -> None:
    """The outermost vector loops that may be done in parts."""
    for stmt in body:
        if not isinstance(stmt, Loop):
            continue
        folds = folds_of(stmt, dependencies, strict) if stmt.kind == "vector" and _is_parallel(stmt) else None
        if folds is None:
            _find_threaded(stmt.body, dependencies, strict, found)
        else:
            found[stmt] = folds


def _is_parallel(loop: Loop) -> bool:
    """Whether no two iterations store to one place for all that can be seen: each store moves along with the loop."""
    for stmt in walk.statements(loop.body):
        if isinstance(stmt, Store) and all(e is not loop.var for e in walk.postorder([stmt.index])):
            return False
    return True


def _shared_buffers(kernel: Kernel, threaded: Collection[Loop]) -> frozenset[int]:
    """Buffers that are read and written, other than element by element in place, each by one thread."""
    accesses: dict[int, set[_Access]] = {}
    stored, loaded = walk.stored_buffers(kernel.body), set[int]()
    for stmt, start in _placed(kernel.body, threaded, None):
        if isinstance(stmt, Store):
            accesses.setdefault(stmt.buffer, set()).add((stmt.index, start))
        for x in walk.loads(walk.expressions(stmt)):
            loaded.add(x.buffer)
            accesses.setdefault(x.buffer, set()).add((x.args[0], start))
    return frozenset(b for b in stored & loaded if not _is_in_place(accesses[b]))


def _placed(body: Iterable[Stmt], threaded: Collection[Loop], start: Expr | None) -> Iterator[tuple[Stmt, Expr | None]]:
    """All statements, each with the start of the loop around it that the threads share, if there is one."""
    for stmt in body:
        yield stmt, start
        if isinstance(stmt, Loop):
            yield from _placed(stmt.body, threaded, stmt.start if stmt in threaded else start)


def _is_in_place(accesses: Collection[_Access]) -> bool:
    """Whether all accesses are at one index, in loops that give it to the same thread."""
    if len(accesses) > 1:
        return False
    ((index, start),) = accesses
    return start is not None and not _has_foreign_terms([index])


def _has_foreign_terms(indices: Iterable[Expr]) -> bool:
    """Whether an index is made of more than loop variables and slots: two iterations may then mean the same place."""
    return any(isinstance(e, (Load, AccRef)) for e in walk.postorder(indices))


def _may_unroll(loop: Loop, shared: frozenset[int]) -> bool:
    """Whether several iterations may be done side by side, and are small enough for it to matter."""
    if any(isinstance(s, Loop) for s in loop.body):
        return False
    own = {s.index for s in loop.body if isinstance(s, Init)}
    roots = [e for s in loop.body for e in walk.expressions(s)]
    order = walk.postorder(roots)
    loaded = {x.buffer for x in walk.loads(roots)}
    small = sum(_WEIGHT.get(e.fn, 1) for e in order if e.fn is not None) <= _SMALL
    return small and not own and bool(loaded) and not loaded & shared
