"""A call of a function of small tensors as one graph: see `hot_path`, which asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.builder import Builder
from jitgrad.ir.config import config
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.ops import check
from jitgrad.ir.ops.argmax import ArgMax, ArgMin
from jitgrad.ir.ops.history import WithHistory
from jitgrad.ir.types import TensorType

from ..autograd.grad_mode import no_grad
from ..backend import native_call
from ..dispatch import recording
from ..hot_path import SMALL, Capture, NativeCall
from ..mode import local
from ..tape import Storage, TapeNode, let_write, next_seq
from ..tensor import Tensor, wrap
from .body import Body, Draw, Uncapturable, trace_body
from .host_call import host_call

_new = object.__new__
_array = np.array
_empty = np.empty
_CHECKS = tuple([getattr(check, name) for name in check.__all__])


class _Results:
    """How a function gives its results: one tensor, or a tuple, list or named tuple of them."""

    __slots__ = ("make",)

    def __init__(self, given: Any) -> None:
        self.make: Callable[[list[Tensor]], Any] | None = None
        if isinstance(given, Tensor):
            self.make = _first
        elif given.__class__ is tuple or given.__class__ is list:
            self.make = given.__class__
        elif isinstance(given, tuple) and hasattr(given, "_fields"):
            kind: Any = given.__class__
            self.make = lambda tensors: kind(*tensors)


def _first(tensors: list[Tensor]) -> Tensor:
    return tensors[0]


def _filled(value: Any, tensors: Iterator[Tensor]) -> Any:
    """An argument with its tensors, and those in a list or tuple, replaced one after the other."""
    if isinstance(value, Tensor):
        return next(tensors)
    if value.__class__ is list or value.__class__ is tuple:
        return value.__class__([_filled(x, tensors) for x in value])
    return value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif value.__class__ is list or value.__class__ is tuple:
        for x in value:
            yield from _tensors(x)


@dataclass(frozen=True, slots=True)
class _Step:
    """A node to record: where its operands come from, and what it saves.

    Operands and saved data are numbers of values: the inputs first, then what the native call gives.
    """

    op: Any
    edges: tuple[Any, ...]  # the number of an input, (step, result), or None
    saved: tuple[int | None, ...]
    kept: tuple[bool, ...]
    types: tuple[TensorType, ...]
    saves: bool  # whether it saves anything


def make(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> NativeCall | None:
    """The call as native code; None if it can't be."""
    given = [t for x in (*args, *kwargs.values()) for t in _tensors(x)]
    types = [t.type_ for t in given]
    if not config.compile or sum([t.numel for t in types]) > SMALL:
        return None
    results = _Results(None)
    recorded = local.mode.grad and any(t._requires_grad for t in given)

    def function(tensors: list[Tensor]) -> Sequence[Tensor]:
        nonlocal results
        for t, like in zip(tensors, given, strict=True):
            if not like._requires_grad:
                t._requires_grad, t._node = False, None
        remaining = iter(tensors)
        positional = [_filled(x, remaining) for x in args]
        out = f(*positional, **{name: _filled(x, remaining) for name, x in kwargs.items()})
        results = _Results(out)
        if results.make is None:
            raise Uncapturable("a result is no tensor")
        return _listed(out)

    try:
        with nullcontext() if recorded else no_grad():
            body = trace_body(None, types, function)
        if body.captured or not _are_made(body.outputs) or not (given or body.draws):
            return None
        if sum([v.type.numel for v in body.outputs]) > SMALL or any(d.more is not None for d in body.draws):
            return None
        with no_grad(), _undrawn(body.draws):
            found = _listed(f(*args, **kwargs))
        if not is_row_major(found) or any(np.may_share_memory(x._data, t._data) for x in found for t in given):
            return None
        needs = [recorded and t._requires_grad for t in given]
        return _compiled(body, needs, results.make)
    except (Uncapturable, JitgradError):
        return None


@contextmanager
def _undrawn(draws: Sequence[Draw]) -> Iterator[None]:
    """Afterwards generators are where they were before."""
    before = [d.generator.offset for d in draws]
    try:
        yield
    finally:
        for d, offset in zip(draws, before, strict=True):
            d.generator.offset = offset


def is_row_major(given: Any) -> bool:
    """Whether all results are tensors that lie in memory as native code puts them, and are no views."""
    return all(map(_is_own, _listed(given)))


def _listed(given: Any) -> list[Any]:
    """The results of a function one by one."""
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _is_own(result: Any) -> bool:
    """Whether a result is a tensor that lies in memory as native code puts it, and is no view."""
    if not isinstance(result, Tensor) or result._view is not None or result._data.__class__ is not np.ndarray:
        return False
    return bool(result._data.flags.c_contiguous)


