"""From a finished trace to something that replays it.

A specialisation holds the executable, where its inputs come from, and what to do with its results: hand them out,
write them back into tensors from outside, set gradients, and put the outputs on the tape as one node whose
gradient is compiled too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitgrad.ir.autodiff import free_values, pullback
from jitgrad.ir.builder import Builder
from jitgrad.ir.call import Call
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.op import View
from jitgrad.ir.ops.arithmetic import Neg
from jitgrad.ir.ops.creation import Full, Iota
from jitgrad.ir.types import TensorType

from .. import pytree
from ..aliasing import alias, storage_of, views
from ..backend import Observer, compile_graph, load
from ..dispatch import edge
from ..mode import local
from ..tape import Storage, TapeNode, residual_mask
from ..tensor import Tensor, wrap
from .materialise import tape_nodes
from .sources import ArgumentSource, CapturedSource, Source
from .surroundings import Surroundings
from .tracer import Tracer

# How to make a result tensor again: ("value", output, requires grad, graph freed), ("source", s), or
# ("view", origin's recipe, ops), or ("alias", base's recipe, output of its history, graph freed, ops).
Recipe = tuple[Any, ...]
_FREED = Neg()  # any op will do: a node without saved data only says that its gradient was taken


@dataclass(eq=False)
class Specialisation:
    """One captured path of a function, replayed without Python."""

    graph: Graph
    executable: Any
    sources: tuple[Source, ...]
    writes: tuple[tuple[int, int, bool], ...]  # (output, source, already in place)
    outputs: tuple[Recipe, ...]
    structure: Any
    grads: tuple[tuple[Source, Recipe | None], ...]
    draws: tuple[tuple[Any, int], ...]
    call: CallPlan | None
    types: tuple[TensorType, ...]
    grad_guards: tuple[tuple[Tensor, bool], ...]
    touched: tuple[tuple[Any, int], ...]
    surroundings: Surroundings
    trace_ms: float = 0.0
    compile_ms: float = 0.0
    runs: int = 0
    rebinding: int = -1
    requires_grad: tuple[bool, ...] = field(default=())
    captured: dict[int, Tensor] = field(default_factory=dict)  # tensors reached otherwise than as arguments
    written: tuple[Tensor, ...] = ()  # those of them that are written
    writes_arguments: bool = False


@dataclass(frozen=True, eq=False)
class CallPlan:
    """The tape node a call leaves: operands are sources, results are executable outputs `results`."""

    op: Call
    operands: tuple[int, ...]
    results: tuple[int, ...]
    position: dict[int, int]


class Escapes(Exception):
    """A trace whose tensors outlive it in ways a replay cannot repeat."""


def specialise(tracer: Tracer, result: Any, name: str, observer: Observer | None, trace_ms: float) -> Specialisation:
    """Compile what `tracer` captured. `result` is what the function returned."""
    leaves, structure = pytree.flatten(result)
    recipes = _Recipes(tracer)
    outputs = tuple([recipes.of(x) if isinstance(x, Tensor) else ("python", x) for x in leaves])
    grads = tuple([(_grad_source(tracer, t), None if g is None else recipes.of(g)) for t, g in tracer.grads.values()])
    written = [s for s in tracer.outside.values() if s.written and s.slot is not None]
    writes = [(recipes.output(s.value), s.slot, s.tensor._data.flags.c_contiguous) for s in written]
    call = _call_plan(tracer, recipes)
    graph = Graph(tracer.builder.inputs, tracer.builder.nodes, list(recipes.values))
    aliases = {out: slot for out, slot, contiguous in writes if contiguous}
    if observer is not None:
        observer("traced", graph)
    load()
    start = time.perf_counter()
    executable = compile_graph(graph, name=name, aliases=aliases, observer=observer)
    return Specialisation(
        graph=graph, executable=executable, sources=tuple(tracer.sources), writes=tuple(writes), outputs=outputs,
        structure=structure, grads=grads, draws=tuple((g, n) for g, n, _ in tracer.draws.values()), call=call,
        types=tuple(v.type for v in tracer.builder.inputs), grad_guards=tuple(tracer.grad_guards),
        touched=tuple(tracer.touched.values()), surroundings=tracer.surroundings, trace_ms=trace_ms,
        compile_ms=(time.perf_counter() - start) * 1e3,
        captured={id(s.captured): s.captured for s in tracer.sources if isinstance(s, CapturedSource)},
        written=tuple(s.tensor for s in written if isinstance(tracer.sources[s.slot], CapturedSource)),
        writes_arguments=any(isinstance(tracer.sources[s.slot], ArgumentSource) for s in written),
    )  # fmt: skip


def _grad_source(tracer: Tracer, t: Tensor) -> Any:
    return tracer._tensor_source(t)


class _Recipes:
    """Collects the graph's outputs while saying how each result tensor is made from them."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.values: dict[Value, int] = {}
        self.tensors: dict[int, Tensor] = {}
        self._made: dict[int, Recipe] = {}

    def output(self, value: Value) -> int:
        """The output index of a value."""
        return self.values.setdefault(value, len(self.values))

    def of(self, t: Tensor) -> Recipe:
        """The recipe of a tensor; the same tensor twice gives the same recipe object."""
        found = self._made.get(id(t))
        if found is None:
            found = self._made[id(t)] = self._make(t)
            self.tensors[id(t)] = t
        return found

    def _make(self, t: Tensor) -> Recipe:
        if t._data.__class__ is not Value:
            self.tracer.state(t)
            return ("source", self._source_index(t))
        info = t._view
        freed = t._node is not None and is_freed(t._node)
        if info is None:
            return ("value", self.output(t._data), t._requires_grad, freed)
        if info.origin is not None:
            return ("view", self.of(info.origin), info.origin_ops)
        own = self.output(t._data) if t._node is not None else None
        return ("alias", self.of(info.base), own, freed, info.ops)

    def _source_index(self, t: Tensor) -> int:
        slot = self.tracer.outside[id(t)].slot
        if slot is None:  # a captured view: fetch the tensor itself
            raise Escapes("a view captured from outside is returned")
        return slot


