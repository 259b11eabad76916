"""Updates of parameters that are alike, traced once: what the first does is copied for the others."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.graph import Node, Value
from jitgrad.ir.ops.history import WithHistory

from ..aliasing import write
from ..mode import local
from ..tensor import Tensor


@dataclass(frozen=True, slots=True)
class _Update:
    """Nodes, what stands for the tensors in them, and by number of a tensor its new value."""

    values: Sequence[Value]
    nodes: Sequence[Node]
    results: dict[int, Value]


class Updates:
    """The updates of one step, in the trace that is going on."""

    def __init__(self) -> None:
        self._tracer: Any = local.mode.tracer
        self._known: dict[Any, _Update] = {}

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: Any, trace: Callable[[], None]) -> None:
        """Do what `trace` does to `p` and `state`, which depends on these tensors and the group alone."""
        tensors = [p, grad, *state.values()]
        tracer: Any = self._tracer
        values = [tracer.value(t) for t in tensors] if self._may_repeat(tensors) else []
        if not values or any(tracer.layout.of(v) is not None for v in values):
            return trace()
        key = (id(group), tuple(state), *[(v.type, t._requires_grad) for v, t in zip(values, tensors, strict=True)])
        found = self._known.get(key)
        if found is not None:
            return self._copy(found, tensors, values)
        start, draws = len(tracer.builder.nodes), len(tracer.draws)
        trace()
        is_same = len(state) == len(tensors) - 2 and all(map(operator.is_, state.values(), tensors[2:]))
        if local.mode.tracer is self._tracer and is_same and len(tracer.draws) == draws:
            after = [tracer.value(t) for t in tensors]
            results = {
                i: _written(v) for i, (v, before) in enumerate(zip(after, values, strict=True)) if v is not before
            }
            self._known[key] = _Update(values, tracer.builder.nodes[start:], results)

    def _may_repeat(self, tensors: Sequence[Any]) -> bool:
        """Whether the tensors are each other's and everybody's strangers, in a trace of one graph."""
        tracer: Any = self._tracer
        if tracer is None or local.mode.tracer is not self._tracer or tracer.reruns or not tracer.cuts_in_place:
            return False
        if local.mode.grad or local.mode.levels or len({id(t) for t in tensors}) < len(tensors):
            return False
        return all(isinstance(t, Tensor) and t._view is None and len(tracer.sharing(t)) == 1 for t in tensors)

    def _copy(self, update: _Update, tensors: Sequence[Tensor], values: Sequence[Value]) -> None:
        tracer = self._tracer
        nodes, scope = tracer.builder.nodes, tracer.builder.scope
        env = dict(zip(update.values, values, strict=True))
        for node in update.nodes:
            types = [v.type for v in node.results]
            made = Node(node.op, [env.get(v, v) for v in node.operands], types, node.location, scope)
            for v, new in zip(node.results, made.results):
                env[v] = new
            nodes.append(made)
        for i, value in update.results.items():
            new = env.get(value, value)
            tracer.layout.lies_as(new, value)
            write(tensors[i], tracer.traced(new), "step")


def _written(value: Value) -> Value:
    """What was written, where the tensor keeps its own history."""
    node = value.node
    return node.operands[0] if node is not None and isinstance(node.op, WithHistory) else value
