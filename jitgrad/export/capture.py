"""One trace of a function for export: its graph, where the graph's inputs come from, and what it writes.

The function runs with stand-ins for its arguments, of the same types but zeros, so that nothing it does to tensors
happens; what it does to Python objects does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import CompileError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.instantiate import concrete
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op
from jitgrad.ir.ops.history import Detach, WithHistory
from jitgrad.ir.passes import EliminateDeadCode, PruneLoops
from jitgrad.ir.types import TensorType

from ..arrays import on_device
from ..compiler.placement import MovedSource
from ..compiler.sources import ArgumentSource, CapturedSource, GradSource, HostSource
from ..compiler.tracer import Tracer
from ..errors import located
from ..mode import local
from ..optim.optimizer import Optimizer
from ..tensor import Tensor, wrap
from .sizes import SizeRecorder, TracedInt, accessors
from .trees import Leaf, Tree, describe

Learned: TypeAlias = "Mapping[int, Sequence[tuple[Any, ...]]]"


@dataclass(frozen=True)
class Role:
    """What a graph input is: an argument, number, random state, gradient, a captured tensor, or a constant.

    Constants are NumPy arrays that the call made tensors of. `key` is the same in every trace of one function.
    """

    kind: str
    key: Any
    tensor: Tensor | None = None
    read: Callable[[], Any] | None = None
    name: str = ""
    location: str | None = None


@dataclass
class Captured:
    """A finished trace.

    `updates` are pairs of an input and the output that is its new value; `slots` are the inputs among the tracer's.
    """

    sizes: Mapping[str, int]
    graph: Graph
    roles: list[Role]
    updates: list[tuple[int, int]]
    result: Tree
    tracer: ExportTracer
    slots: list[int]


class _LocatedArrays(list[Any]):
    """NumPy arrays that became tensors, with the lines that made them so."""

    def __init__(self) -> None:
        super().__init__()
        self.locations: list[str | None] = []

    def append(self, array: Any) -> None:
        """Add an array."""
        super().append(array)
        location = user_location()
        self.locations.append(None if location is None else str(location))


class ExportTracer(Tracer):
    """A tracer whose graph has plain sizes, and that keeps beside it what is known of them as expressions."""

    cuts_in_place = False

    def __init__(
        self, leaves: Sequence[Any], shapes: Sequence[tuple[Any, ...]], recorder: SizeRecorder, learned: Learned
    ) -> None:
        super().__init__(leaves, fullgraph=True)
        self.recorder = recorder
        self.first_values: dict[int, Value] = {}  # of tensors made in the trace, by id
        self.on_optimizer: Callable[[Optimizer], None] = _ignore
        self.symbolic: dict[Value, tuple[Any, ...]] = {}
        self.arrays = _LocatedArrays()
        self.carried: dict[Node, Op] = {}  # ops with tracked numbers among their fields, by node
        self._shapes = {id(t): tuple(map(recorder.symbolic, s)) for t, s in zip(leaves, shapes, strict=True)}
        self.origins: dict[Node, Node] = {}  # of nodes made in cleaning up: what they were when they were emitted
        self._inferred: set[Node] = set()
        self._learned = learned
        self._positions: dict[Node, int] = {}

    def emit(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append a node. Its fields are plain numbers; which of them were tracked is kept."""
        plain = concrete(op)
        results = super().emit(plain, operands)
        if op is not plain and results and results[0].node is not None:
            self.carried[results[0].node] = op
        return results

    def _slot(self, source: Any, type: TensorType) -> Value:
        value = super()._slot(source, type)
        if isinstance(source, ArgumentSource):
            self.symbolic[value] = self._shapes[id(self.leaves[source.index])]
        return value

    def tracked_shape(self, t: Tensor) -> tuple[Any, ...] | None:
        """The shape of a tensor of this trace in tracked numbers; None if it has none."""
        data = t._data
        if data.__class__ is not Value:
            return self._shapes.get(id(t))
        return self.shape_of(data)

    def shape_of(self, value: Value) -> tuple[Any, ...] | None:
        """The same for a value; found by running the rules of the ops behind it on tracked numbers."""
        pending = [value]
        while pending:
            node = pending[-1].node
            if pending[-1] in self.symbolic or node is None or node in self._inferred:
                pending.pop()
                continue
            ahead = [
                v for v in node.operands
                if v.node is not None and v.node not in self._inferred and v not in self.symbolic
            ]  # fmt: skip
            if ahead:
                pending.extend(ahead)
            else:
                self._infer(node)
        return self.symbolic.get(value)

    def position(self, node: Node) -> int | None:
        """Which node of the trace this is, in the order they were emitted in; None for one of a sub-graph."""
        known = self._positions
        for k in range(len(known), len(self.builder.nodes)):
            known[self.builder.nodes[k]] = k
        return known.get(self.origins.get(node, node))

    def _infer(self, node: Node) -> None:
        self._inferred.add(node)
        place = self.position(node)
        for v, shape in zip(node.results, () if place is None else self._learned.get(place, ())):
            self.symbolic[v] = tuple(map(self.recorder.symbolic, shape))
        if not self.symbolic.keys().isdisjoint(node.results):
            return
        op = self.carried.get(node, node.op)
        if op is node.op and self.symbolic.keys().isdisjoint(node.operands):
            return
        types = [v.type.with_shape(self.symbolic.get(v, v.type.shape)) for v in node.operands]
        try:
            inferred = op.infer(*types)
        except Exception:
            return  # rules may ask for plain numbers
        for v, type in zip(node.results, inferred, strict=True):
            if type.shape == v.type.shape and any(isinstance(n, TracedInt) for n in type.shape):
                self.symbolic[v] = tuple(map(self.recorder.symbolic, type.shape))

    def inherit(self, made: Node, node: Node) -> None:
        """`made` stands in the place of `node`."""
        self.origins[made] = node
        if node in self.carried:
            self.carried[made] = self.carried[node]
        for new, old in zip(made.results, node.results, strict=True):
            shape = self.shape_of(old)
            if shape is not None:
                self.symbolic[new] = shape

    def note(self, tensors: Sequence[Tensor]) -> None:
        """These tensors hold values of this trace."""
        super().note(tensors)
        for t in tensors:
            self.first_values[id(t)] = t._data

    def touch(self, thing: Any) -> None:
        """Depend on a module or optimizer."""
        super().touch(thing)
        if isinstance(thing, Optimizer):
            self.on_optimizer(thing)

    def materialise(self, reason: str) -> None:
        """A program can't wait for a number."""
        raise self.broken_off(reason, (), None)

    def broken_off(self, reason: str, values: Sequence[Value], location: Any) -> CompileError:
        """What to raise where a value is needed."""
        local.mode.tracer = None
        reason = "the value of a tensor was read" if values else reason
        return located(CompileError(f"export: {reason}; a program can't leave its graph for that"))


