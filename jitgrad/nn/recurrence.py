"""The time loop of recurrent layers: one scan over the gates' share of the input, for all lengths the same.

The body of the scan is made once per kind of layer and types, and so has one gradient and one compiled form, in eager
and in compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.ir.control import Scan
from jitgrad.ir.graph import Graph
from jitgrad.ir.instantiate import concrete
from jitgrad.ir.types import TensorType

from ..compiler.body import trace_body
from ..functions.control_graph import apply_control
from ..functions.joining import stack
from ..memo import Memo
from ..mode import local
from ..tensor import Tensor
from . import functional as F
from .rnn_cells import gru_step, lstm_step, rnn_step


class Weights(NamedTuple):
    """What a step multiplies by: of the hidden state, with a bias or none, and for a projection of the new one.

    `input_bias` is to be added to the gates' share of the input: by the step, which reads them anyway.
    """

    hidden: Tensor
    bias: Tensor | None
    projection: Tensor | None
    input_bias: Tensor | None = None

    def given(self) -> list[Tensor]:
        """Those that there are."""
        return [t for t in self if t is not None]


def step(mode: str, gates: Any, states: Sequence[Any], weights: Weights) -> list[Any]:
    """The states after one step of a layer of kind `mode`, given the gates' share of the input [n, gates]."""
    hidden = F.linear(states[0], weights.hidden, weights.bias)
    if weights.input_bias is not None:
        gates = gates + weights.input_bias
    if mode == "GRU":
        return [gru_step(gates, hidden, states[0])]
    if mode == "LSTM":
        new, cell = lstm_step(gates + hidden, states[1])
        return [new if weights.projection is None else F.linear(new, weights.projection), cell]
    return [rnn_step(gates, hidden, F.tanh if mode == "RNN_TANH" else F.relu)]


_bodies: Memo[Graph] = Memo(limit=256)


def _body(mode: str, types: tuple[TensorType, ...], count: int, weights: Weights) -> Graph:
    """The body of the scan: states, gates and weights to the next states, and the hidden one for the stack."""
    present = tuple(t is not None for t in weights)
    key = (mode, types, present)
    found = _bodies.get(key)
    if found is not None:
        return found

    def run(given: list[Tensor]) -> list[Tensor]:
        rest = iter(given[count + 1 :])
        own = Weights(*(next(rest) if p else None for p in present))  # type: ignore[arg-type]
        after = step(mode, given[count], given[:count], own)
        return [*after, after[0]]

    body = trace_body(None, types, run)
    for node in body.nodes:
        node.location = None  # the scan's own says where the layer is called
    return _bodies.add(key, body.graph(body.inputs))


def recur(
    mode: str, gates: Any, states: Sequence[Any], weights: Weights, reverse: bool = False
) -> tuple[Any, list[Any]]:
    """All steps of `gates` [t, n, gates], from the last one on if `reverse`: hidden states [t, n, width], last states.

    With autocast, where a state may change its dtype in the first step, the loop is Python's.
    """
    if local.mode.autocast is not None:
        order = list(range(gates.shape[0]))
        outputs: list[Any] = [None] * len(order)
        for t in reversed(order) if reverse else order:
            states = step(mode, gates[t], states, weights)
            outputs[t] = states[0]
        return stack(outputs), list(states)
    count = len(states)
    slice_type = gates.type_.with_shape(tuple(gates.shape[1:]))
    given = weights.given()
    types = tuple(map(concrete, (*(t.type_ for t in states), slice_type, *(t.type_ for t in given))))
    op = Scan(_body(mode, types, count, weights), count, 1, reverse)
    *last, output = apply_control(op, [*states, gates, *given])
    return output, last
