"""Traces of a call as it is again and again: with optimizer state there, and gradients from the call before.

The first call of a training step makes the optimizer's state. So a first trace finds what is made; that gets its
starting values, and traces from then on read and update it. Everything is put back in the end: no parameter, gradient
or state of the function's objects is another after the export.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from jitgrad.ir.analysis import reaching
from jitgrad.ir.errors import CompileError
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.interpreter import run

from ..arrays import device_of, filled_beside, on_device, on_host, owned
from ..dispatch import run_data
from ..errors import located
from ..optim.optimizer import Optimizer
from ..tensor import Tensor, wrap
from .capture import Captured, ExportTracer, Learned, capture
from .comparing import close
from .dims import Constraint
from .example import Example
from .sizes import SizeRecorder

_NOTHING: Learned = MappingProxyType({})


@dataclass
class _Kept:
    """A tensor that a call made and something keeps, with its value when it was made and at the call's end."""

    tensor: Tensor
    start: Value
    end: Value


class Steady:
    """Traces of an example's function, in the state it is in after a call."""

    def __init__(self, example: Example) -> None:
        self.example = example
        self._grads: list[tuple[Tensor, Any]] = []
        self._optimizers: dict[int, tuple[Optimizer, dict[Any, dict[Any, Any]]]] = {}

    def trace(self, sizes: Mapping[str, int], learned: Learned = _NOTHING) -> tuple[Captured, Sequence[Constraint]]:
        """The trace at these sizes, with the constraints it met; `learned` as in `capture`."""
        recorder = SizeRecorder(sizes)
        example = self.example
        found = capture(example.call, example.tensors, example.types(sizes), recorder, self._remember, learned)
        return found, list(recorder.constraints.values())

    def first(self) -> tuple[Captured, Sequence[Constraint]]:
        """The trace at the example's sizes, after what the first call makes has been made."""
        sizes = self.example.sizes
        start, constraints = self.trace(sizes)
        self._check_numbers(start.tracer)
        kept = _kept(start)
        grads = [t for t, g in start.tracer.grads.values() if g is not None and t._grad is None]
        if not kept and not grads:
            return start, constraints
        self._fill(start.tracer, kept)
        for t in grads:
            self._grads.append((t, t._grad))
            t._grad = wrap(filled_beside(t._data, t.shape, 0))
        later, constraints = self.trace(sizes)
        again = _kept(later)
        self._set_start_values(start, later, kept)
        if again:
            self._fill(later.tracer, again)
            warnings.warn(
                "export: the call keeps tensors in Python objects (attributes, lists); a program does not", stacklevel=5
            )
        return later, constraints

    def _check_numbers(self, tracer: ExportTracer) -> None:
        """Numbers that become arguments must not be changed by the call itself, as by a schedule's step."""
        drawn = {id(v) for _, _, pair in tracer.draws.values() for v in pair}
        for i, number in tracer.host_values.items():
            source = tracer.sources[i]
            if id(tracer.builder.inputs[i]) not in drawn and source.fetch(()) != number:
                raise located(
                    CompileError(
                        f"export: the call changes the number {source} in Python, which a program does not; do that "
                        f"outside (a schedule's step, for one) and pass {source}=... to the program"
                    )
                )

    def restore(self) -> None:
        """Put gradients and the state of optimizers back."""
        for t, grad in self._grads:
            t._grad = grad
        for optimizer, state in self._optimizers.values():
            for key in list(optimizer.state):
                for name in [n for n in optimizer.state[key] if n not in state.get(key, ())]:
                    del optimizer.state[key][name]
                if key not in state:
                    del optimizer.state[key]

    def _remember(self, optimizer: Optimizer) -> None:
        state = {k: dict(v) for k, v in optimizer.state.items()}
        self._optimizers.setdefault(id(optimizer), (optimizer, state))

    # starting values ----------------------------------------------------------------------------------------

    def _fill(self, tracer: ExportTracer, kept: Sequence[_Kept]) -> None:
        """Give kept tensors the numbers that the call computes."""
        wanted = list(dict.fromkeys(k.end for k in kept))
        data = dict(zip(wanted, self._run(tracer, wanted), strict=True))
        for k in kept:
            k.tensor._data, k.tensor._view, k.tensor._node = owned(data[k.end]), None, None

    def _run(self, tracer: ExportTracer, outputs: Sequence[Value]) -> Sequence[Any]:
        """Values of a trace in the user's own call."""
        graph = Graph(tracer.builder.inputs, tracer.builder.nodes, outputs)
        return run_data(graph, self._inputs(tracer)) if outputs else []

    def _inputs(self, tracer: ExportTracer) -> list[Any]:
        known, leaves = tracer.host_values, self.example.tensors
        return [known[i] if i in known else source.fetch(leaves) for i, source in enumerate(tracer.sources)]

    def _set_start_values(self, start: Captured, later: Captured, kept: Sequence[_Kept]) -> None:
        """Set what the first call made, and later ones read, to what it is before the first."""
        used = {r.key: i for i, r in enumerate(later.roles) if r.kind == "captured"}
        updated = {slot for slot, _ in later.updates}
        read = [k for k in kept if id(k.tensor) in used]
        doubtful = False
        for k in read:
            number = _constant(start.tracer, k.start)
            if number is None and used[id(k.tensor)] not in updated:
                raise _located_at(
                    "export: a tensor that one call computes and keeps in a Python object is read by the next one; "
                    "write it in place (copy_), so that it is state, or return it",
                    k.end,
                )
            doubtful |= number is None
            data = k.tensor._data
            k.tensor._data = (
                filled_beside(data, data.shape, 0) if number is None else on_device(number, device_of(data))
            )
        if doubtful and not self._same_step(start, later, read):
            raise located(
                CompileError(
                    "export: the first call does something else than later ones, because it makes an optimizer's state "
                    "out of the data; make one call before the export"
                )
            )

    def _same_step(self, start: Captured, later: Captured, read: Sequence[_Kept]) -> bool:
        """Whether a later call, with zeros as state, does what the first does."""
        a, b = self._outcome(start), self._outcome(later)
        ends = self._run(start.tracer, [k.end for k in read])
        a.update({id(k.tensor): x for k, x in zip(read, ends, strict=True)})
        return a.keys() == b.keys() and all(close(on_host(a[k]), on_host(b[k])) for k in b)

    def _outcome(self, c: Captured) -> dict[Any, Any]:
        """Results, and tensors that a call updates, by what they are."""
        inputs = self._inputs(c.tracer)
        outs = run_data(c.graph, [owned(inputs[slot]) for slot in c.slots])
        updates = {out: c.roles[i] for i, out in c.updates}
        return {
            updates[i].key if i in updates else ("result", i): x
            for i, x in enumerate(outs)
            if i not in updates or updates[i].kind == "captured"
        }


def _kept(c: Captured) -> list[_Kept]:
    """Tensors of a trace that something outside it keeps."""
    tracer = c.tracer
    grads = {id(g) for _, g in tracer.grads.values()}
    if any(id(t) not in grads for t in tracer.live()):
        gc.collect()
    return [_Kept(t, tracer.first_values[id(t)], t._data) for t in tracer.live() if id(t) not in grads]


def _constant(tracer: ExportTracer, value: Value) -> Any:
    """The numbers of a value that depends on no input; None for others."""
    graph = Graph(tracer.builder.inputs, tracer.builder.nodes, [value])
    needed = reaching(graph, [value])
    if value.node is None or any(v.node is None for node in needed for v in node.operands):
        return None
    nodes = [node for node in graph.nodes if node in needed]
    return np.array(run(Graph([], nodes, [value]), [])[0])


def _located_at(message: str, value: Value) -> CompileError:
    error = CompileError(message)
    node = value.node
    error.attach_location(str(node.location) if node is not None and node.location else None)
    return error