def _ignore(optimizer: Optimizer) -> None:
    """Does nothing."""


def capture(
    call: Callable[[dict[int, Tensor]], Any], examples: Sequence[Tensor], types: Sequence[TensorType],
    recorder: SizeRecorder, on_optimizer: Callable[[Optimizer], None], learned: Learned,
) -> Captured:  # fmt: skip
    """Trace `call`, which takes stand-ins of `types`, symbolic at the sizes of `recorder`, for `examples`.

    `learned` are shapes of results that earlier traces have taught, by the position of the node.
    """
    sizes = recorder.sizes
    stand_ins = [_stand_in(t, concrete(type)) for t, type in zip(examples, types, strict=True)]
    tracer = ExportTracer(stand_ins, [type.shape for type in types], recorder, learned)
    tracer.on_optimizer = on_optimizer
    mode = local.mode
    with accessors.installed() if sizes else nullcontext():
        mode.tracer = tracer
        try:
            result = call(dict(enumerate(stand_ins)))
            return _finish(tracer, result, sizes)
        finally:
            mode.tracer = None


def _stand_in(example: Tensor, type: TensorType) -> Tensor:
    t = wrap(on_device(np.zeros(type.shape, type.dtype.np), example.device))
    t._requires_grad = example._requires_grad
    return t


def _finish(tracer: ExportTracer, result: Any, sizes: Mapping[str, int]) -> Captured:
    outputs: dict[Value, int] = {}
    tree = describe(result, lambda t: Leaf(outputs.setdefault(tracer.value(t), len(outputs))), "the result")
    writes = [s for s in tracer.outside.values() if s.written and s.slot is not None]
    for s in writes:
        if isinstance(tracer.sources[s.slot], ArgumentSource):  # type: ignore[index]
            raise located(
                CompileError("export: the function writes to one of its arguments in place; clone() it first")
            )
    values = list(outputs)
    updates = []
    for s in writes:
        updates.append((s.slot, len(values)))
        values.append(s.value)
    for slot, value in _gradients(tracer):
        updates.append((slot, len(values)))
        values.append(value)
    for slot, value in _random_offsets(tracer):
        updates.append((slot, len(values)))
        values.append(value)
    graph = _clean(Graph(tracer.builder.inputs, tracer.builder.nodes, values), tracer)
    roles = [_role(tracer, i) for i in range(len(tracer.sources))]
    return _without_unused(Captured(sizes, graph, roles, updates, tree, tracer, list(range(len(roles)))))


