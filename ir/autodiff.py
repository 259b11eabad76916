"""Gradients as a graph transform.

`pullback` walks nodes backwards and asks each op's `vjp` for the cotangents of its operands, emitting
differentiable nodes through a builder. The emitted nodes use the forward graph's values directly, so a
gradient is first an open graph; its free values are the residuals. The callers close it:

- `gradient_graph`: forward and backward in one graph;
- the eager tape and `residuals`: the backward alone, its residuals as inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .builder import Builder
from .errors import AutogradError
from .graph import Graph, Node, Value
from .interpreter import decomposition
from .op import Op, Pointwise
from .ops.arithmetic import Add
from .ops.creation import Full
from .ops.select import add_cotangents, carry_select
from .types import TensorType


def differentiable_values(nodes: Sequence[Node], wrt: Sequence[Value]) -> set[Value]:
    """The values that depend on `wrt` through differentiable ops of differentiable dtypes."""
    active = {v for v in wrt if v.type.dtype.is_differentiable}
    for node in nodes:
        if node.op.differentiable and any(v in active for v in node.operands):
            active.update(r for r in node.results if r.type.dtype.is_differentiable)
    return active


def pullback(
    b: Builder, nodes: Sequence[Node], wrt: Sequence[Value], cotangents: Mapping[Value, Value]
) -> list[Value | None]:
    """Emit the gradient of `nodes` into `b`: cotangents of `wrt` given some of later values.

    `None` where nothing flows. Nodes emitted carry the location and scope of the node they differentiate.
    """
    active = differentiable_values(nodes, wrt)
    flow: dict[Value, Value] = {v: g for v, g in cotangents.items() if v in active}
    for node in reversed(nodes):
        out = [flow.get(r) for r in node.results]
        needs = [v in active for v in node.operands]
        if not any(needs) or all(g is None for g in out):
            continue
        b.location, b.scope = node.location, node.scope
        for value, grad in zip(node.operands, node_vjp(b, node, out, needs), strict=True):
            if grad is not None and value in active:
                before = flow.get(value)
                flow[value] = grad if before is None else add_cotangents(b, Add(), before, grad)
    return [flow.get(v) for v in wrt]


def node_vjp(
    b: Builder, node: Node, cotangents: Sequence[Value | None], needs: Sequence[bool]
) -> Sequence[Value | None]:
    """One node's rule; a composite without its own rule is differentiated through its decomposition.

    Of the nodes emitted only those are left that the cotangents depend on, so that no more is kept for them.
    """
    start = len(b.nodes)
    if type(node.op).has_vjp():
        grads = _own_vjp(b, node, cotangents, needs)
    elif type(node.op).has_decomposition():
        grads = _vjp_of_decomposition(b, node, cotangents, needs)
    else:
        raise AutogradError(f"{node.op.name}: this op has no derivative")
    drop_dead(b, start, grads)
    return grads


def _own_vjp(
    b: Builder, node: Node, cotangents: Sequence[Value | None], needs: Sequence[bool]
) -> Sequence[Value | None]:
    op, (first, *_) = node.op, cotangents
    if isinstance(op, Pointwise) and first is not None:
        return carry_select(b, first, lambda g: op.vjp(b, node.operands, node.results, (g,), needs))
    return op.vjp(b, node.operands, node.results, cotangents, needs)


def _vjp_of_decomposition(
    b: Builder, node: Node, cotangents: Sequence[Value | None], needs: Sequence[bool]
) -> Sequence[Value | None]:
    inner = Builder()
    inner.location, inner.scope = node.location, node.scope
    outputs = node.op.decompose(inner, *node.operands)
    env: dict[Value, Value] = {}
    for step in inner.nodes:
        b.copy(step, env)
    copies = b.nodes[len(b.nodes) - len(inner.nodes) :]
    given = {env.get(o, o): g for o, g in zip(outputs, cotangents, strict=True) if g is not None}
    wrt = list(dict.fromkeys(v for v, need in zip(node.operands, needs, strict=True) if need))
    grads = dict(zip(wrt, pullback(b, copies, wrt, given), strict=True))
    # an operand that comes twice gets its whole cotangent at its first place
    return [grads.pop(v, None) if need else None for v, need in zip(node.operands, needs, strict=True)]


def drop_dead(b: Builder, start: int, needed: Sequence[Value | None]) -> None:
    """Remove nodes from `start` on that none of `needed` depends on."""
    live, kept = set(needed), []
    for node in reversed(b.nodes[start:]):
        if node.op.effect or not live.isdisjoint(node.results):
            live.update(node.operands)
            kept.append(node)
    b.nodes[start:] = reversed(kept)


def zeros(b: Builder, type: TensorType) -> Value:
    """A zero of `type`."""
    return b(Full(type.shape, type.dtype, 0, type.device))


def gradient_graph(graph: Graph, wrt: Sequence[int], outputs: Sequence[int] | None = None) -> Graph:
    """Forward and backward in one graph.

    Inputs: those of `graph`, then one cotangent for each of `outputs` (indices; all differentiable ones if None).
    Outputs: those of `graph`, then the cotangents of the inputs `wrt` (indices), zeros where nothing flows.
    """
    if outputs is None:
        outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype.is_differentiable]
    b = Builder()
    inputs = [b.input(v.type, v.name) for v in graph.inputs]
    given = [b.input(graph.outputs[i].type, f"grad_{i}") for i in outputs]
    primal = b.inline(graph, inputs)
    flow: dict[Value, Value] = {}
    for i, g in zip(outputs, given, strict=True):
        flow[primal[i]] = g if primal[i] not in flow else b(Add(), flow[primal[i]], g)
    forward = list(b.nodes)
    grads = pullback(b, forward, [inputs[i] for i in wrt], flow)
    full = [g if g is not None else zeros(b, inputs[i].type) for i, g in zip(wrt, grads, strict=True)]
    return b.build([*primal, *full])


def free_values(graph: Graph) -> list[Value]:
    """Values used but not defined in `graph`, in order of first use."""
    defined = set(graph.values())
    used = [v for node in graph.nodes for v in node.operands] + list(graph.outputs)
    return [v for v in dict.fromkeys(used) if v not in defined]


def close(graph: Graph) -> tuple[Graph, list[Value]]:
    """`graph` with its free values as additional inputs in front, and those values."""
    free = free_values(graph)
    b = Builder()
    stand_ins = [b.input(v.type, v.name) for v in free]
    env = dict(zip(free, stand_ins, strict=True))
    inputs = [b.input(v.type, v.name) for v in graph.inputs]
    env.update(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        b.copy(node, env)
    return b.build([env[v] for v in graph.outputs]), free


def residuals(op: Op, types: Sequence[TensorType], needs: Sequence[bool]) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Which operands and which results the gradient rule of `op` uses, found by running the rule."""
    forward = Builder()
    operands = [forward.input(t) for t in types]
    results = forward.emit(op, *operands)
    b = Builder()
    seeds = [b.input(r.type) if r.type.dtype.is_differentiable else None for r in results]
    grads = node_vjp(b, forward.nodes[-1], seeds, needs)
    used = set(free_values(b.build([g for g in grads if g is not None])))
    return tuple(v in used for v in operands), tuple(v in used for v in results)


__all__ = [
    "close",
    "decomposition",
    "differentiable_values",
    "drop_dead",
    "free_values",
    "gradient_graph",
    "node_vjp",
    "pullback",
    "residuals",
    "zeros",
]
