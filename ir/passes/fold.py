"""Constant folding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..builder import Builder
from ..dtypes import DType
from ..graph import Graph, Node, Value
from ..interpreter import apply_reference
from ..op import Op, Pointwise, View
from ..ops.creation import Constant, Full
from ..rewrite import Rules, rewrite
from ..tracked import Tracked, computed
from .base import Pass
from .literals import array_of, element_of, emit_array, made_by, number_of

_KNOWN: Final = (Full, Constant)


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Computes what depends on constants alone, by the ops' references.

    A `Full` stays a `Full`, whatever its size: pointwise ops are computed for one element, views pass it on.
    Other constants are folded if all operands and results together have at most `limit` elements. `Iota` is
    no constant, since kernels make it out of nothing. Random ops and effects are left alone, and so is what
    raises.
    """

    limit: int = 4096
    name = "fold"

    def apply(self, graph: Graph) -> Graph:
        """A rewriting with one rule for all ops."""
        return rewrite(graph, self.rules())

    def rules(self) -> Rules:
        """The rule, as a table."""
        rules = Rules()
        rules(Op)(self._rule)
        return rules

    def _rule(self, b: Builder, node: Node) -> Sequence[Value] | None:
        op = node.op
        if isinstance(op, Constant) and node.result.type.numel <= self.limit:
            value = emit_array(b, op.literal.array, node.result.type)
            return None if made_by(value, Constant) else (value,)
        makers = [v.node.op if v.node is not None else None for v in node.operands]
        if not makers or op.random or op.effect or not all(isinstance(m, _KNOWN) for m in makers):
            return None
        if all(isinstance(m, Full) for m in makers):
            if isinstance(op, View):
                t = node.result.type
                return (b(Full(t.shape, t.dtype, number_of(node.operands[0]), t.device)),)
            if isinstance(op, Pointwise):
                return self._element(b, node)
        numel = sum(v.type.numel for v in (*node.operands, *node.results))
        if isinstance(numel, Tracked) or numel > self.limit:  # what varies is computed each time
            return None
        return self._compute(b, node, [array_of(v) for v in node.operands])

    def _element(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """A pointwise op of `Full`s, for one element."""
        fulls = [made_by(v, Full) for v in node.operands]
        values, kinds = tuple([f.value for f in fulls if f]), tuple([f.dtype for f in fulls if f])
        if not any(isinstance(x, Tracked) for x in values):
            return self._compute(b, node, [element_of(v) for v in node.operands])
        t = node.result.type
        return (b(Full(t.shape, t.dtype, computed(_number, node.op, values, kinds), t.device)),)

    def _compute(self, b: Builder, node: Node, arrays: Sequence[Any]) -> Sequence[Value] | None:
        try:
            results = apply_reference(node.op, arrays)
        except Exception:  # an index out of range, say: it must be raised when the graph runs, if it does
            return None
        return [emit_array(b, np.asarray(x), v.type) for x, v in zip(results, node.results, strict=True)]


def _number(op: Op, values: Sequence[Any], kinds: Sequence[DType]) -> Any:
    """What `op` gives for these numbers."""
    with np.errstate(all="ignore"):
        (result,) = apply_reference(op, [np.asarray(x, t.np) for x, t in zip(values, kinds, strict=True)])
    return float(result) if result.dtype.kind not in "biuc" else result.item()
