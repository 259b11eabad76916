"""Parts of a captured graph as machine code, found again by their structure.

A *segment* is what lies between values that are known and values that are wanted. Two segments of equal structure
share one executable, whichever functions they come from. Numbers are no part of the structure: those
that differ from what was seen before are inputs of the second executable, which serves all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from jitgrad.ir.analysis import bytes_moved, flops
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.types import CPU, Device, TensorType

from ..arrays import on_device, owned
from ..axis_order import Layout
from ..backend import Observer, compile_graph
from ..device_ops import run_graph_on_device
from ..dispatch import run_data
from ..memo import Memo

Run: TypeAlias = Callable[[list[Any]], list[Any]]
_MOST_VARIANTS = 8
_COMPILING_A_NODE = 3e-4  # seconds: half of what it takes, as later processes find it on disk
_BYTES_PER_SECOND, _FLOPS_PER_SECOND = 8e9, 5e10  # of NumPy
_LIFTED = ("int", "float")  # kinds of constants that may become inputs


class Segment:
    """The nodes that `wanted` come from, back to values in `known`, and those with effects that are not `done`.

    `layout` tells how arguments lie in memory, where that is not row by row without gaps. Machine code takes them so,
    and reads them along other axes and past gaps instead of copies.
    """

    def __init__(
        self, nodes: Sequence[Node], known: Mapping[Value, int], wanted: Sequence[Value],
        inputs: Sequence[Value] = (), done: Collection[Node] = (),
        layout: Callable[[Value], Layout | None] | None = None,
    ) -> None:  # fmt: skip
        self.wanted = wanted
        self.effects = [node for node in nodes if node.op.effect and node not in done]
        self.nodes = _needed(nodes, known, [*wanted, *(r for node in self.effects for r in node.results)])
        numbers: dict[Value, int] = {v: i for i, v in enumerate(inputs)}
        for node in self.nodes:
            for v in node.operands:
                if v in known:
                    numbers.setdefault(v, len(numbers))
        for v in wanted:
            if v in known:
                numbers.setdefault(v, len(numbers))
        self.inputs = tuple(numbers)
        self.places = tuple([known[v] for v in self.inputs])  # where the inputs are among what is known
        self.layouts = tuple([None if layout is None or v.node is not None else layout(v) for v in self.inputs])
        self.constants: list[Full] = []
        self._numbers = numbers
        self.key = self._structure()

    def _structure(self) -> Any:
        """What decides the machine code, but for numbers."""
        numbers, parts = self._numbers, []
        for node in self.nodes:
            op: Any = node.op
            if op.__class__ is Full and op.dtype.kind in _LIFTED:
                self.constants.append(op)
                op = (op.shape, op.dtype, op.device)
            parts.append((op, *[numbers[v] for v in node.operands]))
            for v in node.results:
                numbers[v] = len(numbers)
        types = tuple([v.type for v in self.inputs])
        return types, self.layouts, tuple(parts), tuple([numbers[v] for v in self.wanted])

    def graph(self, varying: frozenset[int] = frozenset()) -> Graph:
        """As a graph of its own. Constants whose numbers are in `varying` are further inputs."""
        if not varying and not any(self.layouts) and all(v.node is None for v in self.inputs):
            return Graph(self.inputs, self.nodes, self.wanted)
        b = Builder()
        given = zip(self.inputs, self.layouts, strict=True)
        env = {v: b.input(v.type, v.name) if x is None else x.input(b, v.type, v.name) for v, x in given}
        at = 0
        for node in self.nodes:
            op = node.op
            if isinstance(op, Full) and op.dtype.kind in _LIFTED:
                if at in varying:
                    number = b.input(TensorType((), op.dtype, op.device), "number")
                    env[node.result] = b(BroadcastTo(op.shape), number) if op.shape else number
                    at += 1
                    continue
                at += 1
            b.copy(node, env)
        return b.build([env[v] for v in self.wanted])


def _needed(nodes: Sequence[Node], known: Mapping[Value, int], wanted: Sequence[Value]) -> list[Node]:
    """The nodes behind `wanted`, in order."""
    live, found = set(wanted), []
    for node in reversed(nodes):
        for v in node.results:
            if v in live and v not in known:
                found.append(node)
                live.update(node.operands)
                break
    found.reverse()
    return found


class _Variant:
    """An executable with the constants it holds, by their numbers; those in `varying` are inputs."""

    __slots__ = ("constants", "run", "varying")

    def __init__(self, constants: Sequence[str], varying: frozenset[int], run: Any) -> None:
        self.constants = constants
        self.varying = varying
        self.run = run

    def fits(self, constants: Sequence[str]) -> bool:
        """Whether it computes a segment with these constants."""
        return self.constants == constants or all(
            i in self.varying or a == b for i, (a, b) in enumerate(zip(self.constants, constants, strict=True))
        )


class _Entry:
    """What is known of one structure."""

    __slots__ = ("first", "variants")

    def __init__(self, constants: Sequence[str]) -> None:
        self.first = constants
        self.variants: tuple[_Variant, ...] = ()


_entries: Memo[_Entry] = Memo(limit=2048)


class Runnable:
    """A segment that can be run on this device: `executable`, fed with the constants that it takes as inputs, and with
    arrays as they lie in memory.
    """

    __slots__ = ("executable", "layouts", "numbers")

    def __init__(self, executable: Any, numbers: Sequence[Any], layouts: Sequence[Layout | None]) -> None:
        self.executable = executable
        self.numbers = numbers
        self.layouts = layouts if any(layouts) else None

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Fresh arrays of what was wanted."""
        given = arrays
        if self.layouts is not None:
            given = [x if o is None else o.held_array(x) for x, o in zip(arrays, self.layouts, strict=True)]
        return self.executable([*given, *self.numbers])  # type: ignore[no-any-return]


