"""Ending a trace in the middle: what was captured runs now, and everything alive becomes real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.types import Device

from ..aliasing import storage_of
from ..arrays import assign, owned
from ..backend import DeviceArray
from ..device_ops import run_graph_on_device
from ..dispatch import data_op, run_data
from ..tape import TapeNode
from ..tensor import Tensor

if TYPE_CHECKING:
    from .tracer import Tracer


def run_segment(tracer: Tracer) -> None:
    """Run the captured graph with NumPy, then set live tensors, residuals, written tensors and gradients."""
    live = tracer.live()
    nodes = tape_nodes([t._node for t in live if t._node is not None])
    written = [s for s in tracer.outside.values() if s.written]
    wanted: dict[Value, None] = {s.value: None for s in written}
    for t in live:
        wanted[t._data] = None
    for node in nodes:
        for x in node.saved or ():
            if x.__class__ is Value:
                wanted[x] = None
    leaves = leaf_lookup(tracer)
    known = tracer.host_values
    inputs = [known[i] if i in known else source.fetch(leaves) for i, source in enumerate(tracer.sources)]
    data: dict[Value, Any] = {}
    if wanted:
        graph = Graph(tracer.builder.inputs, tracer.builder.nodes, list(wanted))
        data = dict(zip(wanted, run_segment_graph(graph, inputs, tracer.placement.where), strict=True))
    for node in nodes:
        if node.saved is not None:
            node.saved = [_owned(data[x]) if x.__class__ is Value else x for x in node.saved]
    _fill(live, data)
    for state in written:
        assign(state.tensor._data, data[state.value])
        storage_of(state.tensor)._version += 1
    for t, grad in tracer.grads.values():
        t._grad = grad
    advance_generators(tracer)


def leaf_lookup(tracer: Tracer) -> dict[int, Tensor]:
    """The call's argument leaves by index."""
    return tracer._arguments


def advance_generators(tracer: Tracer) -> None:
    """Consume what the trace drew."""
    for generator, draws, _ in tracer.draws.values():
        generator.offset += draws


def _fill(live: list[Tensor], data: dict[Value, Any]) -> None:
    """Arrays for live tensors: bases own theirs, views share their base's memory again."""
    views = [t for t in live if t._view is not None]
    for t in live:
        if t._view is None:
            t._data = _owned(data[t._data])
    for t in views:
        assert t._view is not None
        base = t._view.base
        if base._data.__class__ is Value:
            t._data = _owned(data[t._data])
            t._view = None
            continue
        array = base._data
        for op in t._view.ops:
            array = op.reference(array) if array.__class__ is np.ndarray else data_op(op, array)
        t._data = array


def _owned(array: Any) -> Any:
    return owned(array) if array.__class__ is DeviceArray else np.array(array)


def run_segment_graph(graph: Graph, inputs: Sequence[Any], where: Device) -> list[Any]:
    """The outputs of what was captured, op by op where it was captured for."""
    return run_data(graph, inputs) if where.type == "cpu" else run_graph_on_device(graph, inputs, where)


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
