"""From a piece of tape to its gradient graph.

A `Structure` is what two training steps have in common: ops, how they are wired, and the types of what comes
from outside. Its gradient graph takes residuals and cotangents and gives the cotangents of the outside values.
It is built once per structure, interpreted the first time and compiled when it comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.autodiff import pullback
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.op import Op, Pointwise
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.types import TensorType

# An operand: outside value -1 - k, or result k of step i as (i, k).
Ref = Any


@dataclass(frozen=True, eq=False)
class Structure:
    """Steps `(op, operand refs, which operands and results are saved)`, and the outside values' types.

    `seeds` are the results that get a cotangent, `wrt` the refs whose cotangents are wanted.
    """

    steps: tuple[tuple[Op, tuple[Ref, ...], tuple[bool, ...]], ...]
    outside: tuple[TensorType, ...]
    seeds: tuple[Ref, ...]
    wrt: tuple[Ref, ...]

    def key(self) -> tuple[Any, ...]:
        """Equal for equal structures."""
        return (self.steps, self.outside, self.seeds, self.wrt)


@dataclass(frozen=True, eq=False)
class Plan:
    """The gradient graph. Its inputs are the residuals at `residuals` (step, slot), then the seeds' cotangents.

    `flows[i]` tells whether a gradient reaches `wrt[i]`; the graph's outputs are those that do.
    """

    graph: Graph
    residuals: tuple[tuple[int, int], ...]
    flows: tuple[bool, ...]


def build_plan(structure: Structure) -> Plan:
    """The gradient graph of a structure."""
    forward = Builder()
    outside = [forward.input(t) for t in structure.outside]
    results: list[tuple[Value, ...]] = []
    known: dict[Value, tuple[int, int]] = {}

    def resolve(ref: Ref) -> Value:
        return outside[-1 - ref] if isinstance(ref, int) else results[ref[0]][ref[1]]

    for i, (op, refs, saved) in enumerate(structure.steps):
        operands = [resolve(r) for r in refs]
        results.append(emit_broadcasting(forward, op, operands))
        for slot, (value, is_saved) in enumerate(zip((*operands, *results[i]), saved, strict=True)):
            if is_saved:
                known.setdefault(value, (i, slot))
    backward = Builder()
    flow: dict[Value, Value] = {}
    seeds = [backward.input(resolve(ref).type) for ref in structure.seeds]
    for ref, seed in zip(structure.seeds, seeds, strict=True):
        value = resolve(ref)
        flow[value] = backward(Add(), flow[value], seed) if value in flow else seed
    grads = pullback(backward, forward.nodes, [resolve(r) for r in structure.wrt], flow)
    present = [g for g in grads if g is not None]
    graph, residuals = _close(backward.build(present), seeds, known)
    return Plan(graph, residuals, tuple(g is not None for g in grads))


def emit_broadcasting(b: Builder, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Emit `op`; the tape lets pointwise operands broadcast, the IR wants it said."""
    if isinstance(op, Pointwise) and len(operands) > 1:
        shape = np.broadcast_shapes(*(v.shape for v in operands))
        operands = [v if v.shape == shape else b(BroadcastTo(shape), v) for v in operands]
    return b.emit(op, *operands)


def _close(
    graph: Graph, seeds: Sequence[Value], known: dict[Value, tuple[int, int]]
) -> tuple[Graph, tuple[tuple[int, int], ...]]:
    """Bind free values to saved data, recomputing those that follow from it (broadcast residuals)."""
    b = Builder()
    residuals: list[tuple[int, int]] = []
    env: dict[Value, Value] = {}

    def bind(value: Value) -> None:
        if value in env:
            return
        if value in known:
            env[value] = b.input(value.type)
            residuals.append(known[value])
            return
        if value.node is None:
            raise InternalError(f"the gradient needs a {value.type} that the tape did not keep")
        for operand in value.node.operands:
            bind(operand)
        b.copy(value.node, env)

    defined = {*seeds, *(r for node in graph.nodes for r in node.results)}
    for node in graph.nodes:
        for v in node.operands:
            if v not in defined:
                bind(v)
    for v in graph.outputs:
        if v not in defined:
            bind(v)
    for seed in seeds:
        env[seed] = b.input(seed.type)
    for node in graph.nodes:
        b.copy(node, env)
    return b.build([env[v] for v in graph.outputs]), tuple(residuals)
