"""A graph as one op that keeps its operands alone, and is computed again for its gradient: `checkpoint` in the IR."""

from __future__ import annotations

from collections.abc import Sequence

from .autodiff import pullback
from .builder import Builder
from .call import Call
from .graph import Value
from .op import Cotangents, Values, op
from .ops.again import Again
from .ops.arithmetic import Add


@op
class Recompute(Call):
    """`graph` applied to the operands; its gradient uses nothing else, and applies it to them again."""

    name = "recompute"

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The gradient of the graph computed again, once a cotangent is there, from operands like the first ones."""
        when = next(g for g in cotangents if g is not None)
        inputs = [b(Again(), v, when) for v in operands]
        start = len(b.nodes)
        outputs = b.inline(self.graph, inputs)
        nodes = b.nodes[start:]
        flow: dict[Value, Value] = {}
        for v, g in zip(outputs, cotangents, strict=True):
            if g is not None:
                flow[v] = g if v not in flow else b(Add(), flow[v], g)
        grads = iter(pullback(b, nodes, [v for v, need in zip(inputs, needs, strict=True) if need], flow))
        return [next(grads) if need else None for need in needs]
