"""Updates of parameters that are alike, traced once: what the first does is copied for the others.

Parameters are alike if their types are. Where an update computes each element by itself, those that have the same
number of axes are: the ops that name the shape get the other's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import Op, Pointwise
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.history import Detach, WithHistory
from jitgrad.ir.types import Shape

from ..aliasing import write
from ..mode import local
from ..tensor import Tensor


@dataclass(frozen=True, slots=True)
class _Update:
    """Nodes, what stands for the tensors in them, and by number of a tensor its new value."""

    values: Sequence[Value]
    nodes: Sequence[Node]
    results: dict[int, Value]
    shape: Shape  # of the parameter

    def is_elementwise(self, layout: Callable[[Value], Any]) -> bool:
        """Whether each element is computed by itself, so that any shape of as many axes would do."""
        own = set(self.values)  # other operands have to be numbers
        for node in self.nodes:
            if not isinstance(node.op, (Pointwise, BroadcastTo, Full, Detach, WithHistory)):
                return False
            if any(v.type.shape and v not in own for v in node.operands):
                return False
            own.update(node.results)
        fits = all(v.type.shape in (self.shape, ()) for v in own)
        return fits and all(layout(v) is None for v in self.results.values())


class Updates:
    """The updates of one step, in the trace that is going on. `by_element` says that no rule asks for lengths."""

    def __init__(self, *, by_element: bool = False) -> None:
        self._tracer: Any = local.mode.tracer
        self._by_element = by_element
        self._known: dict[Any, _Update] = {}

    def update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: Any, trace: Callable[[], None]) -> None:
        """Do what `trace` does to `p` and `state`, which depends on these tensors and the group alone."""
        tensors = [p, grad, *state.values()]
        tracer: Any = self._tracer
        values = [tracer.value(t) for t in tensors] if self._may_repeat(tensors) else []
        if not values or any(tracer.layout.of(v) is not None for v in values):
            return trace()
        shape = values[0].type.shape
        kind = (id(group), tuple(state), *[t._requires_grad for t in tensors])
        key = (*kind, *[v.type for v in values])
        common = (*kind, len(shape), *[(v.type.dtype, v.type.device, v.type.shape == shape) for v in values])
        found = self._known.get(key) or (self._known.get(common) if math.prod(shape) and shape else None)
        if found is not None and (found.shape == shape or {v.type.shape for v in values} <= {shape, ()}):
            return self._copy(found, tensors, values)
        start, draws = len(tracer.builder.nodes), len(tracer.draws)
        trace()
        is_same = len(state) == len(tensors) - 2 and all(map(operator.is_, state.values(), tensors[2:]))
        if local.mode.tracer is self._tracer and is_same and len(tracer.draws) == draws:
            after = [tracer.value(t) for t in tensors]
            results = {
                i: _written(v) for i, (v, before) in enumerate(zip(after, values, strict=True)) if v is not before
            }
            made = self._known[key] = _Update(values, tracer.builder.nodes[start:], results, shape)
            if self._by_element and shape and math.prod(shape) and made.is_elementwise(tracer.layout.of):
                self._known[common] = made

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
        old, shape = update.shape, values[0].type.shape
        for node in update.nodes:
            types, op = [v.type for v in node.results], node.op
            if old != shape:
                types, op = [t.with_shape(shape) if t.shape == old else t for t in types], _of_shape(op, old, shape)
            made = Node(op, [env.get(v, v) for v in node.operands], types, node.location, scope)
            for v, new in zip(node.results, made.results):
                env[v] = new
            nodes.append(made)
        for i, value in update.results.items():
            new = env.get(value, value)
            tracer.layout.lies_as(new, value)
            write(tensors[i], tracer.traced(new), "step")


def _of_shape(op: Op, old: Shape, new: Shape) -> Op:
    """An op of an update by element, for another parameter's shape."""
    if isinstance(op, BroadcastTo) and op.shape == old:
        return BroadcastTo(new)
    if isinstance(op, Full) and op.shape == old:
        return Full(new, op.dtype, op.value, op.device)
    return op


def _written(value: Value) -> Value:
    """What was written, where the tensor keeps its own history."""
    node = value.node
    return node.operands[0] if node is not None and isinstance(node.op, WithHistory) else value