def _gradients(tracer: ExportTracer) -> list[tuple[int, Value]]:
    """The inputs that are gradients from before the call, with their values after it."""
    slots = {id(s.of.tensor(tracer.leaves)): i for i, s in enumerate(tracer.sources) if isinstance(s, GradSource)}
    found = []
    for t, grad in tracer.grads.values():
        if id(t) in slots and grad is not None:
            found.append((slots[id(t)], tracer.value(grad)))
    return found


def _random_offsets(tracer: ExportTracer) -> list[tuple[int, Value]]:
    """The inputs that are offsets of generators, with their values after the call."""
    found = []
    position = {v: i for i, v in enumerate(tracer.builder.inputs)}
    for key, (_, used, (_, offset)) in tracer.draws.items():
        end = tracer.add(offset, tracer.value(tracer.full(TensorType((), dtypes.int64), used)))
        more = tracer.varying.get(key)
        found.append((position[offset], end if more is None else tracer.add(end, tracer.value(more))))
    return found


def _role(tracer: ExportTracer, slot: int) -> Role:
    source = tracer.sources[slot]
    if isinstance(source, MovedSource):
        source = source.of
    if isinstance(source, ArgumentSource):
        return Role("argument", source.index)
    if isinstance(source, CapturedSource):
        for k, array in enumerate(tracer.arrays):
            if source.captured._data is array:
                return Role("constant", k, source.captured, location=tracer.arrays.locations[k])
        return Role("captured", id(source.captured), source.captured)
    if isinstance(source, GradSource):
        of = source.of.tensor(tracer.leaves)
        return Role("gradient", id(of), of)
    assert isinstance(source, HostSource)
    for generator, _, (seed, offset) in tracer.draws.values():
        for part, value in (("seed", seed), ("offset", offset)):
            if tracer.builder.inputs[slot] is value:
                return Role("random", (id(generator), part), read=source.read, name=part)
    return Role("number", (source.name, slot), read=source.read, name=source.name)


def _clean(graph: Graph, tracer: ExportTracer) -> Graph:
    """Without dead nodes, and without those that only gradients, which have been taken, look at."""
    known: dict[Value, Value] = {}
    nodes = []
    for node in graph.nodes:
        operands = [known.get(v, v) for v in node.operands]
        if isinstance(node.op, (Detach, WithHistory)):
            known[node.result] = operands[0]
            continue
        if operands == list(node.operands):
            nodes.append(node)
            continue
        made = Node(node.op, operands, [r.type for r in node.results], node.location, node.scope)
        tracer.inherit(made, node)
        known.update(zip(node.results, made.results, strict=True))
        nodes.append(made)
    return EliminateDeadCode().apply(Graph(graph.inputs, nodes, [known.get(v, v) for v in graph.outputs]))


def _pruned(graph: Graph, tracer: ExportTracer) -> Graph:
    """Without dead nodes, and without what loops leave for gradients that are not taken."""
    graph = EliminateDeadCode().apply(graph)
    pruned = PruneLoops().apply(graph)
    for made, node in zip(pruned.nodes, graph.nodes, strict=True):
        if made is not node and len(made.results) == len(node.results):
            tracer.inherit(made, node)
    return EliminateDeadCode().apply(pruned)


def _without_unused(c: Captured) -> Captured:
    """Without captured inputs that nothing uses but their own unchanged value."""
    graph = c.graph
    used = {v for node in graph.nodes for v in node.operands}
    results = set(graph.outputs[: len(graph.outputs) - len(c.updates)])
    keep = [
        i for i, v in enumerate(graph.inputs)
        if c.roles[i].kind == "argument" or v in used or v in results
        or any(slot == i and graph.outputs[out] is not v for slot, out in c.updates)
    ]  # fmt: skip
    new = {old: i for i, old in enumerate(keep)}
    dropped = [out for slot, out in c.updates if slot not in new]
    outputs = [v for k, v in enumerate(graph.outputs) if k not in dropped]
    place = {k: i for i, k in enumerate(k for k in range(len(graph.outputs)) if k not in dropped)}
    c.graph = _pruned(Graph([graph.inputs[i] for i in keep], graph.nodes, outputs), c.tracer)
    c.updates = [(new[slot], place[out]) for slot, out in c.updates if slot in new]
    c.roles = [c.roles[i] for i in keep]
    c.slots = keep
    return c
