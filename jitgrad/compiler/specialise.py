"""From a finished trace to something that replays it.

A specialisation holds the executable, where its inputs come from, and what to do with its results: hand them out,
write them back into tensors from outside, set gradients, and put the outputs on the tape as one node whose
gradient is compiled too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.op import View
from jitgrad.ir.ops.arithmetic import Neg
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.types import TensorType

from .. import pytree
from ..aliasing import alias, storage_of, views
from ..arrays import assign, on_host, owned
from ..backend import Observer, compile_graph, load
from ..dispatch import edge
from ..mode import local
from ..runtime_float import RuntimeFloat
from ..tape import TapeNode
from ..tensor import Tensor, wrap
from .cuts import Cut
from .guards import Guards
from .history import Histories, Stage, is_freed, plan_stages
from .materialise import tape_nodes
from .segments import Segment, executable_of, fed, runnable
from .sources import ArgumentSource, Source
from .tracer import Tracer

# How to make a result again: ("python", x), ("number", output, function of the array); and a tensor: ("value", output,
# history, whether it takes the memory), ("source", s), ("view", origin's recipe, ops, history), or ("alias", base's
# recipe, history, output of its history, ops). A history is one of `_history`.
Recipe = tuple[Any, ...]
_FREED = Neg()  # any op will do: a node without saved data only says that its gradient was taken


@dataclass(eq=False)
class Specialisation:
    """One captured path of a function, replayed without Python."""

    graph: Graph
    run: Any  # computes what comes after the last cut
    executable: Any  # that of `run`, or else of the last segment that runs anything
    inputs: tuple[int, ...] | None  # its inputs, as references (see `cuts`); None: all sources in order
    is_over: bool  # nothing comes after the last cut
    places: tuple[int, ...] | None  # where the outputs are: among its own, or computed before; None: its own in order
    sources: tuple[Source, ...]
    fresh: tuple[Source, ...]  # those met after the last cut
    writes: tuple[tuple[int, int, bool, int], ...]  # (output, source, already in place, how many writes)
    axes: tuple[tuple[int, tuple[int, ...]], ...]  # of outputs that are not row-major, where the array has them
    outputs: tuple[Recipe, ...]
    structure: Any
    grads: tuple[tuple[Source, Recipe | None], ...]
    draws: tuple[tuple[Any, int, int | None], ...]  # generator, how many, and the output that says how many more
    stages: tuple[Stage, ...]
    types: tuple[TensorType, ...]
    cuts: tuple[Cut, ...]  # on the way here
    guards: Guards | None
    trace_ms: float = 0.0
    compile_ms: float = 0.0
    runs: int = 0

    @property
    def executables(self) -> list[Any]:
        """All that a call runs, in order."""
        before = [executable_of(cut.run) for cut in self.cuts if cut.run is not None]
        return before if self.is_over and before else [*before, self.executable]


REFUSED = object()  # the result of a call that has to run eagerly, to fail or to go on as eager code does


class Escapes(Exception):
    """A trace whose tensors outlive it in ways a replay cannot repeat."""


def specialise(tracer: Tracer, result: Any, observer: Observer | None, trace_ms: float) -> Specialisation:
    """Compile what `tracer` captured. `result` is what the function returned."""
    leaves, structure = pytree.flatten(result)
    recipes = _Recipes(tracer)
    outputs = tuple(map(recipes.of_leaf, leaves))
    grads = tuple([(_grad_source(tracer, t), None if g is None else recipes.of(g)) for t, g in tracer.grads.values()])
    written = [s for s in tracer.outside.values() if s.written and s.slot is not None]
    writes = [(recipes.output(s.value), s.slot, s.tensor._data.flags.c_contiguous) for s in written]
    stages = _plan_histories(tracer, recipes)
    draws = tuple(
        [(g, n, None if more is None else recipes.output(tracer.value(more))) for g, n, more in tracer.drawn()]
    )
    outs, axes = recipes.laid_out()
    graph = Graph(tracer.builder.inputs, tracer.builder.nodes, outs)
    if observer is not None:
        observer("traced", graph)
    load()
    start = time.perf_counter()
    aliases = {out: slot for out, slot, contiguous in writes if contiguous and out not in recipes.kept}
    run, executable, inputs, places, is_over = _compile(tracer, graph, aliases, observer)
    in_place = [aliases.get(out) == slot and (places is None or places[out] >= 0) for out, slot, _ in writes]
    counts = uncounted(tracer)
    return Specialisation(
        graph=graph, run=run, executable=executable, inputs=inputs, is_over=is_over, places=places,
        sources=tuple(tracer.sources), fresh=tracer.cuts.last_sources(), outputs=outputs, structure=structure,
        writes=tuple([(out, slot, own, counts[slot]) for (out, slot, _), own in zip(writes, in_place, strict=True)]),
        axes=axes, grads=grads, draws=draws, stages=stages,
        types=tuple(v.type for v in tracer.builder.inputs), cuts=tuple(tracer.cuts.made),
        guards=tracer.cuts.last_guards(), trace_ms=trace_ms, compile_ms=(time.perf_counter() - start) * 1e3,
    )  # fmt: skip


def uncounted(tracer: Tracer) -> dict[int | None, int]:
    """How often each slot was written. Whoever does it counts it, so what the trace has counted is taken back."""
    for _, state, _ in tracer.writes:
        storage_of(state.tensor)._version -= 1
    return Counter(state.slot for _, state, _ in tracer.writes)


def _compile(tracer: Tracer, graph: Graph, aliases: dict[int, int], observer: Observer | None) -> Any:
    """What computes all after the last cut, its executable, its inputs, where outputs are, whether it is nothing."""
    cuts, nodes = tracer.cuts, graph.nodes
    if not cuts.made:
        segment = Segment(nodes, cuts.known, graph.outputs, graph.inputs, layout=tracer.layout.given)
        run = _runnable(tracer, segment, aliases, observer)
        return run, executable_of(run), None, None, False
    here = [v for v in graph.outputs if cuts.known.get(v, 0) >= 0]
    own = {v: k for k, v in enumerate(here)}
    places = tuple([own[v] if v in own else cuts.known[v] for v in graph.outputs])
    kept = {places[out]: slot for out, slot in aliases.items() if places[out] >= 0}
    aliased = [graph.inputs[slot] for slot in kept.values()]
    segment = Segment(nodes, cuts.known, here, aliased, cuts.done, tracer.layout.given)
    runs = [cut.run for cut in cuts.made if cut.run is not None]
    if not here and not segment.nodes and runs:
        return None, executable_of(runs[-1]), (), places, True
    run = _runnable(tracer, segment, {out: segment.places.index(slot) for out, slot in kept.items()}, observer)
    return run, executable_of(run), segment.places, places, False


def _runnable(tracer: Tracer, segment: Segment, aliases: dict[int, int], observer: Observer | None) -> Any:
    """Machine code, found again where nobody wants to see it being made."""
    where, name = tracer.placement.where, tracer.name
    if observer is None:
        given = tracer.sources
        batches = [i for i, at in enumerate(segment.places) if at >= 0 and isinstance(given[at], ArgumentSource)]
        return runnable(segment, name, where, aliases=aliases, numerics=tracer.numerics, batches=batches)
    graph = segment.graph()
    executable = compile_graph(
        graph, name=name, aliases=aliases, observer=observer, device=where, numerics=tracer.numerics
    )
    return fed(executable, segment)


def _grad_source(tracer: Tracer, t: Tensor) -> Any:
    return tracer._tensor_source(t)


def _history(t: Tensor, tracer: Tracer) -> Any:
    """What gradients find behind a tensor: nothing, the end, the call, or a graph that is used up.

    The last is told by the slots of the tensors that it would lead to.
    """
    if t._node is None:
        return "leaf" if t._requires_grad else None
    if not is_freed(t._node):
        return "result"
    slots = {edge(s.tensor): s.slot for s in tracer.outside.values() if s.slot is not None}
    reached = {e for node in tape_nodes([t._node]) for e in node.edges if e is not None}
    return tuple(sorted([slot for e, slot in slots.items() if e in reached]))


def _item(array: Any) -> Any:
    return array.item()


class _Recipes:
    """Collects the graph's outputs while saying how each result tensor is made from them."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.values: dict[Value, int] = {}
        self.tensors: dict[int, Tensor] = {}
        self.kept: set[int] = set()  # outputs whose memory a result takes
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

    def laid_out(self) -> tuple[list[Value], tuple[tuple[int, tuple[int, ...]], ...]]:
        """The outputs as they are to lie in memory, and the order of axes that gives them back their shape."""
        tracer, outs, axes = self.tracer, list(self.values), []
        for out in sorted(self.kept):
            order = tracer.layout.order(outs[out])
            if order is not None:
                (outs[out],) = tracer.emit(Permute(order), [outs[out]])
                axes.append((out, Permute(order).inverse().perm))
        return outs, tuple(axes)

    def of_leaf(self, x: Any) -> Recipe:
        """The recipe of anything in a result."""
        if isinstance(x, Tensor):
            return self.of(x)
        if type(x) is RuntimeFloat:
            return ("number", self.output(self.tracer.value(x._tensor)), _item)
        later = self.tracer.deferred.of(x)
        return ("python", x) if later is None else ("number", self.output(later[0]), later[1])

    def _make(self, t: Tensor) -> Recipe:
        if t._data.__class__ is not Value:
            self.tracer.state(t)
            return ("source", self._source_index(t))
        info = t._view
        if info is None:
            out = self.output(t._data)
            is_first = out not in self.kept
            self.kept.add(out)
            return ("value", out, _history(t, self.tracer), is_first)
        if info.origin is not None:
            history = "leaf" if t._requires_grad and t._node is None else "result" if t._requires_grad else None
            return ("view", self.of(info.origin), info.origin_ops, history)
        own = self.output(t._data) if t._node is not None else None
        return ("alias", self.of(info.base), _history(t, self.tracer), own, info.ops)

    def _source_index(self, t: Tensor) -> int:
        slot = self.tracer.outside[id(t)].slot
        if slot is None:  # a captured view: fetch the tensor itself
            raise Escapes("a view captured from outside is returned")
        return slot


