"""Captures a function that a control-flow op calls (a branch, a step of a loop) as a graph of its own.

While it is traced, tensors from outside become inputs of the graph at their first use, so that closures and
parameters are operands of the op and get gradients. What the graph can't hold (a number that Python needs, a write to
a tensor from outside, a tensor that is kept) ends the attempt with `Uncapturable`, and the function runs as plain
Python.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.dtypes import DType, int64
from jitgrad.ir.errors import OperationError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.instantiate import concrete
from jitgrad.ir.op import Op
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.types import TensorType

from ..errors import located
from ..mode import local
from ..tape import TapeNode
from ..tensor import Tensor, wrap
from .tracer import Tracer

_SCALAR = TensorType((), int64)
_KEPT = (
    "a function of cond, while_loop, scan or map keeps a tensor that it makes (in a list, in an attribute), which it "
    "computes anew for each step; let it return the tensor instead"
)


class Uncapturable(BaseException):
    """Why a function can't be a graph. No `Exception`, so that handlers in the function let it pass."""


@dataclass(eq=False)
class Draw:
    """What a step draws from a generator: how many counters, and the inputs that say where they start.

    `more` is how many beside `draws`, if only the graph says that; `taken` is all of them, set when the step is traced.
    """

    generator: Any
    draws: int
    seed: Value
    offset: Value
    more: Tensor | None = None
    taken: Value | None = None


@dataclass(eq=False)
class Body:
    """A captured function: `inputs` as given, `captured` tensors from outside with their inputs, and `draws`."""

    inputs: Sequence[Value]
    nodes: Sequence[Node]
    outputs: Sequence[Value]
    captured: Sequence[tuple[Tensor, Value]]
    draws: Sequence[Draw]

    def graph(self, inputs: Sequence[Value], nodes: Sequence[Node] = (), outputs: Sequence[Value] = ()) -> Graph:
        """The graph, its inputs in this order, with further nodes and outputs at the end."""
        return Graph(inputs, [*self.nodes, *nodes], [*self.outputs, *outputs])


