"""Control flow in a trace: functions become graphs, and the call one op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.control import Cond, Scan, WhileLoop
from jitgrad.ir.control.activity import active_results
from jitgrad.ir.graph import Value
from jitgrad.ir.op import Op

from ..compiler.body import Body, Uncapturable, trace_body
from ..compiler.tracer import Tracer
from ..creation import arange
from ..dispatch import apply_all
from ..mode import local
from ..random import random_state
from ..tensor import Tensor

Function = Callable[[list[Tensor]], Sequence[Tensor]]


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


def _refuse_draws(*bodies: Body) -> None:
    """How often a branch is taken or a step is done is not known, and so not how many numbers are drawn."""
    if any(body.draws for body in bodies):
        raise Uncapturable("random numbers are drawn")


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
    _refuse_draws(*bodies)
    captured, inputs = _join(bodies)
    graphs = [body.graph([*body.inputs, *more]) for body, more in zip(bodies, inputs, strict=True)]
    return apply_control(Cond(*graphs), [predicate, *operands, *captured])


def while_loop(tracer: Tracer, condition: Function, body: Function, carried: Sequence[Tensor]) -> Any:
    """`body` of the carries while `condition` holds."""
    types = [t.type_ for t in carried]
    bodies = [trace_body(tracer, types, f) for f in (condition, body)]
    _refuse_draws(*bodies)
    captured, inputs = _join(bodies)
    graphs = [b.graph([*b.inputs, *more]) for b, more in zip(bodies, inputs, strict=True)]
    return apply_control(WhileLoop(*graphs, len(carried)), [*carried, *captured])


def scan(
    tracer: Tracer | None, step: Function, carried: Sequence[Tensor], sequences: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, ...]:
    """`step` of carries and slices, one slice after another: the last carries, then the stacks."""
    slices = [t.type_.with_shape(tuple(t.shape[1:])) for t in sequences]
    body = trace_body(tracer, [*(t.type_ for t in carried), *slices], step)
    length = sequences[0].shape[0]
    drawn = [random_state(d.generator, d.draws * length) for d in body.draws]
    offsets = [_offsets(start, d.draws, length, reverse) for d, (_, start) in zip(body.draws, drawn, strict=True)]
    graph = body.graph(
        [*body.inputs, *(d.offset for d in body.draws), *(v for _, v in body.captured), *(d.seed for d in body.draws)]
    )
    op = Scan(graph, len(carried), len(sequences) + len(offsets), reverse)
    return apply_control(op, [*carried, *sequences, *offsets, *(t for t, _ in body.captured), *(s for s, _ in drawn)])


def _offsets(start: Tensor, draws: int, length: int, reverse: bool) -> Tensor:
    """Where each step's random numbers start, in the order of the slices."""
    steps: Any = arange(length)
    if reverse:
        steps = steps.flip(0)
    offsets: Tensor = start + steps * draws
    return offsets