def runnable(
    segment: Segment, name: str, device: Device = CPU, observe: Callable[[], Observer | None] | None = None,
    at_once: bool = True, aliases: Mapping[int, int] = MappingProxyType({}), numerics: str = "default",
    batches: Collection[int] = (),
) -> Run:  # fmt: skip
    """Something that computes the segment from its inputs, as fresh arrays but for `aliases` (see `compile_graph`).

    Machine code where that structure was seen before under that name, or `at_once` is true, or running op by op would
    take long; else op by op. `batches` are the inputs that may have another first length at other calls.
    """
    constants = [_exact(op.value) for op in segment.constants]
    key = (segment.key, device, name, tuple(aliases.items()), numerics)
    entry = _entries.get(key)
    if entry is None:
        entry = _entries.add(key, _Entry(constants))
        if not at_once and not _is_long(segment):
            return Interpreted(segment.graph(), device)
    for variant in entry.variants:
        if variant.fits(constants):
            return _fed(variant, segment, device)
    before = [entry.first, *(v.constants for v in entry.variants)]
    varying = frozenset(i for i, c in enumerate(constants) if any(seen[i] != c for seen in before))
    observer = None if observe is None else observe()
    graph = segment.graph(varying)
    if observer is not None:
        observer("traced", graph)
    first = [i for i in batches if (x := segment.layouts[i]) is None or x.order[0] == 0]
    executable = compile_graph(
        graph, name=name, aliases=aliases, observer=observer, device=device, numerics=numerics, varying=first
    )
    made = _Variant(constants, varying, executable)
    entry.variants = (*entry.variants, made)[-_MOST_VARIANTS:]
    return _fed(made, segment, device)


def _is_long(segment: Segment) -> bool:
    """Whether op by op it would take half as long as compiling, or longer: later processes find it on disk."""
    compiling = len(segment.nodes) * _COMPILING_A_NODE
    running = 0.0
    for node in segment.nodes:
        running += bytes_moved(node) / _BYTES_PER_SECOND + flops(node) / _FLOPS_PER_SECOND
        if running > compiling:
            return True
    return False


def _exact(number: Any) -> str:
    return number.hex() if isinstance(number, float) else repr(number)


def _fed(variant: _Variant, segment: Segment, device: Device) -> Run:
    ops = [op for i, op in enumerate(segment.constants) if i in variant.varying]
    return fed(variant.run, segment, [on_device(np.asarray(op.value, op.dtype.np), device) for op in ops])


def fed(executable: Any, segment: Segment, numbers: Sequence[Any] = ()) -> Run:
    """The executable of a segment's graph, taking what the segment takes."""
    if numbers or any(segment.layouts):
        return Runnable(executable, numbers, segment.layouts)
    return executable  # type: ignore[no-any-return]


def executable_of(run: Any) -> Any:
    """The executable behind a runnable."""
    return run.executable if isinstance(run, Runnable) else run


def is_same_run(a: Any, b: Any) -> bool:
    """Whether two runnables compute the same."""
    if a.__class__ is Runnable is b.__class__:
        equal = len(a.numbers) == len(b.numbers) and all(map(np.array_equal, a.numbers, b.numbers))
        return a.executable is b.executable and a.layouts == b.layouts and equal
    return a is b


class Interpreted:
    """A graph that is run op by op."""

    __slots__ = ("device", "graph")

    def __init__(self, graph: Graph, device: Device) -> None:
        self.graph = graph
        self.device = device

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Fresh arrays of the outputs."""
        if self.device.type == "cpu":
            return [owned(x) for x in run_data(self.graph, arrays)]
        return [owned(x) for x in run_graph_on_device(self.graph, arrays, self.device)]