def _call_plan(tracer: Tracer, recipes: _Recipes) -> CallPlan | None:
    """The forward call as one differentiable op, if any result requires gradients."""
    results = [v for v, t in _differentiable(recipes)]
    if not results or not local.mode.grad:
        return None
    tape = tape_nodes([t._node for _, t in _differentiable(recipes) if t._node is not None])
    if any(node.__class__ is not TapeNode or node.hooks is not None for node in tape):
        raise Escapes("gradients of its results pass through a hook or a custom Function")
    nodes = tracer.builder.nodes
    inputs = tracer.builder.inputs
    wrt = [
        inputs[s.slot] for s in tracer.outside.values() if s.slot is not None and s.tensor._requires_grad
    ]  # fmt: skip
    if not wrt:
        return None
    extra = [v for v in _residual_values(nodes, wrt, results) if v not in results]
    call_graph = Graph(inputs, nodes, [*results, *extra])
    indices = tuple(recipes.output(v) for v in (*results, *extra))
    position = {out: k for k, out in enumerate(indices[: len(results)])}
    return CallPlan(Call(call_graph), tuple(range(len(inputs))), indices, position)


def is_freed(node: TapeNode) -> bool:
    """Whether the gradient through `node` has been taken, so that what it saved is gone."""
    return any(n.saved is None for n in tape_nodes([node]))


def _differentiable(recipes: _Recipes) -> list[tuple[Value, Tensor]]:
    found = {}
    for key, recipe in recipes._made.items():
        t = recipes.tensors[key]
        if recipe[0] in ("value", "alias") and t._requires_grad and t._node is not None and not recipe[3]:
            found.setdefault(t._data, t)
    return list(found.items())


