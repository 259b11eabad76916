"""Scatters: what may meet at one place comes one after another, everything else in parallel.

    start:     the base is copied to the result
    scatter:   for each place along the axes that the places go along with, and each range of destinations:
                   one source element after another: if its place is in the range, it meets what is there
    finish:    only where elements meet in a wider type: the result from what is there

An axis of the source that is an axis of the base too keeps elements apart; elements along the others may meet. To have
enough to do in parallel, destinations are cut into ranges as well: each task goes through all indices, and takes what
is its own. So every place sees its elements in row-major order, whatever the ranges, and for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.op import ScatterOp
from jitgrad.ir.scalar import Expr
from jitgrad.ir.tracked import computed
from jitgrad.ir.types import Shape

from ..fuse.element import Index, canonical_index, element, walk
from ..fuse.roots import Root
from ..loops.ir import LoopVar, Stmt, Store, loop_var
from .group_lowering import GroupLowering, ceil_div
from .kernel_builder import KernelBuilder, Launch, Scratch
from .loops import PARALLEL, SERIAL, TASK, VECTOR, Header, counted, nest, parallel, stretch
from .nest import Axis, merge_axes, uses_of

_WORTH_A_RANGE: Final = 32
"""Source elements for each range of destinations; with fewer, looking at them all costs more than it gains."""
_WORTH_A_LOOK: Final = 16
"""Elements that take as long as looking at one index."""


@dataclass(frozen=True, slots=True)
class _Scattering:
    """A scatter. `memory` is where elements meet in a wider type, if they do."""

    lowering: GroupLowering
    root: Root
    op: ScatterOp
    wide: DType
    memory: Scratch | None
    shape: Shape  # the source's

    @property
    def source(self) -> Expr:
        """The source's element."""
        return self.root.ordered[0]

    @property
    def place(self) -> Index:
        """Where it goes."""
        return self.root.ordered[1:]

    def load(self, b: KernelBuilder, index: Index) -> Expr:
        """What is at a place of the result."""
        if self.memory is not None:
            return b.load_scratch(self.memory, b.address(self.root.number, index))
        return b.finish(element(self.root.number, self.wide, index))

    def store(self, b: KernelBuilder, index: Index, value: Expr) -> Store:
        """Put something there."""
        if self.memory is not None:
            return b.store_scratch(self.memory, b.address(self.root.number, index), value)
        return b.store(self.root.number, index, value)

    def loops(self, axes: Sequence[int]) -> list[Axis]:
        """The loops over some axes of the source."""
        values, index = self.lowering.program.values, canonical_index(len(self.shape))
        target = element(self.root.number, self.root.value.type.dtype, self.place)
        uses = uses_of([self.source, target], lambda n: values[n].shape)
        return merge_axes([(index[k], self.shape[k]) for k in axes if isinstance(index[k], LoopVar)], uses)  # type: ignore[misc]

    @property
    def apart(self) -> tuple[int, ...]:
        """The axes of the source along which elements never meet."""
        index = canonical_index(len(self.shape))
        return tuple(k for k, v in enumerate(index) if any(p is v for p in self.place))


def lower_scatter(lowering: GroupLowering) -> list[Launch]:
    """Two or three launches."""
    (root,) = lowering.group.roots
    node = root.value.node
    assert node is not None and isinstance(node.op, ScatterOp)
    dtype = root.value.type.dtype
    wide = node.op.wide(dtype)
    memory = None if wide is dtype else Scratch(wide, root.value.type.numel)
    scattering = _Scattering(lowering, root, node.op, wide, memory, node.operands[-1].shape)
    launches = [_whole(scattering, finish=False), _scatter(scattering)]
    return launches if memory is None else [*launches, _whole(scattering, finish=True)]


def _whole(s: _Scattering, finish: bool) -> Launch:
    """The base to where elements meet, or from there to the result."""
    lowering, b = s.lowering, s.lowering.builder()
    expr = lowering.expression(s.root)
    loops = lowering.loops(range(len(lowering.group.domain)), [expr])
    b.use_axes(loops)
    headers, extent = parallel(b, loops, 0, lowering.tuning.flat)
    index = lowering.group.index
    if finish:
        store = b.store(s.root.number, index, scalar.convert(s.load(b, index), s.root.value.type.dtype))
    else:
        store = s.store(b, index, scalar.convert(b.finish(expr), s.wide))
    label = lowering.label(" finish" if finish else " start")
    return b.launch(nest(headers, [store]), extent, lowering.operations, label)


