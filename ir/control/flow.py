"""Cotangents on their way into a sub-graph, and which values of a loop's body depend on what needs a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..autodiff import differentiable_values
from ..builder import Builder
from ..graph import Graph, Value
from ..ops.arithmetic import Add


def given_flow(b: Builder, outputs: Sequence[Value], cotangents: Iterable[Value]) -> dict[Value, Value]:
    """The cotangent of each output; one that is there twice gets the sum."""
    flow: dict[Value, Value] = {}
    for v, g in zip(outputs, cotangents, strict=True):
        flow[v] = g if v not in flow else b(Add(), flow[v], g)
    return flow


def active_carries(body: Graph, carries: int, needs: Sequence[bool]) -> list[bool]:
    """Which carries of a loop depend on inputs of its body that need a gradient, after any number of steps."""
    wanted = list(needs)
    while True:
        active = differentiable_values(body.nodes, [v for v, need in zip(body.inputs, wanted, strict=True) if need])
        found = [wanted[k] or body.outputs[k] in active for k in range(carries)]
        found = [f and body.inputs[k].type.dtype.is_differentiable for k, f in enumerate(found)]
        if found == wanted[:carries]:
            return found
        wanted[:carries] = found
