"""A choice between two graphs."""

from __future__ import annotations

from collections.abc import Sequence

from ..autodiff import drop_dead, pullback, zeros
from ..builder import Builder
from ..errors import ArgumentError, ShapeError
from ..graph import Graph, Value
from ..interpreter import run
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .flow import given_flow
from .signature import check_inputs, check_predicate


@op
class Cond(Op):
    """`then` applied to the operands after the first where that is true, else `otherwise`; one of them is run.

    The first operand is a 0-d bool. Both graphs take the other operands and give values of the same types.

    >>> import numpy as np
    >>> from jitgrad.ir.parser import parse
    >>> text = "graph(%x: f32[2]) -> (f32[2]) {{ %y = {}(%x) : f32[2] return %y }}"
    >>> op = Cond(parse(text.format("neg")), parse(text.format("abs")))
    >>> op.reference(np.array(True), np.array([1, -2], np.float32))[0].tolist()
    [-1.0, 2.0]
    """

    then: Graph
    otherwise: Graph
    name = "cond"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """What both graphs give."""
        if not operands:
            raise ArgumentError("cond: a predicate is missing")
        check_predicate(self.name, "the predicate", operands[0])
        check_inputs(self.name, "the branch taken if true", self.then, operands[1:])
        check_inputs(self.name, "the branch taken if false", self.otherwise, operands[1:])
        left, right = (tuple(v.type for v in g.outputs) for g in (self.then, self.otherwise))
        if len(left) != len(right):
            raise ArgumentError(f"cond: the branches give {len(left)} and {len(right)} values")
        for i, (x, y) in enumerate(zip(left, right, strict=True)):
            if x != y:
                raise ShapeError(f"cond: value {i} is {x} if true and {y} if false; they must be equal")
        return left

    def reference(self, *operands: Array) -> Array:
        """The chosen graph, interpreted."""
        predicate, *rest = operands
        return tuple(run(self.then if predicate else self.otherwise, rest))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """A choice between the branches' gradients, which compute what they need of the branch again."""
        present = [k for k, g in enumerate(cotangents) if g is not None]
        graphs = [_gradient(g, present, needs[1:]) for g in (self.then, self.otherwise)]
        flows = [k for k in range(len(needs) - 1) if any(outputs[k] is not None for _, outputs in graphs)]
        if not flows:
            return [None] * len(needs)
        types = [v.type for v in operands[1:]]
        closed = [inner.build([outputs[k] or zeros(inner, types[k]) for k in flows]) for inner, outputs in graphs]
        given = [g for g in cotangents if g is not None]
        found = dict(zip(flows, b.emit(Cond(*closed), *operands, *given), strict=True))
        return [None, *(found.get(k) for k in range(len(types)))]


def _gradient(graph: Graph, present: Sequence[int], needs: Sequence[bool]) -> tuple[Builder, list[Value | None]]:
    """The gradient of a branch under construction, and the cotangent of each input that needs one."""
    b = Builder()
    inputs = [b.input(v.type, v.name) for v in graph.inputs]
    cotangents = [b.input(graph.outputs[k].type) for k in present]
    outputs = b.inline(graph, inputs)
    flow = given_flow(b, [outputs[k] for k in present], cotangents)
    found = pullback(b, list(b.nodes), [v for v, need in zip(inputs, needs, strict=True) if need], flow)
    rest = iter(found)
    grads = [next(rest) if need else None for need in needs]
    drop_dead(b, 0, grads)
    return b, grads
