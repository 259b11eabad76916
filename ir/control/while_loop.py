"""A loop that goes on while a condition holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..autodiff import drop_dead, pullback, zeros
from ..builder import Builder
from ..errors import ArgumentError
from ..graph import Graph, Value
from ..interpreter import run
from ..op import Array, Cotangents, Op, Values, op
from ..ops.arithmetic import Add, Sub
from ..ops.comparison import Gt, Lt
from ..ops.creation import full_like, zeros_like
from ..types import TensorType
from .flow import active_carries, given_flow
from .signature import check_carries, check_inputs, check_predicate


class _Loop(Op):
    """What the loop and its gradient share."""

    condition: Graph
    body: Graph
    carries: int

    def check(self, operands: Sequence[TensorType]) -> None:
        """Raise unless condition and body fit the carries and the values seen whole."""
        if self.carries < 1 or len(operands) < self.carries:
            raise ArgumentError(f"{self.name}: {self.carries} carries of {len(operands)} values")
        check_inputs(self.name, "the condition", self.condition, operands)
        check_inputs(self.name, "the body", self.body, operands)
        check_carries(self.name, self.body, self.carries)
        if len(self.condition.outputs) != 1 or len(self.body.outputs) != self.carries:
            raise ArgumentError(f"{self.name}: the condition must give one value, and the body {self.carries}")
        check_predicate(self.name, "what the condition gives", self.condition.outputs[0].type)

    def states(self, operands: Sequence[Array]) -> list[list[Array]]:
        """The carries before each step, and after the last."""
        found, rest = [list(operands[: self.carries])], operands[self.carries :]
        while run(self.condition, [*found[-1], *rest])[0]:
            found.append(run(self.body, [*found[-1], *rest]))
        return found


@op
class WhileLoop(_Loop):
    """`body` applied to `carries` values again and again, as long as `condition` of them is true.

    Both graphs take the carries, then values that every step sees; the condition gives a 0-d bool, the body the next
    carries. The results are the last carries.

    >>> import numpy as np
    >>> from jitgrad.ir.parser import parse
    >>> condition = parse("graph(%x: f32[], %n: f32[]) -> (bool[]) { %c = lt(%x, %n) : bool[] return %c }")
    >>> body = parse("graph(%x: f32[], %n: f32[]) -> (f32[]) { %y = add(%x, %x) : f32[] return %y }")
    >>> float(WhileLoop(condition, body, 1).reference(np.float32(1), np.float32(100))[0])
    128.0
    """

    condition: Graph
    body: Graph
    carries: int
    name = "while_loop"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The carries' types."""
        self.check(operands)
        return tuple(operands[: self.carries])

    def reference(self, *operands: Array) -> Array:
        """Both graphs interpreted."""
        state, rest = list(operands[: self.carries]), operands[self.carries :]
        while run(self.condition, [*state, *rest])[0]:
            state = run(self.body, [*state, *rest])
        return tuple(state)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """A `WhileGradient`."""
        wanted = [n and v.type.dtype.is_differentiable for n, v in zip(needs, operands, strict=True)]
        active = active_carries(self.body, self.carries, wanted)
        carries = tuple(k for k, a in enumerate(active) if a)
        whole = tuple(k for k, w in enumerate(wanted) if w and k >= self.carries)
        given = [zeros_like(b, results[k]) if cotangents[k] is None else cotangents[k] for k in carries]
        pull = _step_back(self.body, carries, whole)
        gradient = WhileGradient(self.condition, self.body, pull, self.carries, carries, whole)
        found = dict(zip((*carries, *whole), b.emit(gradient, *operands, *given), strict=True))  # type: ignore[arg-type]
        return [found.get(k) if need else None for k, need in enumerate(needs)]


def _step_back(body: Graph, carries: Sequence[int], whole: Sequence[int]) -> Graph:
    """One step back: the body's inputs, cotangents of `carries` and running sums for `whole`, to the next of these."""
    b = Builder()
    inputs = [b.input(v.type, v.name) for v in body.inputs]
    given = [b.input(inputs[k].type) for k in (*carries, *whole)]
    outputs = b.inline(body, inputs)
    cotangents, sums = given[: len(carries)], given[len(carries) :]
    flow = given_flow(b, [outputs[k] for k in carries], cotangents)
    found = pullback(b, list(b.nodes), [inputs[k] for k in (*carries, *whole)], flow)
    grads = [zeros(b, v.type) if g is None else g for g, v in zip(found[: len(carries)], cotangents, strict=True)]
    totals = [s if g is None else b(Add(), s, g) for g, s in zip(found[len(carries) :], sums, strict=True)]
    drop_dead(b, 0, [*grads, *totals])
    return b.build([*grads, *totals])