def _scatter(s: _Scattering) -> Launch:
    lowering, b = s.lowering, s.lowering.builder()
    b.extents = {v: n for v, n in zip(canonical_index(len(s.shape)), s.shape) if isinstance(v, LoopVar)}
    apart, meeting = s.loops(s.apart), s.loops([k for k in range(len(s.shape)) if k not in s.apart])
    b.use_axes([*apart, *meeting])
    tasks, lane = _cut(s, apart)
    ranges = Axis((loop_var("range"),), _ranges(s, math.prod(a.extent for a in tasks), meeting, lane))
    b.split(TASK, [*tasks, ranges])
    headers = _headers(s, b, [*tasks, ranges], meeting, lane)
    hit = scalar.convert(_is_own(s, b, ranges), dtypes.int64)
    condition = Header(loop_var("hit"), scalar.const(0), hit, SERIAL)  # a loop of one iteration, or none
    first_lane = len(headers) if lane is None or _differs(s, lane) else len(headers) - 1
    headers.insert(first_lane, condition)
    coming = scalar.convert(b.finish(s.source), s.wide)
    body: list[Stmt] = [s.store(b, s.place, s.op.meet(s.load(b, s.place), coming))]
    extent = math.prod(a.extent for a in (*tasks, ranges))
    looked_at = ranges.extent * math.prod(s.shape)
    return b.launch(nest(headers, body), extent, looked_at, lowering.label())


def _headers(
    s: _Scattering, b: KernelBuilder, tasks: Sequence[Axis], meeting: Sequence[Axis], lane: Axis | None
) -> list[Header]:
    """The loops but for the condition. Lanes are innermost; on a GPU, each goes its own way where places differ."""
    tuning = s.lowering.tuning
    headers = [Header(TASK, scalar.const(0), b.length(tasks), PARALLEL), *counted(b, meeting, "n", SERIAL)]
    if lane is not None:
        lanes = stretch(b, lane, "j", b.finish(loop_var("blocks")), scalar.const(tuning.columns), VECTOR)
        headers.insert(1 if tuning.flat and _differs(s, lane) else len(headers), lanes)
    return headers


def _differs(s: _Scattering, lane: Axis) -> bool:
    """Whether the places that are computed may differ from lane to lane."""
    return any(v in lane.variables for a in _named(s) for v in walk(s.place[a]))


def _cut(s: _Scattering, apart: Sequence[Axis]) -> tuple[list[Axis], Axis | None]:
    """The axes of tasks, and the one that lanes go along, cut into blocks: the last if it is the source's last."""
    if not apart or len(s.shape) - 1 not in s.apart:
        return list(apart), None
    blocks = Axis((loop_var("blocks"),), ceil_div(apart[-1].extent, s.lowering.tuning.columns))
    return [*apart[:-1], blocks], apart[-1]


def _named(s: _Scattering) -> list[int]:
    """The axes of the base whose places are computed."""
    return [a for a, p in enumerate(s.place) if not isinstance(p, LoopVar)]


def _ranges(s: _Scattering, tasks: int, meeting: Sequence[Axis], lane: Axis | None) -> int:
    """Into how many ranges destinations are cut. Looking at an index must pay: on a CPU, by what lanes do for each."""
    named, elements = _named(s), math.prod(a.extent for a in meeting)
    if not named:
        return 1
    tuning, length = s.lowering.tuning, s.root.value.shape[named[0]]
    looks = length if tuning.flat else 1 + (0 if lane is None else lane.extent // _WORTH_A_LOOK)
    return computed(_fewest, tuning.scatter_tasks, tasks, elements // _WORTH_A_RANGE, looks, length)


def _fewest(most: int, tasks: int, *limits: int) -> int:
    return max(1, min(most // max(1, tasks), *limits))


def _is_own(s: _Scattering, b: KernelBuilder, ranges: Axis) -> Expr:
    """Whether the place of the element at hand is inside, and in the task's range of destinations."""
    conditions: list[Expr] = []
    for n, axis in enumerate(_named(s)):
        place, length = b.finish(s.place[axis]), b.slot(("length of base", axis), s.root.value.shape[axis])
        start: Expr = scalar.const(0)
        if n == 0:
            each = b.slot("each range", ceil_div(s.root.value.shape[axis], ranges.extent))
            start = b.finish(ranges.var) * each
            length = scalar.minimum(start + each, length)
        conditions += [place >= start, place < length]
    return scalar.every(conditions)