def _are_made(outputs: Sequence[Value]) -> bool:
    """Whether the results are those of nodes, each of its own."""
    return bool(outputs) and all(v.node is not None for v in outputs) and len(set(outputs)) == len(outputs)


@dataclass(frozen=True, slots=True)
class _Checks:
    """Checks of values: of inputs, by number, before native code runs; of its last results, after that."""

    before: tuple[tuple[int, Any], ...]
    after: tuple[Any, ...]


def _without_checks(graph: Graph) -> tuple[Graph, _Checks] | None:
    """The graph without checks of values; what is checked when it has run becomes an output. None if that won't do."""
    b = Builder()
    env: dict[Value, Value] = {v: b.input(v.type) for v in graph.inputs}
    before, after, waiting = [], [], []
    for node in graph.nodes:
        if not isinstance(node.op, _CHECKS):
            b.copy(node, env)
            continue
        (x,) = node.operands
        if env[x] in b.inputs:
            before.append((b.inputs.index(env[x]), node.op))
        elif node.op.waits:
            after.append(node.op)
            waiting.append(env[x])
        elif x.node is None or not isinstance(x.node.op, (ArgMax, ArgMin)):
            return None
        env[node.results[0]] = env[x]
    return b.build([*[env[v] for v in graph.outputs], *waiting]), _Checks(tuple(before), tuple(after))


def _is_exact(op: Op) -> bool:
    """Whether the op may be part of a captured call."""
    return not op.effect and not isinstance(op, WithHistory) and (not op.random or getattr(op, "is_exact", False))


def _compiled(body: Body, needs: Sequence[bool], build: Any) -> NativeCall | None:
    states = [v for d in body.draws for v in (d.seed, d.offset)]
    whole = body.graph([*body.inputs, *states])
    found = _without_checks(whole)
    graph, checks = found or (whole, _Checks((), ()))
    call = host_call if found is None else _native_or_host
    if not all(_is_exact(node.op) or isinstance(node.op, _CHECKS) for node in graph.nodes):
        return None
    draws = tuple([(d.generator, d.draws) for d in body.draws])
    if not any(needs):
        run = call(graph)
        return None if run is None else _unrecorded(run, build, checks, draws)
    if checks.after:
        return None
    needed = dict(zip(graph.inputs, [*needs, *[False] * len(states)], strict=True))
    taken: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
    outputs = list(graph.outputs)
    for v in outputs:
        taken[v] = len(taken)
    steps, made_by = _steps(graph.nodes, needed, taken, outputs)
    run = call(Graph(graph.inputs, graph.nodes, outputs))
    if run is None:
        return None
    return _Recorded(run, build, checks.before, draws, steps, [made_by.get(v) for v in graph.outputs])


def _native_or_host(graph: Graph) -> Any:
    return native_call(graph) or host_call(graph)


def _draw(draws: Sequence[tuple[Any, int]], arrays: list[Any]) -> None:
    """Add where generators are."""
    for generator, _ in draws:
        arrays.append(_array(generator.seed_value))
        arrays.append(_array(generator.offset))


def _advance(draws: Sequence[tuple[Any, int]]) -> None:
    for generator, count in draws:
        generator.offset += count


def _steps(
    nodes: Sequence[Node], needs: dict[Value, bool], taken: dict[Value, int], outputs: list[Value]
) -> tuple[list[_Step], dict[Value, tuple[int, int]]]:
    """What to record, as `dispatch.record` would node by node; more `outputs` of the graph are what is saved."""
    steps: list[_Step] = []
    made_by: dict[Value, tuple[int, int]] = {}

    def number(v: Value) -> int:
        if v not in taken:
            taken[v] = len(taken)
            outputs.append(v)
        return taken[v]

    for node in nodes:
        types = tuple([v.type for v in node.operands])
        active = tuple([needs.get(v, False) and v.type.dtype.is_differentiable for v in node.operands])
        if True not in active or not node.op.differentiable:
            continue
        keep, keep_results, differentiable = recording(node.op, types, active)
        if True not in differentiable:
            continue
        kept = (*keep, *keep_results)
        saved = tuple([number(v) if k else None for v, k in zip((*node.operands, *node.results), kept, strict=True)])
        edges = tuple(
            [(made_by.get(v, taken.get(v)) if a else None) for v, a in zip(node.operands, active, strict=True)]
        )
        for i, v in enumerate(node.results):
            if differentiable[i]:
                made_by[v], needs[v] = (len(steps), i), True
        steps.append(_Step(node.op, edges, saved, kept, types, True in kept))
    return steps, made_by


