"""Evaluates a graph node by node: by NumPy references, or in any other domain through `apply`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtypes
from .builder import Builder
from .graph import Graph, Value
from .op import Op
from .types import TensorType

Apply = Callable[[Op, Sequence[Any]], Sequence[Any]]


def apply_reference(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    """One op on NumPy arrays: its reference, or its decomposition where it has none."""
    if type(op).reference is not Op.reference:
        out = op.reference(*operands)
        return out if isinstance(out, tuple) else (out,)
    return run(decomposition(op, [_type_of(x) for x in operands]), operands)


def evaluate(graph: Graph, inputs: Sequence[Any], apply: Apply) -> list[Any]:
    """The outputs of `graph` in the domain of `apply`; values are dropped after their last use."""
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    last = {v: i for i, node in enumerate(graph.nodes) for v in node.operands}
    kept = set(graph.outputs)
    for i, node in enumerate(graph.nodes):
        results = apply(node.op, [env[v] for v in node.operands])
        for value, result in zip(node.results, results, strict=True):
            env[value] = result
        for v in node.operands:
            if last[v] == i and v not in kept:
                env.pop(v, None)
    return [env[v] for v in graph.outputs]


def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of `graph` on NumPy arrays: the oracle for every other way to run it."""
    return evaluate(graph, inputs, apply_reference)


def decomposition(op: Op, types: Sequence[TensorType]) -> Graph:
    """The graph of a composite op for operands of these types."""
    return _decomposed(op, tuple(types))


@functools.lru_cache(4096)
def _decomposed(op: Op, types: tuple[TensorType, ...]) -> Graph:
    b = Builder()
    operands = [b.input(t) for t in types]
    return b.build(tuple(op.decompose(b, *operands)))


def _type_of(x: Any) -> TensorType:
    return TensorType(np.shape(x), dtypes.FROM_NUMPY[np.asarray(x).dtype])