def _plan_histories(tracer: Tracer, recipes: _Recipes) -> tuple[Stage, ...]:
    """The forward call as differentiable ops, if any result requires gradients."""
    results = _differentiable(recipes)
    if not results:
        return ()
    for node in tape_nodes([t._node for t in results.values() if t._node is not None]):
        if node.__class__ is not TapeNode or node.hooks is not None:
            raise Escapes("gradients of its results pass through a hook or a custom Function")
        if any(isinstance(e, Tensor) and e._data.__class__ is Value for e in node.edges):
            raise Escapes("gradients of its results reach a tensor that the call made")
    if any(s.slot is None and s.tensor._requires_grad and s.tensor._node is None for s in tracer.outside.values()):
        raise Escapes("a view made outside the call requires a gradient of its own")
    outside = [s for s in tracer.outside.values() if s.slot is not None]
    inputs = tracer.builder.inputs
    wrt = [inputs[s.slot] for s in outside if s.tensor._requires_grad]  # type: ignore[index]
    overwritten = frozenset([s.slot for s in outside if s.written and s.slot is not None])
    is_strict = tracer.numerics == "strict"
    return plan_stages(tracer.builder.nodes, inputs, wrt, list(results), overwritten, recipes.output, is_strict)


def _differentiable(recipes: _Recipes) -> dict[Value, Tensor]:
    found: dict[Value, Tensor] = {}
    for key, recipe in recipes._made.items():
        t = recipes.tensors[key]
        if recipe[0] in ("value", "alias") and recipe[2] == "result":
            found.setdefault(t._data, t)
    return found