@op
class WhileGradient(_Loop):
    """The gradient of a `WhileLoop`: its steps again, their carries kept, then `pull` for each, the last one first.

    Operands: those of the loop, then the cotangents of the carries `active`. `pull` takes what the body takes, those
    cotangents, and a running sum for each operand of `whole`; it gives the cotangents before the step and the sums. So
    do the results for the whole loop.
    """

    condition: Graph
    body: Graph
    pull: Graph
    carries: int
    active: tuple[int, ...]
    whole: tuple[int, ...]
    name = "while_gradient"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The types of what is differentiated by."""
        count = len(operands) - len(self.active)
        self.check(operands[:count])
        want = tuple(operands[k] for k in (*self.active, *self.whole))
        check_inputs(self.name, "a step back", self.pull, [*operands[:count], *want])
        return want

    def reference(self, *operands: Array) -> Array:
        """The graphs interpreted."""
        count = len(operands) - len(self.active)
        rest = operands[self.carries : count]
        flow = [*operands[count:], *(np.zeros_like(operands[k]) for k in self.whole)]
        for state in reversed(self.states(operands[:count])[:-1]):
            flow = run(self.pull, [*state, *rest, *flow])
        return tuple(flow)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Loops that keep nothing, and so go through the first steps anew for each step back.

        This is what the gradient's own gradient is made of.
        """
        count = len(operands) - len(self.active)
        state, rest = operands[: self.carries], operands[self.carries : count]
        sums = [zeros_like(b, operands[k]) for k in self.whole]
        flow = [*operands[count:], *sums]
        step = TensorType((), dtypes.int64)
        steps = b.emit(self._counted(), zeros(b, step), *state, *rest)[0]
        back = _going_back(self, [v.type for v in state], [v.type for v in rest], [v.type for v in flow])
        return b.emit(back, steps, *flow, *state, *rest)[1:]

    def _counted(self) -> WhileLoop:
        """The loop with a count of its steps in front of the carries."""
        return WhileLoop(_with_counter(self.condition), _counting(self.body), self.carries + 1)


def _with_counter(graph: Graph) -> Graph:
    """`graph` with another input in front, which it does not use."""
    return Graph([Value(TensorType((), dtypes.int64)), *graph.inputs], graph.nodes, graph.outputs)


def _counting(body: Graph) -> Graph:
    """`body` with a count in front."""
    b = Builder()
    count = b.input(TensorType((), dtypes.int64))
    inputs = [b.input(v.type, v.name) for v in body.inputs]
    after = b(Add(), count, full_like(b, count, 1))
    return b.build([after, *b.inline(body, inputs)])


def _going_back(
    loop: WhileGradient, state: Sequence[TensorType], rest: Sequence[TensorType], flow: Sequence[TensorType]
) -> WhileLoop:
    """A loop over (steps left, flow), which sees the carries that the loop starts with."""
    scalar = TensorType((), dtypes.int64)
    types = [scalar, *flow, *state, *rest]
    b = Builder()
    left, *_ = [b.input(t) for t in types]
    condition = b.build([b(Gt(), left, zeros_like(b, left))])
    b = Builder()
    left, *others = [b.input(t) for t in types]
    before = b(Sub(), left, full_like(b, left, 1))
    n = len(flow)
    flows, start, seen = others[:n], others[n : n + len(state)], others[n + len(state) :]
    again = b.emit(_up_to(loop.body, loop.carries), zeros_like(b, left), *start, before, *seen)[1:]
    return WhileLoop(condition, b.build([before, *b.inline(loop.pull, [*again, *seen, *flows])]), 1 + n)


def _up_to(body: Graph, carries: int) -> WhileLoop:
    """A loop over (count, carries) that does as many steps as its first value seen whole says."""
    scalar = TensorType((), dtypes.int64)
    state, rest = [v.type for v in body.inputs[:carries]], [v.type for v in body.inputs[carries:]]
    types = [scalar, *state, scalar, *rest]
    b = Builder()
    inputs = [b.input(t) for t in types]
    condition = b.build([b(Lt(), inputs[0], inputs[carries + 1])])
    b = Builder()
    inputs = [b.input(t) for t in types]
    after = b(Add(), inputs[0], full_like(b, inputs[0], 1))
    stepped = b.inline(body, [*inputs[1 : carries + 1], *inputs[carries + 2 :]])
    return WhileLoop(condition, b.build([after, *stepped]), carries + 1)
