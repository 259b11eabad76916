"""`Program`: a graph with its state, that runs without the code it was exported from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.ir import analysis
from jitgrad.ir.errors import ArgumentError, InvalidGraphError, JitgradError
from jitgrad.ir.graph import Graph, Node
from jitgrad.ir.instantiate import instantiate
from jitgrad.ir.types import Device
from jitgrad.ir.verify import verify

from ..device import as_device
from ..dump import write
from ..dump.notebook import described
from ..errors import located
from .binding import bind
from .checking import problems
from .dims import Constraint, Dim
from .files import Opened, write_file, write_folder
from .running import Runner
from .spec import Signature, Spec
from .state import State
from .writer import program_text


@dataclass(frozen=True)
class Stats:
    """What a program consists of, and what one call does at some sizes."""

    nodes: int
    ops: dict[str, int]
    parameters: int
    state_bytes: int
    flops: int
    bytes: int
    peak_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)


class Program:
    """An exported function: call it like the original, save it, look into it.

    Made by `jitgrad.export` and `jitgrad.load_program`. `state` maps names to tensors; a program of a training step
    updates it at each call. Sizes of named dimensions are taken from the arguments; what a program needs for new ones
    is made at the first call with them and kept.

    >>> import jitgrad as jg
    >>> program = jg.export(jg.nn.Linear(3, 2), (jg.ones(4, 3),), dynamic={"input": {0: "batch"}})
    >>> print(program.signature)
    Linear(input: f32[batch,3]) -> f32[batch,2]
    >>> program(jg.ones(9, 3)).shape
    jitgrad.Size([9, 2])
    """

    def __init__(self, spec: Spec, arrays: Mapping[str, np.ndarray[Any, Any]], opened: Opened | None = None) -> None:
        self._spec = spec
        self._state = State(spec, arrays)
        self._runner = Runner(spec, self._state)
        self._opened = opened

    # what it is ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the function or module."""
        return self._spec.name

    @property
    def signature(self) -> Signature:
        """Arguments, numbers and results with their types."""
        return self._spec.signature

    @property
    def dims(self) -> Mapping[str, Dim]:
        """The dimensions whose lengths may vary, by name."""
        return self._spec.dims

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What must hold of the dimensions, beside their bounds, with the lines that took it for granted."""
        return self._spec.constraints

    @property
    def state(self) -> State:
        """The tensors that the program keeps, by name. Entries may be written in place or assigned."""
        return self._state

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given to `export` as metadata; a copy."""
        return dict(self._spec.metadata)

    @property
    def text(self) -> str:
        """The program as text, with symbolic sizes."""
        return program_text(self._spec)

    @property
    def symbolic_graph(self) -> Graph:
        """The graph with symbolic sizes, for printing and drawing."""
        return self._spec.graph

    def graph(self, sizes: Mapping[str, int] | None = None) -> Graph:
        """The graph at these lengths of the dimensions; those not given are as at export.

        >>> import jitgrad as jg
        >>> program = jg.export(lambda x: x + 1, (jg.ones(4),), dynamic={"x": {0: "n"}})
        >>> program.graph({"n": 6}).outputs[0].type.shape
        (6,)
        """
        chosen = self._sizes(sizes)
        found = instantiate(self._spec.graph, chosen)
        verify(found)
        return found

    def stats(self, sizes: Mapping[str, int] | None = None) -> Stats:
        """Counts, and estimates of the work of one call, at these lengths of the dimensions."""
        graph = self.graph(sizes)
        kinds = {s.name: s.kind for s in self._spec.state}
        return Stats(
            nodes=len(graph.nodes),
            ops=dict(Counter(node.op.name for node in graph.nodes).most_common()),
            parameters=sum(t.numel() for n, t in self._state.items() if kinds[n] == "parameter"),
            state_bytes=sum(t.type_.nbytes for t in self._state.values()),
            flops=sum(map(_flops, graph.nodes)),
            bytes=sum(map(analysis.bytes_moved, graph.nodes)),
            peak_bytes=analysis.peak_bytes(graph),
        )

    # what it does -------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on arguments as in its signature; updates `state` where the program does.

        Gradients flow to arguments and state that require them, through programs that update nothing.
        """
        return self._runner(bind(self._spec, args, kwargs))

    def to(self, device: Any) -> Program:
        """Run on this device from now on, with the state moved there; the program itself."""
        self._runner.move(as_device(device))
        return self

    @property
    def device(self) -> Device:
        """Where the program runs."""
        return self._runner.device

    def check(self, sizes: Mapping[str, int] | None = None) -> list[str]:
        """What is wrong with the program: an empty list for a sound one.

        The graph is verified at these lengths (or those of export, and others that its dimensions allow), run by NumPy
        on random arguments, and compared with what the compiled program gives; weights of a file must be those written.
        """
        return problems(self, None if sizes is None else self._sizes(sizes))

    def _sizes(self, sizes: Mapping[str, int] | None) -> dict[str, int]:
        found = {**self._spec.sizes, **(sizes or {})}
        for name in found:
            if name not in self._spec.dims:
                raise located(ArgumentError(f"{self.name} has no dimension {name!r}; it has {list(self._spec.dims)}"))
        self._runner.check_sizes(found)
        return found

    # where it goes ------------------------------------------------------------------------------------------

    def save(self, path: Any, *, folder: bool | None = None, locations: bool = True) -> None:
        """Write the program, with its state as it is now, to one file, or to a folder of a text and its weights.

        Args:
            path: where to. Nothing is there until all is written.
            folder: make it a folder; by default if `path` is one.
            locations: keep the lines of the source that the ops came from.
        """
        target = Path(os.fspath(path))
        write = write_folder if (target.is_dir() if folder is None else folder) else write_file
        write(target, self._spec, self._state.arrays(), locations)

    def executable(self, sizes: Mapping[str, int] | None = None) -> Any:
        """The compiled graph for these lengths of the dimensions, as calls with such sizes run it."""
        return self._runner.compile(self._sizes(sizes))

    def dump(self, folder: Any, sizes: Mapping[str, int] | None = None, *, measure: bool = False) -> None:
        """Write every stage of its compilation at these lengths into a new sub-folder of `folder`, and a page.

        With `measure` its steps are run on made-up arguments and timed.
        """
        write(self, folder, sizes=sizes, measure=measure)

    def _repr_html_(self) -> str:
        return described(repr(self), [("graph", self.symbolic_graph)])

    def __repr__(self) -> str:
        lines = [f"Program {self.signature}"]
        lines += [f"  {dim}" for dim in self.dims.values()]
        lines += [f"  {c}" for c in self.constraints]
        if self._state:
            lines.append(f"  state: {len(self._state)} tensors")
        return "\n".join(lines)


def _flops(node: Node) -> int:
    """Those of a node; fields of a broken file may be such that an op passes its own checks and can't decompose."""
    try:
        return analysis.flops(node)
    except JitgradError:
        raise
    except Exception as error:
        made = InvalidGraphError(f"op {node.op} does not fit its operands ({error})")
        made.attach_location(str(node.location) if node.location else None)
        raise made from None


def open_program(path: Any) -> Program:
    """See `jitgrad.load_program`."""
    opened = Opened(Path(os.fspath(path)))
    return Program(opened.spec, opened.arrays, opened)