def replay(spec: Specialisation, leaves: Sequence[Any]) -> Any:
    """One call of a specialisation without cuts. `REFUSED` if an op refuses a value; then nothing has changed."""
    return finish(spec, leaves, [source.fetch(leaves) for source in spec.sources], ())


def finish(spec: Specialisation, leaves: Sequence[Any], arrays: Sequence[Any], computed: Sequence[Any]) -> Any:
    """The rest of a call after its last cut: run, write back, hand out. `arrays` are those of the sources."""
    try:
        outs = _run(spec, arrays, computed)
    except InternalError:
        raise
    except Exception:
        return REFUSED
    return hand_out(spec, leaves, arrays, outs)


def hand_out(spec: Specialisation, leaves: Sequence[Any], arrays: Sequence[Any], outs: Sequence[Any]) -> Any:
    """What happens once all is computed."""
    if spec.axes:
        outs = _shaped(spec, outs)
    spec.runs += 1
    for out, slot, in_place, count in spec.writes:
        tensor = spec.sources[slot].tensor(leaves)  # type: ignore[union-attr]
        if not in_place:
            assign(arrays[slot], outs[out])
        storage_of(tensor)._version += count
    for generator, draws, more in spec.draws:
        generator.offset += draws if more is None else draws + int(on_host(outs[more]))
    histories = Histories()
    if spec.stages:
        tensors = [s.tensor(leaves) if hasattr(s, "tensor") else None for s in spec.sources]
        for stage in spec.stages:
            histories.add(stage, tensors, arrays, outs)
    maker = _Maker(spec, leaves, outs, histories)
    results = [
        x[1] if x[0] == "python" else x[2](on_host(outs[x[1]])) if x[0] == "number" else maker.make(x)
        for x in spec.outputs
    ]
    for source, recipe in spec.grads:
        source.tensor(leaves)._grad = None if recipe is None else maker.make(recipe)  # type: ignore[union-attr]
    return results[0] if spec.structure == pytree.LEAF else pytree.unflatten(spec.structure, results)


