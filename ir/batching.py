"""Many samples at once, as a graph transform: what `vmap` is made of.

`batch_node` applies an op to values some of which have an axis of samples in front, `batch_graph` a whole graph. The op
says how, in one of three ways: by a rule of its own (`batch`), by being `batchable` (the same op, its axes shifted), or
through its decomposition. What says nothing is applied to one sample after the other: `Mapped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import dtypes
from .autodiff import node_vjp
from .builder import Builder
from .graph import Graph, Value
from .interpreter import apply_reference, decomposition
from .op import Array, Cotangents, Op, Values, op
from .ops.broadcast import Sum
from .ops.sample_axis import all_batched, repeated
from .types import TensorType


def batch_node(b: Builder, op: Op, operands: Sequence[Value], batched: Sequence[bool], size: int) -> tuple[Value, ...]:
    """The results of `op` for `size` samples, whose axis is in front of all results and of the `batched` operands."""
    if type(op).has_batch():
        results = op.batch(b, operands, batched, size)
        if results is not None:
            return tuple(results)
    if op.batchable:
        return b.emit(op.shifted(size), *all_batched(b, operands, batched, size))
    if type(op).has_decomposition():
        types = [sample_type(x.type, has) for x, has in zip(operands, batched, strict=True)]
        return batch_graph(b, decomposition(op, types), operands, batched, size)
    return b.emit(Mapped(op, tuple(batched), size), *operands)


def batch_graph(
    b: Builder, graph: Graph, operands: Sequence[Value], batched: Sequence[bool], size: int
) -> tuple[Value, ...]:
    """`graph`, which is for one sample, applied to `operands`; all its outputs get the axis of samples in front."""
    env = dict(zip(graph.inputs, operands, strict=True))
    many = {v for v, has in zip(graph.inputs, batched, strict=True) if has}
    for node in graph.nodes:
        b.location, b.scope = node.location, node.scope
        flags = [v in many for v in node.operands]
        if not any(flags):
            b.copy(node, env)
            continue
        results = batch_node(b, node.op, [env[v] for v in node.operands], flags, size)
        env.update(zip(node.results, results, strict=True))
        many.update(node.results)
    return tuple([env[v] if v in many else repeated(b, env[v], size) for v in graph.outputs])


@dataclass(frozen=True, eq=False)
class BatchedGraph:
    """A graph for `size` samples; `is_mapped` tells whether some op in it goes through them one by one."""

    graph: Graph
    is_mapped: bool


def batched_op(op: Op, types: Sequence[TensorType], batched: Sequence[bool], size: int) -> BatchedGraph:
    """The graph of `op` for operands of these types, that of the samples' axis being part of the `batched` ones'."""
    b = Builder()
    operands = [b.input(t) for t in types]
    results = batch_node(b, op, operands, batched, size)
    return BatchedGraph(b.build(results), any(isinstance(node.op, Mapped) for node in b.nodes))


def sample_type(type: TensorType, batched: bool) -> TensorType:
    """The type of one sample."""
    return type.with_shape(type.shape[1:]) if batched else type


@op
class Mapped(Op):
    """`op` applied to each of `size` samples, one after the other; the `batched` operands have their axis in front.

    >>> import numpy as np
    >>> from jitgrad.ir.ops.math import Tanh
    >>> Mapped(Tanh(), (True,), 2).reference(np.zeros((2, 3)))[0].shape
    (2, 3)
    """

    op: Op
    batched: tuple[bool, ...]
    size: int
    name = "mapped"

    def __post_init__(self) -> None:
        for trait in ("differentiable", "effect", "random"):
            object.__setattr__(self, trait, getattr(self.op, trait))

    def _samples(self, operands: Sequence[TensorType]) -> list[TensorType]:
        return [sample_type(t, has) for t, has in zip(operands, self.batched, strict=True)]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Those of one sample, with the axis of samples in front."""
        return tuple([t.with_shape((self.size, *t.shape)) for t in self.op.infer(*self._samples(operands))])

    def reference(self, *operands: Array) -> Array:
        """A loop."""
        columns: list[list[Any]] = []
        for i in range(self.size):
            sample = [x[i, ...] if has else x for x, has in zip(operands, self.batched, strict=True)]
            columns.append(list(apply_reference(self.op, sample)))
        if columns:
            return tuple([np.stack(x) for x in zip(*columns, strict=True)])
        types = [TensorType(x.shape, dtypes.FROM_NUMPY[x.dtype]) for x in operands]
        return tuple([np.zeros(t.shape, t.dtype.np) for t in self.infer(*types)])

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: the loop is the reference's."""
        return False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The rule of `op`, batched; what is the same for all samples gets the sum of its cotangents."""
        sample = Builder()
        inputs = [sample.input(t) for t in self._samples([x.type for x in operands])]
        outputs = sample.emit(self.op, *inputs)
        rule = Builder()
        seeds = [None if g is None else rule.input(r.type) for g, r in zip(cotangents, outputs, strict=True)]
        grads = node_vjp(rule, sample.nodes[-1], seeds, needs)
        given = [g for g in cotangents if g is not None]
        graph = Graph([*inputs, *outputs, *rule.inputs], rule.nodes, [g for g in grads if g is not None])
        flags = [*self.batched, *[True] * (len(outputs) + len(given))]
        found = iter(batch_graph(b, graph, [*operands, *results, *given], flags, self.size))
        full = [None if g is None else next(found) for g in grads]
        return [g if g is None or has else b(Sum((0,), False), g) for g, has in zip(full, self.batched, strict=True)]


__all__ = ["BatchedGraph", "Mapped", "all_batched", "batch_graph", "batch_node", "batched_op", "sample_type"]
