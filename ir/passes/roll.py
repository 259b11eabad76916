"""Loops that Python has unrolled become scans: a thousand equal steps in a row are compiled as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ..builder import Builder
from ..control import Scan
from ..dtypes import bool_
from ..graph import Graph, Node, Value
from ..op import View
from ..ops.arithmetic import Add
from ..ops.broadcast import BroadcastTo
from ..ops.creation import Constant, Full, Literal
from ..ops.shape import Flip, Permute, Reshape, moved_axis_permutation
from ..ops.slicing import Concat, Slice
from ..ops.write import WriteView
from ..types import TensorType
from .base import Pass
from .dce import EliminateDeadCode
from .repeats import Repeat, find_repeats

_LEAST_NODES: Final = 256
_TRIES: Final = 12
_FIRST: Final = 4


@dataclass(frozen=True)
class RollLoops(Pass):
    """Replaces `least_turns` or more stretches of nodes that are equal, and wired alike, by a scan.

    In each turn an operand is a value of that turn, the same value of the turn before, the same value for all, or the
    next slice of one. Short loops stay: their steps can be fused with each other. So does a graph of which not half is
    saved, because most values of single turns are needed.
    """

    least_turns: int = 16
    name = "roll_loops"

    def apply(self, graph: Graph) -> Graph:
        """One loop after another, the longest first."""
        if len(graph.nodes) < _LEAST_NODES:
            return graph
        before = graph
        while (rolled := self._roll_one(graph)) is not None:
            graph = EliminateDeadCode().apply(_joined(rolled))
        return graph if 2 * len(graph.nodes) <= len(before.nodes) else before

    def _roll_one(self, graph: Graph) -> Graph | None:
        users = _users(graph)
        for found in find_repeats(graph.nodes, self.least_turns)[:_TRIES]:
            for skipped in (0, 1, 2):
                turns = found.turns - skipped
                if turns < self.least_turns:
                    break
                repeat = Repeat(found.start + skipped * found.period, found.period, turns)
                try:
                    _Roller(graph, users, repeat._replace(turns=_FIRST)).wire()  # says at little cost what won't do
                    return _Roller(graph, users, repeat).run()
                except _Irregular:
                    continue
        return None


def _users(graph: Graph) -> dict[Value, list[int]]:
    found: dict[Value, list[int]] = defaultdict(list)
    for at, node in enumerate(graph.nodes):
        for v in node.operands:
            found[v].append(at)
    return found


class _Irregular(Exception):
    """The turns are not wired alike."""


class _Steps(NamedTuple):
    """Slices of length 1 of one value along `axis`: the first at `start`, each `step` further than the one before."""

    source: Value
    axis: int
    start: int
    step: int


class _Sum(NamedTuple):
    """A value that gets something written into zeros added in each turn, elsewhere each time."""

    begin: Value
    part: Value  # what the first turn writes
    at: _Steps
    result: Value


def _affine(starts: Sequence[int]) -> int:
    """The step of an arithmetic progression."""
    step = starts[1] - starts[0]
    if step == 0 or any(b - a != step for a, b in pairwise(starts)):
        raise _Irregular
    return step


def _moving(source: Value, slices: Sequence[Slice]) -> _Steps:
    """The slices of all turns as steps along one axis."""
    first = slices[0]
    moving = [a for a in range(len(first.sizes)) if any(s.starts[a] != first.starts[a] for s in slices)]
    if len(moving) != 1 or first.sizes[moving[0]] != 1:
        raise _Irregular
    (axis,) = moving
    whole = [a for a in range(len(first.sizes)) if a != axis]
    if any(first.starts[a] or first.sizes[a] != source.shape[a] or first.steps[a] != 1 for a in whole):
        raise _Irregular
    return _Steps(source, axis, first.starts[axis], _affine([s.starts[axis] for s in slices]))


@dataclass
class _Roller:
    """One repeat of a graph on its way to a scan."""

    graph: Graph
    users: dict[Value, list[int]]  # the positions of the nodes that use a value
    repeat: Repeat
    carries: dict[Value, tuple[Value, Value]] = field(default_factory=dict)  # first turn's result: begin, input
    sequences: dict[_Steps, Value] = field(default_factory=dict)
    numbers: dict[tuple[int | float | bool, ...], tuple[Value, Constant]] = field(default_factory=dict)
    whole: dict[Value, Value] = field(default_factory=dict)
    sums: dict[Value, _Sum] = field(default_factory=dict)  # by the first turn's result
    env: dict[Value, Value] = field(default_factory=dict)  # first turn's results in the body

    def __post_init__(self) -> None:
        start, period, turns = self.repeat
        self.nodes = self.graph.nodes
        self.turns = [self.nodes[start + k * period : start + (k + 1) * period] for k in range(turns)]
        self.stop = start + period * turns
        self.place = {
            r: (k, j, i)
            for k, turn in enumerate(self.turns)
            for j, n in enumerate(turn)
            for i, r in enumerate(n.results)
        }
        self.kept = set(self.graph.outputs)
        self.body = Builder()

    def run(self) -> Graph:
        """The graph with a scan in the place of the repeat."""
        self.wire()
        return _Emission(self).graph()

    def wire(self) -> None:
        """Make the body, and find what it is handed."""
        if any(node.op.effect for node in self.turns[0]) or all(isinstance(n.op, View) for n in self.turns[0]):
            raise _Irregular  # views alone are what rolling leaves of values that are needed one by one
        left_out = self._find_sums()
        for j, node in enumerate(self.turns[0]):
            if j not in left_out:
                self.body.location, self.body.scope = node.location, node.scope
                results = self._node(j, node)
                self.env.update(zip(node.results, results, strict=True))

    # one node of the body -----------------------------------------------------------------------------------

    def _node(self, j: int, node: Node) -> Sequence[Value]:
        ops = [turn[j].op for turn in self.turns]
        if all(op is node.op for op in ops):
            return self.body.emit(node.op, *(self._operand(j, m) for m in range(len(node.operands))))
        if isinstance(node.op, Slice):
            source = self._same([turn[j].operands[0] for turn in self.turns])
            return (self._slice(_moving(source, ops), node.result.type),)  # type: ignore[arg-type]
        if isinstance(node.op, Full):
            return (self._number([op.value for op in ops], node.result.type),)  # type: ignore[attr-defined]
        raise _Irregular

    def _same(self, values: Iterable[Value]) -> Value:
        first, *rest = values
        if first in self.place or any(v is not first for v in rest):
            raise _Irregular
        return first

    def _operand(self, j: int, m: int) -> Value:
        values = [turn[j].operands[m] for turn in self.turns]
        first, second = values[0], values[1]
        if second in self.place:
            k, at, i = self.place[second]
            behind = 1 - k
            expected = [turn[at].results[i] for turn in self.turns]
            if behind == 0 and at < j and values == expected:
                return self._inner(first)
            if behind == 1 and first not in self.place and values[1:] == expected[:-1]:
                return self._carry(expected[0], first)
            raise _Irregular
        if all(v is first for v in values):
            return self.whole.setdefault(first, Value(first.type))
        return self._outside(values)

    def _inner(self, first: Value) -> Value:
        if first not in self.env:
            raise _Irregular
        return self.env[first]

    def _carry(self, result: Value, begin: Value) -> Value:
        known = self.carries.get(result)
        if known is None:
            known = self.carries[result] = begin, Value(begin.type)
        if known[0] is not begin or begin.type != result.type:
            raise _Irregular
        return known[1]

    def _outside(self, values: Sequence[Value]) -> Value:
        """A value made elsewhere for each turn: slices of one value, seen in another shape or not."""
        makers = []
        for v in values:
            node = v.node
            while node is not None and isinstance(node.op, Reshape):
                node = node.operands[0].node
            if node is None or not isinstance(node.op, Slice):
                raise _Irregular
            makers.append(node)
        source = self._same([n.operands[0] for n in makers])
        return self._slice(_moving(source, [n.op for n in makers]), values[0].type)  # type: ignore[misc]

    def _slice(self, steps: _Steps, type: TensorType) -> Value:
        shape = tuple(n for a, n in enumerate(steps.source.shape) if a != steps.axis)
        stand_in = self.sequences.setdefault(steps, Value(steps.source.type.with_shape(shape)))
        return stand_in if type.shape == shape else self.body(Reshape(type.shape), stand_in)

    def _number(self, values: list[int | float | bool], type: TensorType) -> Value:
        """A number that is another one in each turn."""
        found = self.numbers.get(tuple(values))
        if found is None or found[0].type.dtype is not type.dtype:
            literal = Constant(Literal(np.array(values, type.dtype.np)))
            found = self.numbers[tuple(values)] = Value(type.with_shape(())), literal
        if not type.shape:
            return found[0]
        ones = self.body(Reshape((1,) * type.ndim), found[0])
        return self.body(BroadcastTo(type.shape), ones)

    # sums of writes -----------------------------------------------------------------------------------------

    def _find_sums(self) -> set[int]:
        """Positions of nodes that write into zeros and add that to what was so far: they are done behind the loop."""
        left_out: set[int] = set()
        for j, node in enumerate(self.turns[0]):
            ops = [turn[j].op for turn in self.turns]
            if isinstance(node.op, WriteView) and any(op is not node.op for op in ops):
                left_out |= {j, self._sum(j)}
        return left_out

    def _sum(self, j: int) -> int:
        """The position of the addition that takes what node `j` writes."""
        node = self.turns[0][j]
        zeros, part = node.operands
        users = self.users[node.result]
        if zeros.node is None or not isinstance(zeros.node.op, Full) or zeros.node.op.value != 0 or len(users) != 1:
            raise _Irregular
        added = users[0] - self.repeat.start
        if not j < added < self.repeat.period or not isinstance(self.turns[0][added].op, Add):
            raise _Irregular
        slices = [turn[j].op.views[0] for turn in self.turns]  # type: ignore[attr-defined]
        begin = self._begin(j, added)
        last = self.turns[-1][added].result
        inside = [t[added].result for t in self.turns[:-1]]
        if any(self.users[v] != [self._at(k + 1, added)] or v in self.kept for k, v in enumerate(inside)):
            raise _Irregular
        at = _moving(node.result, slices)
        self.sums[self.turns[0][added].result] = _Sum(begin, part, at, last)
        return added

    def _begin(self, j: int, added: int) -> Value:
        """What is added to in the first turn, after a check that later turns add to what the one before gave."""
        others = [v for v in self.turns[0][added].operands if v is not self.turns[0][j].result]
        for before, turn in pairwise(self.turns):
            if set(turn[added].operands) != {turn[j].result, before[added].result}:
                raise _Irregular
        if len(others) != 1 or others[0] in self.place:
            raise _Irregular
        return others[0]

    def _at(self, k: int, j: int) -> int:
        return self.repeat.start + k * self.repeat.period + j


class _Emission:
    """The scan, what it is handed, and what becomes of its results."""

    def __init__(self, roller: _Roller) -> None:
        self.r = roller
        self.count = len(roller.turns)
        steps = [s.step for s in (*roller.sequences, *(x.at for x in roller.sums.values()))]
        self.reverse = bool(steps) and all(step < 0 for step in steps)
        self.b = Builder()
        first = roller.turns[0][0]
        self.b.location, self.b.scope = first.location, first.scope
        self.env: dict[Value, Value] = {}  # results of the repeat, and what stands for them

    def graph(self) -> Graph:
        """The whole graph."""
        r, b = self.r, self.b
        used = self._used_outside()
        stacked = [v for v, turns in used.items() if turns != [self.count - 1]]
        last = [v for v, turns in used.items() if turns == [self.count - 1] and v not in r.carries]
        stacked += [v for v in dict.fromkeys(x.part for x in r.sums.values()) if v not in stacked]
        sequences = [self._sequence(s) for s in r.sequences]
        sequences += [self._turned(b(literal)) for _, literal in r.numbers.values()]
        slices = [*r.sequences.values(), *(v for v, _ in r.numbers.values())]
        if not sequences:
            sequences, slices = [b(Full((self.count,), bool_, False))], [Value(TensorType((), bool_))]
        begins = [begin for begin, _ in r.carries.values()]
        begins += [b(Full(v.type.shape, v.type.dtype, 0, v.type.device)) for v in last]
        inputs = [*(v for _, v in r.carries.values()), *(Value(v.type) for v in last), *slices, *r.whole.values()]
        ends = [self._inner(v) for v in (*r.carries, *last)]
        body = Graph(inputs, r.body.nodes, [*ends, *(self._inner(v) for v in stacked)])
        results = b.emit(Scan(body, len(begins), len(sequences), self.reverse), *begins, *sequences, *r.whole)
        ended = dict(zip((*r.carries, *last), results, strict=False))
        stacks = dict(zip(stacked, results[len(begins) :], strict=True))
        for v, turns in used.items():
            self._give(v, turns, ended, stacks)
        for found in r.sums.values():
            self.env[found.result] = self._sum(found, stacks[found.part])
        return self._assembled()

    def _inner(self, v: Value) -> Value:
        found = self.r.env.get(v)
        if found is None:
            raise _Irregular
        return found

    def _used_outside(self) -> dict[Value, list[int]]:
        """By result of the first turn: the turns of which something else needs it."""
        r = self.r
        sums = {x.result for x in r.sums.values()}
        found: dict[Value, list[int]] = {}
        for v, (k, j, i) in r.place.items():
            outside = v in r.kept or any(at >= r.stop for at in r.users[v])
            if outside and v not in sums:
                found.setdefault(r.turns[0][j].results[i], []).append(k)
        return {v: sorted(turns) for v, turns in found.items()}

    def _give(self, v: Value, turns: list[int], ended: dict[Value, Value], stacks: dict[Value, Value]) -> None:
        """Stand-ins for the results of single turns."""
        _, j, i = self.r.place[v]
        for k in turns:
            own = self.r.turns[k][j].results[i]
            if k == self.count - 1 and v in ended:
                self.env[own] = ended[v]
                continue
            stack = stacks[v]
            place = self.count - 1 - k if self.reverse else k
            rest = (0,) * v.ndim
            part = self.b(Slice((place, *rest), (1, *v.shape), (1,) * stack.ndim), stack)
            self.env[own] = self.b(Reshape(v.shape), part)

    def _sequence(self, s: _Steps) -> Value:
        """The slices of all turns, stacked."""
        b, x = self.b, s.source
        low = min(s.start, s.start + s.step * (self.count - 1))
        if abs(s.step) != 1 or low != 0 or x.shape[s.axis] != self.count:
            place = (s.axis, low, self.count, abs(s.step))
            x = b(_stretch(x.shape, *place), x)
        if s.axis:
            x = b(Permute(moved_axis_permutation(x.ndim, s.axis, 0)), x)
        return x if (s.step < 0) == self.reverse else b(Flip((0,)), x)

    def _turned(self, x: Value) -> Value:
        """What is in the order of turns, in the order of slices."""
        return self.b(Flip((0,)), x) if self.reverse else x

    def _sum(self, found: _Sum, stack: Value) -> Value:
        """What all turns have written, added to what was there before."""
        b, at = self.b, found.at
        if (at.step < 0) != self.reverse:
            stack = b(Flip((0,)), stack)
        rest = tuple(n for a, n in enumerate(at.source.shape) if a != at.axis)
        parts = b(Reshape((self.count, *rest)), stack)
        if at.axis:
            parts = b(Permute(moved_axis_permutation(parts.ndim, 0, at.axis)), parts)
        low = min(at.start, at.start + at.step * (self.count - 1))
        t = at.source.type
        zeros = b(Full(t.shape, t.dtype, 0, t.device))
        view = _stretch(t.shape, at.axis, low, self.count, abs(at.step))
        return b(Add(), found.begin, b(WriteView((view,)), zeros, parts))

    def _assembled(self) -> Graph:
        """What comes before, the scan with what belongs to it, and what comes after."""
        r = self.r
        nodes = [*r.nodes[: r.repeat.start], *self.b.nodes]
        after = Builder()
        for node in r.nodes[r.stop :]:
            if self.env.keys().isdisjoint(node.operands):
                after.nodes.append(node)
            else:
                after.copy(node, self.env)
        return Graph(r.graph.inputs, [*nodes, *after.nodes], [self.env.get(v, v) for v in r.graph.outputs])


def _stretch(shape: Sequence[int], axis: int, start: int, count: int, step: int) -> Slice:
    """`count` places from `start` on along one axis."""
    return Slice(
        tuple(start if a == axis else 0 for a in range(len(shape))),
        tuple(count if a == axis else n for a, n in enumerate(shape)),
        tuple(step if a == axis else 1 for a in range(len(shape))),
    )


def _joined(graph: Graph) -> Graph:
    """`graph` in which a concatenation of neighbouring slices of one value is that value again."""
    env: dict[Value, Value] = {}
    b = Builder()
    for node in graph.nodes:
        found = _rejoined(b, node) if isinstance(node.op, Concat) and len(node.operands) > 1 else None
        if found is not None:
            env[node.result] = env.get(found, found)
        elif env.keys().isdisjoint(node.operands):
            b.nodes.append(node)
        else:
            b.copy(node, env)
    return Graph(graph.inputs, b.nodes, [env.get(v, v) for v in graph.outputs]) if env else graph


def _rejoined(b: Builder, node: Node) -> Value | None:
    axis, pieces = node.op.axis, []  # type: ignore[attr-defined]
    for v in node.operands:
        maker = v.node
        while maker is not None and isinstance(maker.op, Reshape):
            maker = maker.operands[0].node
        if v.shape[axis] != 1 or maker is None or not isinstance(maker.op, Slice):
            return None
        pieces.append(maker)
    source = pieces[0].operands[0]
    if any(p.operands[0] is not source for p in pieces):
        return None
    try:
        steps = _moving(source, [p.op for p in pieces])  # type: ignore[misc]
    except _Irregular:
        return None
    rest = tuple(n for a, n in enumerate(node.result.shape) if a != axis)
    if steps.step != 1 or rest != tuple(n for a, n in enumerate(source.shape) if a != steps.axis):
        return None
    b.location, b.scope = node.location, node.scope
    x = source
    if len(pieces) != source.shape[steps.axis]:
        x = b(_stretch(x.shape, steps.axis, steps.start, len(pieces), 1), x)
    return x if axis == steps.axis else b(Permute(moved_axis_permutation(x.ndim, steps.axis, axis)), x)
