"""What is kept of compiling a graph, so that other sizes of it take no passes, no fusion and no lowering.

The graph is compiled once with tracked numbers in it. Memory is laid out by an arena whose calls are recorded. What
comes out is a plan full of tracked numbers, and the conditions under which each decision on the way would be the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.ir.graph import Graph
from jitgrad.ir.tracked import Recording

from ..arena import Arena
from ..conv.target import TileTarget
from ..lower import AnyKernel
from ..plan import Plan
from .concrete import Concrete, Fixed
from .outline import graph_with_tracked
from .symbols import Symbols


class RecordedArena:
    """An `Arena` whose calls are made again, by a new one, at other sizes."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._arena = recording.each_time(Arena, Arena())

    @property
    def size(self) -> Any:
        """The bytes so far."""
        return self._call(operator.attrgetter("size"))

    def allocate(self, nbytes: Any) -> Any:
        """The offset of `nbytes` free bytes."""
        return self._call(Arena.allocate, nbytes)

    def release(self, offset: Any, nbytes: Any) -> None:
        """Take back what `allocate(nbytes)` gave."""
        self._call(Arena.release, offset, nbytes)

    def _call(self, fn: Callable[..., Any], *args: Any) -> Any:
        plain = [getattr(x, "value", x) for x in args]
        return self._recording.each_time(fn, fn(self._arena.value, *plain), self._arena, *args)


@dataclass(frozen=True, slots=True)
class Template:
    """A plan over `symbols`; `kernels` are those that it runs, `native` their machine code."""

    symbols: Symbols
    plan: Plan
    tiles: TileTarget
    native: Mapping[AnyKernel, Any]
    fixed: Fixed = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed", Fixed(self.tiles))

    def at(self, numbers: Sequence[Any]) -> Plan:
        """The plan at these numbers. Raises `Changed` if compiling might give another one."""
        registers = self.symbols.recording.at(self.symbols.bound(numbers))
        self.symbols.check(numbers, registers)
        return Concrete(registers, self.tiles, self.native).plan(self.plan, self.fixed)


def symbolic_graph(graph: Graph, symbols: Symbols) -> Graph:
    """`graph` with tracked numbers."""
    return graph_with_tracked(graph, symbols.tracked, symbols.counts)