def _residual_values(nodes: Sequence[Any], wrt: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    """Values the gradient of `results` needs, less those cheaply made again from others (views, constants)."""
    b = Builder()
    seeds = {v: b.input(v.type) for v in results}
    grads = pullback(b, nodes, wrt, seeds)
    needed = free_values(b.build([g for g in grads if g is not None]))
    kept: dict[Value, None] = {}
    stack = list(reversed(needed))
    seen = set()
    while stack:
        v = stack.pop()
        if v in seen or v.node is None:
            continue
        seen.add(v)
        if isinstance(v.node.op, (View, Full, Iota)):
            stack.extend(v.node.operands)
        else:
            kept[v] = None
    return list(kept)


def replay(spec: Specialisation, leaves: Sequence[Any]) -> Any:
    """One call: fetch, run, write back, hand out."""
    arrays = [source.fetch(leaves) for source in spec.sources]
    outs = spec.executable(arrays)
    spec.runs += 1
    for out, slot, in_place in spec.writes:
        tensor = spec.sources[slot].tensor(leaves)  # type: ignore[union-attr]
        if not in_place:
            np.copyto(arrays[slot], outs[out])
        storage_of(tensor)._version += 1
    for generator, draws in spec.draws:
        generator.offset += draws
    made: dict[int, Tensor] = {}
    node = _tape_node(spec, leaves, arrays, outs) if spec.call is not None else None
    results = [x[1] if x[0] == "python" else _make(spec, x, leaves, outs, node, made) for x in spec.outputs]
    for source, recipe in spec.grads:
        leaf = source.tensor(leaves)  # type: ignore[union-attr]
        leaf._grad = None if recipe is None else _make(spec, recipe, leaves, outs, None, made)
    return results[0] if spec.structure == pytree.LEAF else pytree.unflatten(spec.structure, results)


def _make(
    spec: Specialisation,
    recipe: Recipe,
    leaves: Sequence[Any],
    outs: Sequence[Any],
    node: Any,
    made: dict[int, Tensor],
) -> Tensor:
    found = made.get(id(recipe))
    if found is not None:
        return found
    kind = recipe[0]
    if kind == "source":
        t: Tensor = spec.sources[recipe[1]].tensor(leaves)  # type: ignore[union-attr]
    elif kind == "view":
        t = views(recipe[2], _make(spec, recipe[1], leaves, outs, node, made))
    elif kind == "alias":
        t = alias(views(recipe[4], alias(_make(spec, recipe[1], leaves, outs, node, made))))
        if recipe[2] is not None:
            _give_history(t, spec, recipe[2], node, recipe[3])
    else:
        t = wrap(outs[recipe[1]])
        _give_history(t, spec, recipe[1] if recipe[2] else None, node, recipe[3])
    made[id(recipe)] = t
    return t


def _give_history(t: Tensor, spec: Specialisation, out: int | None, node: Any, freed: bool) -> None:
    """Put `t`, made from an output, on the tape as a result of the call's node."""
    at = None if node is None or out is None or spec.call is None else spec.call.position.get(out)
    if at is not None:
        t._node, t._index, t._requires_grad = node, at, True
    elif freed:
        t._node, t._requires_grad = TapeNode(_FREED, (), None, None, None, ()), True


def _tape_node(
    spec: Specialisation, leaves: Sequence[Any], arrays: Sequence[Any], outs: Sequence[Any]
) -> TapeNode | None:
    call = spec.call
    assert call is not None
    tensors = [s.tensor(leaves) if hasattr(s, "tensor") else None for s in spec.sources]
    needs = tuple([t is not None and t._requires_grad and t.dtype.is_differentiable for t in tensors])
    if not any(needs):
        return None
    keep, keep_results = residual_mask(call.op, spec.types, needs)
    edges = tuple([edge(t) if n and t is not None else None for t, n in zip(tensors, needs, strict=True)])
    saved = [x if k else None for x, k in zip(arrays, keep, strict=True)]
    owners: list[Any] = [t if k else None for t, k in zip(tensors, keep, strict=True)]
    for out, k in zip(call.results, keep_results, strict=True):
        saved.append(outs[out] if k else None)
        owners.append(Storage() if k else None)
    versions = [0 if o is None else o._version for o in owners]
    return TapeNode(call.op, edges, saved, owners, versions, spec.types)
