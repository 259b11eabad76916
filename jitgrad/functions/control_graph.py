"""Control flow in a trace: functions become graphs, and the call one op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.builder import Builder
from jitgrad.ir.control import Cond, Scan, WhileLoop
from jitgrad.ir.control.activity import active_results
from jitgrad.ir.dtypes import int64
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.op import Op
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.types import TensorType

from ..compiler.body import Body, Uncapturable, trace_body
from ..compiler.tracer import Tracer
from ..creation import arange
from ..dispatch import apply_all
from ..mode import local
from ..random import random_state
from ..tensor import Tensor

Function = Callable[[list[Tensor]], Sequence[Tensor]]
_SCALAR = TensorType((), int64)


def apply_control(op: Op, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The results of a control-flow op; those that no gradient reaches require none.

    A scan that may be differentiated leaves what its gradient uses.
    """
    needs = [local.mode.grad and t._requires_grad for t in operands]
    active = active_results(op, needs)
    count = len(active)
    if isinstance(op, Scan) and any(active):
        op = _with_residuals(op, tuple(needs))
    results = apply_all(op, *operands)[:count]
    for t, a in zip(results, active, strict=True):
        if not a and t._requires_grad:
            t._node, t._index, t._requires_grad = None, 0, False
    return results


@functools.lru_cache(256)
def _with_residuals(op: Scan, needs: tuple[bool, ...]) -> Scan:
    """The same op for the same op, so that what is compiled for it is found again."""
    return op.with_residuals(needs)


class _Streams:
    """The generators that some bodies of one op draw from: operands of the op, and inputs of its graphs.

    How often a branch is taken or a step is done is not known before, and so not how many numbers are drawn: the graphs
    say that themselves.
    """

    def __init__(self, bodies: Sequence[Body]) -> None:
        self.of_bodies = [{id(d.generator): d for d in body.draws} for body in bodies]
        self.generators = list({id(d.generator): d.generator for body in bodies for d in body.draws}.values())
        states = [random_state(g, 0) for g in self.generators]
        self.seeds, self.offsets = [seed for seed, _ in states], [offset for _, offset in states]

    def seeds_of(self, k: int) -> list[Value]:
        """The inputs of body `k` for seeds."""
        return [self._of(k, g, "seed") for g in self.generators]

    def offsets_of(self, k: int) -> list[Value]:
        """Those for where numbers start."""
        return [self._of(k, g, "offset") for g in self.generators]

    def taken(self, k: int, b: Builder) -> list[Value]:
        """How many numbers body `k` draws, by generator."""
        found = [self.of_bodies[k].get(id(g)) for g in self.generators]
        return [d.taken if d is not None and d.taken is not None else b(Full((), int64, 0)) for d in found]

    def advance(self, tracer: Tracer, taken: Sequence[Tensor]) -> None:
        """So many have been drawn."""
        for generator, count in zip(self.generators, taken, strict=True):
            tracer.advance(generator, count)

    def _of(self, k: int, generator: Any, name: str) -> Value:
        draw = self.of_bodies[k].get(id(generator))
        return Value(_SCALAR) if draw is None else getattr(draw, name)


def _join(bodies: Sequence[Body]) -> tuple[list[Tensor], list[list[Value]]]:
    """All tensors from outside that some of `bodies` use, and the inputs of each for them."""
    tensors = {id(t): t for body in bodies for t, _ in body.captured}
    inputs = []
    for body in bodies:
        known = {id(t): v for t, v in body.captured}
        types = {id(t): v.type for other in bodies for t, v in other.captured}
        inputs.append([known.get(key) or Value(types[key]) for key in tensors])
    return list(tensors.values()), inputs


def cond(tracer: Tracer, predicate: Tensor, functions: Sequence[Function], operands: Sequence[Tensor]) -> Any:
    """One of two functions of the operands."""
    types = [t.type_ for t in operands]
    bodies = [trace_body(tracer, types, f) for f in functions]
    captured, inputs = _join(bodies)
    streams = _Streams(bodies)
    graphs = []
    for k, (body, more) in enumerate(zip(bodies, inputs, strict=True)):
        b = Builder()
        given = [*body.inputs, *more, *streams.offsets_of(k), *streams.seeds_of(k)]
        taken = streams.taken(k, b)
        graphs.append(body.graph(given, b.nodes, taken))
    found = apply_control(Cond(*graphs), [predicate, *operands, *captured, *streams.offsets, *streams.seeds])
    count = len(found) - len(streams.generators)
    streams.advance(tracer, found[count:])
    return found[:count]


