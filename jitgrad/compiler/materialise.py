"""Ending a trace in the middle: what was captured runs now, and everything alive becomes real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Value
from jitgrad.ir.interpreter import apply_reference

from ..arrays import assign, on_device, on_host, owned
from ..dispatch import data_op
from ..tape import TapeNode
from ..tensor import Tensor, ViewInfo
from .segments import Segment, runnable

if TYPE_CHECKING:
    from .tracer import Tracer


def run_segment(tracer: Tracer) -> None:
    """Run what is left of the captured graph, then set live tensors, residuals, written tensors and gradients.

    It runs op by op at first, and as machine code when a segment of its structure comes again.
    """
    live = tracer.live()
    nodes = tape_nodes([t._node for t in live if t._node is not None])
    written = [s for s in tracer.outside.values() if s.written]
    holders: dict[Value, list[Any]] = {}
    for t in live:
        if t._view is None:
            holders.setdefault(t._data, []).append(t._storage)
    try:
        data = _computed(tracer, _wanted(tracer, live, nodes))
    except InternalError:
        raise
    except Exception:
        _run_until_refused(tracer)
        raise
    for t in live:
        if t._view is None:
            t._data = tracer.layout.arranged(data.own(t._data), t._data)
    for node in nodes:
        if node.saved is not None:
            node.saved = _saved(node, data, holders)
    tracer.deferred.settle(data.of)
    contents = [data.kept(state.value) for state in written]  # before any is written
    for state, array in zip(written, contents, strict=True):
        assign(state.tensor._data, array)
    for t, grad in tracer.grads.values():
        t._grad = grad
    advance_generators(tracer)
    for t in (t for t in live if t._view is not None):
        _fill_view(t, data)


def _wanted(tracer: Tracer, live: Sequence[Tensor], nodes: Sequence[TapeNode]) -> list[Value]:
    """The values that something has to be set to."""
    found = {s.value: None for s in tracer.outside.values() if s.written}
    inside = set(map(id, live))
    for t in live:
        if t._view is None or (t._view.base._data.__class__ is Value and id(t._view.base) not in inside):
            found[t._data] = None
    for node in nodes:
        for x in node.saved or ():
            if x.__class__ is Value:
                found[x] = None
    found.update(dict.fromkeys(tracer.deferred.values()))
    return list(found)


def _run_until_refused(tracer: Tracer) -> None:
    """Leave things as they were when an op refused a value, as eager code would."""
    cuts = tracer.cuts
    env = {v: cuts.array(ref) for v, ref in cuts.known.items()}
    count = 0
    for node in tracer.builder.nodes:
        try:
            results = apply_reference(node.op, [on_host(env[v]) for v in node.operands])
        except Exception:
            break
        env.update(zip(node.results, results, strict=True))
        count += 1
    tracer.begun.undo(after=count)
    written = {id(state): (state.tensor, value) for at, state, value in tracer.writes if at <= count}
    contents = [np.array(env[value]) for _, value in written.values()]  # before any is written
    for (tensor, _), array in zip(written.values(), contents, strict=True):
        assign(tensor._data, array)
    for t in tracer.live():  # what comes after the refusal has no value; eager code would not have made it
        found = env.get(t._data)
        made = np.zeros(t._data.shape, t._data.dtype) if found is None else np.array(found)
        t._data, t._view = on_device(made, tracer.placement.where), None
    advance_generators(tracer)


class _Computed:
    """Arrays by value. Each is handed out once to be kept; after that, copies are."""

    def __init__(self, arrays: dict[Value, Any], fresh: set[Value]) -> None:
        self._arrays = arrays
        self._fresh = fresh

    def of(self, value: Value) -> Any:
        """The array of `value`, to be looked at."""
        return self._arrays[value]

    def kept(self, value: Value) -> Any:
        """An array of `value` that no write to tensors from outside changes."""
        return self._arrays[value] if value.node is not None else owned(self._arrays[value])

    def own(self, value: Value) -> Any:
        """An array of `value` with memory that nothing else has, contiguous as the trace took it to be."""
        array = self._arrays[value]
        if value in self._fresh and array.flags.c_contiguous:
            self._fresh.discard(value)
            return array
        return owned(array, "C")


def _computed(tracer: Tracer, wanted: list[Value]) -> _Computed:
    cuts = tracer.cuts
    missing = [v for v in wanted if v not in cuts.known]
    arrays = {v: cuts.array(cuts.known[v]) for v in wanted if v in cuts.known}
    segment = Segment(tracer.builder.nodes, cuts.known, missing, done=cuts.done)
    if segment.nodes:
        run = runnable(segment, tracer.name, tracer.placement.where, at_once=False, numerics=tracer.numerics)
        arrays.update(zip(missing, run([cuts.array(ref) for ref in segment.places]), strict=True))
    fresh = {v for v in wanted if cuts.known.get(v, -1) < 0 and v.node is not None}
    return _Computed(arrays, fresh)


def _saved(node: TapeNode, data: _Computed, holders: dict[Value, list[Any]]) -> list[Any]:
    """What a tape node saved, as arrays. They share memory with a tensor only if the node watches its writes."""
    found = []
    for x, owner in zip(node.saved, node.owners, strict=True):
        if x.__class__ is Value:
            storages = holders.get(x, [])
            watches = owner is not None and (not storages or (len(storages) == 1 and storages[0] is owner))
            x = data.of(x) if watches else data.own(x)
        found.append(x)
    return found


def advance_generators(tracer: Tracer) -> None:
    """Consume what the trace drew, which has run."""
    for generator, draws, more in tracer.drawn():
        generator.offset += draws if more is None else draws + int(on_host(more._data))


def _fill_view(t: Tensor, data: _Computed) -> None:
    """A view shares its base's memory again."""
    assert t._view is not None
    base = t._view.base
    if base._data.__class__ is Value:
        t._data, t._view = data.own(t._data), None
        return
    array = base._data
    for op in t._view.ops:
        array = op.reference(array) if array.__class__ is np.ndarray else data_op(op, array)
        if array.__class__ is np.ndarray and base._data.flags.writeable and not array.flags.writeable:
            array.flags.writeable = True  # NumPy marks what repeats elements
    t._data, t._view = array, _rooted(t._view)


def _rooted(info: ViewInfo) -> ViewInfo:
    """A view of an argument, which stood for itself, as a view of what the argument is a view of."""
    base, ops, origin, origin_ops = info.base, info.ops, info.origin, info.origin_ops
    while base._view is not None:
        base, ops = base._view.base, base._view.ops + ops
    while origin is not None and origin._view is not None and origin._view.origin is not None:
        origin, origin_ops = origin._view.origin, origin._view.origin_ops + origin_ops
    return ViewInfo(base, ops, origin, origin_ops)


def tape_nodes(roots: Sequence[TapeNode]) -> list[TapeNode]:
    """These nodes and every one behind them."""
    seen: set[TapeNode] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for e in node.edges:
            producer = e[0] if e.__class__ is tuple else e
            if isinstance(producer, TapeNode):
                stack.append(producer)
    return list(seen)