class BodyTracer(Tracer):
    """The tracer of one such function, inside the trace `outer` (none if a layer builds its own loop)."""

    cuts_in_place = False

    def __init__(self, outer: Tracer | None) -> None:
        super().__init__(())
        self.outer = outer
        self.own: set[Value] = set()
        self.captures: dict[int, tuple[Tensor, Value]] = {}
        self.drawn_by: dict[int, Draw] = {}
        if outer is not None:
            self.placement, self.surroundings = outer.placement, outer.surroundings
            self.touched, self.arrays, self.scopes = outer.touched, outer.arrays, outer.scopes
            self.builder.scope, self._location = outer.builder.scope, outer._location

    # values -------------------------------------------------------------------------------------------------

    def given(self, type: TensorType) -> Tensor:
        """A tensor for a new input of the graph. It has a history, so that it is no leaf of gradients."""
        type = concrete(type)
        value = self._input(type)
        t = wrap(value)
        self.note((t,))
        if local.mode.grad and type.dtype.is_differentiable:
            t._requires_grad = True
            t._node = TapeNode(Full(type.shape, type.dtype, 0), (), [], [], (), ())
        return t

    def _input(self, type: TensorType) -> Value:
        value = self.builder.input(type)
        self.own.add(value)
        return value

    def value(self, t: Tensor) -> Value:
        """The value of a tensor, which becomes an input if it is from outside."""
        data = t._data
        if data.__class__ is Value and data in self.own:
            return data  # type: ignore[no-any-return]
        found = self.captures.get(id(t))
        if found is None:
            found = self.captures[id(t)] = t, self._input(concrete(t.type_))
        return found[1]

    def lift(self, x: Any, type: TensorType) -> Value:
        """Saved data of a tape node, perhaps of one from outside."""
        if x.__class__ is Value and x not in self.own:
            return self.value(wrap(x))
        return super().lift(x, type)

    def emit(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append a node."""
        results = super().emit(concrete(op), operands)
        self.own.update(results)
        return results

    def _slot(self, source: Any, type: TensorType) -> Value:
        raise Uncapturable("a tensor is moved to another device, or Python gives a number anew at each call,")

    def host_scalar(self, read: Callable[[], Any], dtype: DType, name: str) -> Tensor:
        """A number that is fetched anew at each call, of the whole."""
        if self.outer is None:
            return super().host_scalar(read, dtype, name)
        return self.outer.host_scalar(read, dtype, name)

    def random_state(self, generator: Any, draws: int) -> tuple[Tensor, Tensor]:
        """Seed and offset; the offset's start is an input, which moves on from step to step."""
        found = self.drawn_by.get(id(generator))
        if found is None:
            found = self.drawn_by[id(generator)] = Draw(generator, 0, self._input(_SCALAR), self._input(_SCALAR))
        step = self.full(_SCALAR, found.draws)
        found.draws += draws
        start = found.offset if found.more is None else self.add(found.offset, self.value(found.more))
        return self.traced(found.seed), self.traced(self.add(start, self.value(step)))

    def advance(self, generator: Any, taken: Tensor) -> None:
        """So many more are used up, of a generator that was asked for its state."""
        found = self.drawn_by[id(generator)]
        found.more = taken if found.more is None else found.more + taken  # type: ignore[operator]

    # what a graph can't hold --------------------------------------------------------------------------------

    def materialise(self, reason: str) -> None:
        """Give up."""
        raise Uncapturable(reason)

    def ask(self, tensors: Sequence[Tensor], question: Any) -> Any:
        """Give up."""
        raise Uncapturable("the value of a tensor was read")

    def ends_before(self, operands: Sequence[Tensor], op: Op | None = None) -> bool:
        """Tensors elsewhere give up; else the trace goes on."""
        return self.placement.end_unless_takes(self, operands)

    def ends_before_write(self, t: Tensor) -> bool:
        """A write to a tensor from outside gives up."""
        self._check_own(self.root(t)[0], "a tensor made outside is written in place")
        return False

    def rebased(self, t: Tensor) -> None:
        """So does giving it another history."""
        self._check_own(t, "a tensor made outside is written in place")

    def _check_own(self, t: Tensor, reason: str) -> None:
        if t._data.__class__ is not Value or t._data not in self.own or t._data in self.builder.inputs:
            raise Uncapturable(reason)

    def read_grad(self, t: Tensor) -> Tensor | None:
        """`t.grad`, of a tensor from outside as the outer trace has it."""
        if self.outer is None or (t._data.__class__ is Value and t._data in self.own):
            return t._grad  # type: ignore[no-any-return]
        return self.outer.read_grad(t)

    def write_grad(self, t: Tensor, grad: Tensor | None) -> None:
        """`t.grad = grad`, of a tensor made here."""
        if t._data.__class__ is not Value or t._data not in self.own:
            raise Uncapturable("a gradient of a tensor made outside is set")
        t._grad = grad

    def drop_grad(self, t: Tensor) -> None:
        """`t.grad = None`; nothing to do where there is none."""
        if self.read_grad(t) is not None:
            self.write_grad(t, None)

    def is_kept(self, results: Sequence[Tensor]) -> bool:
        """Whether something outside holds a tensor made here."""
        bases = [t._view.base for t in results if t._view is not None]
        drawn = [d.more for d in self.drawn_by.values() if d.more is not None]
        own = {id(t) for t in (*results, *bases, *drawn)}
        return any(id(t) not in own and t._data in self.own for t in self.live())


def trace_body(
    outer: Tracer | None, types: Sequence[TensorType], f: Callable[[list[Tensor]], Sequence[Tensor]]
) -> Body:
    """`f` of tensors of `types` as a graph. Raises `Uncapturable`, and what `f` raises."""
    mode = local.mode
    tracer = BodyTracer(outer)
    before, mode.tracer = mode.tracer, tracer
    try:
        given = [tracer.given(t) for t in types]
        inputs: list[Value] = [t._data for t in given]
        results = list(f(given))
        outputs = [tracer.value(t) for t in results]
        for d in tracer.drawn_by.values():
            count = tracer.value(tracer.full(_SCALAR, d.draws))
            d.taken = count if d.more is None else tracer.add(count, tracer.value(d.more))
        del given
        if tracer.is_kept(results):
            gc.collect()
            if tracer.is_kept(results):
                raise located(OperationError(_KEPT))
    finally:
        mode.tracer = before
    if tracer.lost is not None and outer is not None:
        outer.lost = tracer.lost
    return Body(inputs, tracer.builder.nodes, outputs, [*tracer.captures.values()], [*tracer.drawn_by.values()])