def while_loop(tracer: Tracer, condition: Function, body: Function, carried: Sequence[Tensor]) -> Any:
    """`body` of the carries while `condition` holds.

    Where numbers are drawn, it is carried where those of the condition start, and where those of the body do.
    """
    types = [t.type_ for t in carried]
    bodies = [trace_body(tracer, types, f) for f in (condition, body)]
    captured, inputs = _join(bodies)
    streams = _Streams(bodies)
    if any(d.more is not None for d in bodies[0].draws):
        raise Uncapturable("a condition of a loop draws as many random numbers as values say")
    unused = [Value(_SCALAR) for _ in streams.generators]
    asked = [d.draws if (d := streams.of_bodies[0].get(id(g))) is not None else 0 for g in streams.generators]
    b = Builder()
    taken = streams.taken(1, b)
    asks = [b(Add(), start, n) for start, n in zip(streams.offsets_of(1), taken, strict=True)]
    goes_on = [b(Add(), start, b(Full((), int64, n))) for start, n in zip(asks, asked, strict=True)]
    given = [[*bodies[0].inputs, *streams.offsets_of(0), *unused], [*bodies[1].inputs, *unused, *streams.offsets_of(1)]]
    graphs = [
        bodies[0].graph([*given[0], *inputs[0], *streams.seeds_of(0)]),
        bodies[1].graph([*given[1], *inputs[1], *streams.seeds_of(1)], b.nodes, [*asks, *goes_on]),
    ]
    starts = [t + n for t, n in zip(streams.offsets, asked, strict=True)]  # type: ignore[operator]
    count = len(carried)
    op = WhileLoop(*graphs, count + 2 * len(starts))
    found = apply_control(op, [*carried, *streams.offsets, *starts, *captured, *streams.seeds])
    ends = found[count + len(starts) :]
    streams.advance(tracer, [end - start for end, start in zip(ends, streams.offsets, strict=True)])  # type: ignore[operator]
    return found[:count]


def scan(
    tracer: Tracer | None, step: Function, carried: Sequence[Tensor], sequences: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, ...]:
    """`step` of carries and slices, one slice after another: the last carries, then the stacks."""
    slices = [t.type_.with_shape(tuple(t.shape[1:])) for t in sequences]
    body = trace_body(tracer, [*(t.type_ for t in carried), *slices], step)
    if any(d.more is not None for d in body.draws):
        return _drawing_scan(tracer, body, carried, sequences, reverse)
    length = sequences[0].shape[0]
    drawn = [random_state(d.generator, d.draws * length) for d in body.draws]
    offsets = [_offsets(start, d.draws, length, reverse) for d, (_, start) in zip(body.draws, drawn, strict=True)]
    graph = body.graph(
        [*body.inputs, *(d.offset for d in body.draws), *(v for _, v in body.captured), *(d.seed for d in body.draws)]
    )
    op = Scan(graph, len(carried), len(sequences) + len(offsets), reverse)
    return apply_control(op, [*carried, *sequences, *offsets, *(t for t, _ in body.captured), *(s for s, _ in drawn)])


def _drawing_scan(
    tracer: Tracer | None, body: Body, carried: Sequence[Tensor], sequences: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, ...]:
    """A scan whose steps draw as many numbers as values say: where they start is carried."""
    if tracer is None:
        raise Uncapturable("as many random numbers are drawn as values say")
    streams, b, n = _Streams([body]), Builder(), len(carried)
    ends = [b(Add(), start, count) for start, count in zip(streams.offsets_of(0), streams.taken(0, b), strict=True)]
    given = [*body.inputs[:n], *streams.offsets_of(0), *body.inputs[n:]]
    graph = Graph(
        [*given, *(v for _, v in body.captured), *streams.seeds_of(0)], [*body.nodes, *b.nodes],
        [*body.outputs[:n], *ends, *body.outputs[n:]],
    )  # fmt: skip
    op = Scan(graph, n + len(ends), len(sequences), reverse)
    tensors = [*carried, *streams.offsets, *sequences, *(t for t, _ in body.captured), *streams.seeds]
    found = apply_control(op, tensors)
    taken = [end - start for end, start in zip(found[n : n + len(ends)], streams.offsets, strict=True)]  # type: ignore[operator]
    streams.advance(tracer, taken)
    return (*found[:n], *found[n + len(ends) :])


def _offsets(start: Tensor, draws: int, length: int, reverse: bool) -> Tensor:
    """Where each step's random numbers start, in the order of the slices."""
    steps: Any = arange(length)
    if reverse:
        steps = steps.flip(0)
    offsets: Tensor = start + steps * draws
    return offsets
