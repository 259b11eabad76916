"""Forward mode: the tangents of an op's results, found by transposing its gradient rule.

A gradient rule is linear in the cotangents, and the transpose of the linear map that takes tangents of operands to
those of results. So the gradient of the rule itself, with respect to the cotangents, is that map again: one rule per op
serves both modes. What is left of the rule after dead code is gone is what forward mode needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .autodiff import node_vjp, pullback, zeros
from .builder import Builder
from .graph import Graph, Node, Value
from .op import Op
from .ops.arithmetic import Add
from .passes.dce import EliminateDeadCode
from .types import TensorType


@dataclass(frozen=True, eq=False)
class Pushforward:
    """The graph from operands, results, and the tangents of the `active` operands to tangents of results.

    `flows` tells which results have a tangent; the graph's outputs are those.
    """

    graph: Graph
    flows: tuple[bool, ...]


def pushforward(op: Op, types: Sequence[TensorType], active: Sequence[bool]) -> Pushforward:
    """The tangents of the results of `op` for operands of these types.

    >>> from . import dtypes
    >>> from .ops.math import Tanh
    >>> [node.op.name for node in pushforward(Tanh(), [TensorType((2,), dtypes.float32)], [True]).graph.nodes]
    ['full', 'mul', 'sub', 'mul']
    """
    forward = Builder()
    operands = [forward.input(t) for t in types]
    results = forward.emit(op, *operands)
    rule = Builder()
    seeds = [rule.input(r.type) if r.type.dtype.is_differentiable else None for r in results]
    grads = node_vjp(rule, forward.nodes[-1], seeds, active) if op.differentiable and any(seeds) else ()
    b = Builder()
    tangents = [b.input(t) for t, is_active in zip(types, active, strict=True) if is_active]
    given = iter(tangents)
    flow: dict[Value, Value] = {}
    for g, is_active in zip(grads, active, strict=False):
        t = next(given) if is_active else None
        if g is not None and t is not None:
            flow[g] = t if g not in flow else b(Add(), flow[g], t)
    wrt = [s for s in seeds if s is not None]
    found = iter(pullback(b, rule.nodes, wrt, flow))
    outputs = [None if s is None else next(found) for s in seeds]
    present = [t for t in outputs if t is not None]
    graph = _closed([*operands, *results, *tangents], wrt, [*rule.nodes, *b.nodes], present)
    return Pushforward(graph, tuple([t is not None for t in outputs]))


def _closed(inputs: Sequence[Value], seeds: Sequence[Value], nodes: Sequence[Node], outputs: Sequence[Value]) -> Graph:
    """The graph of what the outputs depend on; a cotangent that is still there is multiplied by nothing, so is zero."""
    live = EliminateDeadCode().apply(Graph([*inputs, *seeds], nodes, outputs))
    b = Builder()
    env = {v: b.input(v.type) for v in live.inputs[: len(inputs)]}
    used = {v for node in live.nodes for v in node.operands}.union(live.outputs)
    env.update({s: zeros(b, s.type) for s in live.inputs[len(inputs) :] if s in used})
    for node in live.nodes:
        b.copy(node, env)
    return b.build([env[v] for v in live.outputs])


__all__ = ["Pushforward", "pushforward"]