def _unrecorded(run: Any, build: Any, checks: _Checks, draws: Sequence[tuple[Any, int]]) -> NativeCall:
    """A captured call that leaves nothing on the tape."""
    before, after, count = checks.before, checks.after, len(run.made) - len(checks.after)
    if build is _first and not before and not after and not draws and len(run.enters) == 1:
        return _shortest(run)

    def call(tensors: list[Any], arrays: list[Any]) -> Any:
        if before and not _passes(before, arrays):
            return None
        if draws:
            _draw(draws, arrays)
        out = run(arrays)
        if out is None or (after and not _passes(zip(range(count, count + len(after)), after, strict=True), out)):
            return None
        if draws:
            _advance(draws)
        return wrap(out[0]) if build is _first else build([wrap(x) for x in out[:count]])

    return call


def _shortest(run: Any) -> NativeCall:
    """One result of one piece of native code."""
    (enter,), ((shape, dtype),), constants = run.enters, run.made, run.constants

    def call(tensors: list[Any], arrays: list[Any]) -> Any:
        out = _empty(shape, dtype)
        arrays.append(out)
        if constants:
            arrays += constants
        if not enter(arrays):
            return None
        t = _new(Tensor)
        t._data = out
        t._node = t._storage = t._view = t._grad = t._hooks = None  # type: ignore[attr-defined]
        t._index, t._requires_grad = 0, False
        return t

    call.kept = run  # type: ignore[attr-defined]  # whose memory it uses
    return call


def _passes(checks: Iterable[tuple[int, Any]], data: Sequence[Any]) -> bool:
    """Whether values are allowed; if not, the function says why."""
    try:
        for i, op in checks:
            op.refuse(data[i])
    except JitgradError:
        return False
    return True


class _Recorded:
    """A captured call that leaves its steps on the tape."""

    __slots__ = ("between", "build", "checks", "draws", "made_by", "run", "steps")

    def __init__(
        self, run: Any, build: Any, checks: Sequence[tuple[int, Any]], draws: Sequence[tuple[Any, int]],
        steps: Sequence[_Step], made_by: Sequence[Any],
    ) -> None:  # fmt: skip
        self.run = run
        self.build = build
        self.checks = checks
        self.draws = draws
        self.between = (None,) * (2 * len(draws))  # the inputs that say where generators are
        self.steps = steps
        self.made_by = made_by

    def __call__(self, tensors: list[Any], arrays: list[Any]) -> Any:
        if self.checks and not _passes(self.checks, arrays):
            return None
        if self.draws:
            _draw(self.draws, arrays)
        data = [*arrays]
        out = self.run(arrays)
        if out is None:
            return None
        if self.draws:
            _advance(self.draws)
        results = [wrap(x) for x in out[: len(self.made_by)]]
        data += out
        known = [*tensors, *self.between, *results]
        nodes: list[TapeNode] = []
        for step in self.steps:
            node = _new(TapeNode)
            node.op, node.kept, node.types = step.op, step.kept, step.types
            node.edges = tuple([None if e is None else _edge(e, tensors, nodes) for e in step.edges])
            node.seq, node.hooks, node.location, node.versions = next_seq(), None, None, None
            if step.saves:
                _save(node, step, data, known)
                if step.op.copies_on_write:
                    let_write(node)
            else:
                node.saved = node.owners = step.saved
            nodes.append(node)
        for t, at in zip(results, self.made_by, strict=True):
            if at is not None:
                t._node, t._index, t._requires_grad = nodes[at[0]], at[1], True
        return results[0] if self.build is _first else self.build(results)


def _save(node: TapeNode, step: _Step, data: Sequence[Any], known: Sequence[Tensor]) -> None:
    """What a node saves, with the storages that count the writes to what others may reach."""
    saved: list[Any] = []
    owners: list[Any] = []
    versions: list[int] = []
    for k in step.saved:
        owner = None
        if k is not None and k < len(known):
            t = known[k]
            owner = t._storage
            if owner is None:
                owner = t._storage = Storage()
        saved.append(None if k is None else data[k])
        owners.append(owner)
        versions.append(0 if owner is None else owner._version)
    node.saved, node.owners, node.versions = saved, owners, versions


def _edge(e: Any, tensors: Sequence[Tensor], nodes: Sequence[TapeNode]) -> Any:
    """Where an operand comes from, as a tape node has it."""
    if e.__class__ is tuple:
        made_by, index = nodes[e[0]], e[1]
    else:
        t = tensors[e]
        if t._node is None:
            return t
        made_by, index = t._node, t._index
    return made_by if index == 0 else (made_by, index)


Capture.make = make
Capture.is_row_major = is_row_major