def _run(spec: Specialisation, arrays: Sequence[Any], computed: Sequence[Any]) -> Sequence[Any]:
    """The outputs."""
    if spec.places is None:
        return spec.run(arrays)  # type: ignore[no-any-return]
    outs: Sequence[Any] = ()
    if not spec.is_over:
        outs = spec.run([arrays[i] if i >= 0 else computed[-1 - i] for i in spec.inputs or ()])
    return [outs[i] if i >= 0 else computed[-1 - i] for i in spec.places]


def _shaped(spec: Specialisation, outs: Sequence[Any]) -> Sequence[Any]:
    """The outputs in their shapes, those included that are not row-major."""
    shaped = list(outs)
    for out, order in spec.axes:
        shaped[out] = outs[out].transpose(order)
    return shaped


class _Maker:
    """Makes the tensors of one replay; a recipe met again gives the same tensor."""

    def __init__(self, spec: Specialisation, leaves: Sequence[Any], outs: Sequence[Any], histories: Histories) -> None:
        self.spec = spec
        self.leaves = leaves
        self.outs = outs
        self.histories = histories
        self._made: dict[int, Tensor] = {}

    def make(self, recipe: Recipe) -> Tensor:
        """The tensor that `recipe` describes."""
        found = self._made.get(id(recipe))
        if found is None:
            found = self._made[id(recipe)] = self._make(recipe)
        return found

    def _make(self, recipe: Recipe) -> Tensor:
        match recipe[0]:
            case "source":
                return self.spec.sources[recipe[1]].tensor(self.leaves)  # type: ignore[union-attr]
            case "view":
                return self._view(*recipe[1:])
            case "alias":
                t = alias(views(recipe[4], alias(self.make(recipe[1]))))
                return self._with_history(t, recipe[2], recipe[3])
        if recipe[3]:
            t = wrap(self.outs[recipe[1]])
            t._storage = self.histories.storages.get(recipe[1])
        else:
            t = wrap(owned(self.outs[recipe[1]]))
        return self._with_history(t, recipe[2], recipe[1])

    def _view(self, origin: Recipe, ops: tuple[View, ...], history: str | None) -> Tensor:
        """A view that is recorded if it was while tracing, whatever the mode around the call."""
        source, mode = self.make(origin), local.mode
        before, mode.grad = mode.grad, history == "result"
        try:
            return self._with_history(views(ops, source), None if history == "result" else history, 0)
        finally:
            mode.grad = before

    def _with_history(self, t: Tensor, history: Any, out: int) -> Tensor:
        if history == "leaf":
            t._requires_grad = True
        elif history.__class__ is tuple:
            edges = tuple([edge(self.spec.sources[slot].tensor(self.leaves)) for slot in history])  # type: ignore[union-attr]
            t._node, t._requires_grad = TapeNode(_FREED, edges, None, None, None, ()), True
        elif history == "result" and (place := self.histories.places.get(out)) is not None:
            (t._node, t._index), t._requires_grad = place, True
        return t
