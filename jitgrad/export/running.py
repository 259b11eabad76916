"""Runs a program: instantiates and compiles its graph for the sizes of a call, once for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jitgrad.ir.call import Call
from jitgrad.ir.config import config
from jitgrad.ir.errors import DeviceError
from jitgrad.ir.graph import Graph
from jitgrad.ir.instantiate import instantiate
from jitgrad.ir.interpreter import evaluate
from jitgrad.ir.types import CPU, Device
from jitgrad.ir.verify import verify

from ..aliasing import storage_of, write
from ..arrays import assign, owned
from ..backend import compile_graph
from ..dispatch import apply_all, record, run_data
from ..dump import observer_for
from ..errors import located
from ..memo import Memo
from ..mode import local
from ..tensor import Tensor, wrap
from .binding import Bound, check_sizes
from .spec import Spec
from .state import State
from .trees import build, leaves

_MAX_KEPT: Final = 64


class Runner:
    """Calls of one program."""

    def __init__(self, spec: Spec, state: State) -> None:
        self.spec = spec
        self.state = state
        self._graphs: Memo[Graph] = Memo(_MAX_KEPT)
        self._executables: Memo[Any] = Memo(_MAX_KEPT)
        self.device = CPU
        self._updates = [(s, s.output) for s in spec.state if s.output is not None]
        self._state_inputs = [(s.input, s.name) for s in spec.state]
        self._count = len(spec.graph.inputs)
        self._updated = frozenset(output for _, output in self._updates)
        self._results = list(dict.fromkeys(leaf.index for leaf in leaves(spec.result)))

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise unless the dimensions may have these lengths."""
        check_sizes(self.spec, sizes, {})

    def graph(self, sizes: Mapping[str, int]) -> Graph:
        """The graph at these sizes, verified when it is made."""
        key = tuple(sizes[name] for name in self.spec.dims)
        found = self._graphs.get(key)
        if found is None:
            found = instantiate(self.spec.graph, sizes)
            verify(found)
            self._graphs.add(key, found)
        return found

    def compile(self, sizes: Mapping[str, int], dump: str | None = None) -> Any:
        """The executable for these sizes; made anew for a dump."""
        key = tuple(sizes[name] for name in self.spec.dims)
        found = self._executables.get(key)
        if found is None or dump is not None:
            graph = self.graph(sizes)
            aliases = {output: s.input for s, output in self._updates}
            observer = observer_for(dump, self.spec.name)
            if observer is not None:
                observer("exported", graph)
            found = compile_graph(graph, name=self.spec.name, aliases=aliases, observer=observer, device=self.device)
            self._executables.add(key, found)
        return found

    def __call__(self, bound: Bound) -> Any:
        """The results of one call."""
        operands = self._operands(bound)
        if local.mode.tracer is not None:
            return self._traced(operands, bound.sizes)
        self._check_devices(bound.tensors.values())
        arrays = [t._data for t in operands]
        outs = self._run(arrays, bound.sizes)
        for s, _ in self._updates:
            storage_of(operands[s.input])._version += 1
        updated = self._updated
        results = {i: wrap(owned(outs[i]) if i in updated else outs[i]) for i in self._results}
        if local.mode.grad and not updated and any(t._requires_grad for t in operands):
            every = [results[i] if i in results else wrap(x) for i, x in enumerate(outs)]
            record(Call(self.graph(bound.sizes)), operands, arrays, every)
        return build(self.spec.result, results, bound.sizes)

    def move(self, device: Device) -> None:
        """Run on this device from now on."""
        if device != self.device:
            self.state.move(device)
            self.device = device
            self._executables = Memo(_MAX_KEPT)

    def _check_devices(self, arguments: Iterable[Tensor]) -> None:
        """Arguments are on the program's device, as its state is, but for numbers on the CPU."""
        for t in arguments:
            if t.device != self.device and (t.ndim or t.device != CPU):
                raise located(
                    DeviceError(
                        "Expected all tensors to be on the same device, but found at least two devices, "
                        f"{self.device} and {t.device}! {self.spec.name} runs on {self.device}; program.to() moves it"
                    )
                )

    def _traced(self, operands: Sequence[Tensor], sizes: Mapping[str, int]) -> Any:
        """The same inside a compiled function, or one that is being exported: op by op, into its graph."""
        outs = evaluate(self.graph(sizes), operands, lambda op, xs: apply_all(op, *xs))
        for s, output in self._updates:
            write(operands[s.input], outs[output], "program")
        return build(self.spec.result, dict(enumerate(outs)), sizes)

    def _operands(self, bound: Bound) -> list[Tensor]:
        found: list[Any] = [None] * self._count
        for i, t in bound.tensors.items():
            found[i] = t
        state = self.state.tensors
        for i, name in self._state_inputs:
            found[i] = state[name]
        return found

    def _run(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> Sequence[Any]:
        if config.compile:
            outs: Sequence[Any] = self.compile(sizes)(arrays)
            return outs
        outs = run_data(self.graph(sizes), arrays)
        for s, output in self._updates:
            assign(arrays[s.input], outs[output])
        return outs
