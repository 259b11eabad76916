"""What a profiler has seen: events, their nesting, and averages over those of one name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .table import table

Key = tuple[Any, ...]


@dataclass(eq=False)
class Event:
    """A stretch of time of one thread. Times are in microseconds; `start` counts from the profiler's start.

    `category` is "op" (eager), "compiled" (a compiled call), "executable", "kernel", "blas", "host", "copy" or
    "control" (steps of one), "compile", "backward", "optimizer", "data", "annotation", "step" or "profiler" (what
    recording itself costs).
    """

    name: str
    category: str
    start: float
    end: float
    thread: int
    input_shapes: tuple[Any, ...] = ()
    cpu_memory_usage: int = 0  # bytes of results
    flops: int = 0
    bytes: int = 0  # moved by a kernel
    stack: tuple[str, ...] = ()
    args: dict[str, Any] = field(default_factory=dict)
    cpu_parent: Event | None = None
    cpu_children: list[Event] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The name that averages go by."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from begin to end."""
        return self.end - self.start

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Without that of the events inside."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)


@dataclass
class Average:
    """All events of one name (and of the same shapes, or the same lines, if that was asked for). Times are in µs."""

    key: str
    category: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    flops: int = 0
    bytes: int = 0
    input_shapes: tuple[Any, ...] = ()
    stack: tuple[str, ...] = ()

    @property
    def cpu_time(self) -> float:
        """Microseconds of one, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def is_user_annotation(self) -> bool:
        """Whether this is a `record_function`."""
        return self.category == "annotation"

    def add(self, event: Event) -> None:
        """Count an event in. One inside another of its name adds nothing to the total."""
        self.count += 1
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.flops += event.flops
        self.bytes += event.bytes
        outer = event.cpu_parent
        while outer is not None and (outer.name, outer.category) != (event.name, event.category):
            outer = outer.cpu_parent
        if outer is None:
            self.cpu_time_total += event.cpu_time_total


class Averages(list[Average]):
    """The averages of a profile; `table()` prints them."""

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all of them, nothing counted twice."""
        return sum(a.self_cpu_time_total for a in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """A table with a row each.

        Args:
            sort_by: "cpu_time_total", "self_cpu_time_total", "cpu_time", "count", "cpu_memory_usage", "flops" or
                "bytes"; largest first. None: in order of their first event.
            row_limit: rows shown; -1 for all.
            time_unit: "s", "ms" or "us" for all times.

        Raises:
            ValueError: an unknown `sort_by` or `time_unit`.
        """
        return table(self, sort_by, row_limit, max_name_column_width, max_shapes_column_width, header, time_unit)

    def __str__(self) -> str:
        return self.table()


class Events(list[Event]):
    """The events of a profile, in order of their starts."""

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """Averages by name, and by input shapes and the innermost lines, if asked for."""
        found: dict[Key, Average] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else ()
            stack = event.stack[:group_by_stack_n]
            key = (event.name, event.category, shapes, stack)
            if key not in found:
                found[key] = Average(event.name, event.category, input_shapes=shapes, stack=stack)
            found[key].add(event)
        return Averages(found.values())


def nested(events: Iterable[Event]) -> Events:
    """The events in order, each with its parent and its children in the same thread."""
    ordered = Events(sorted(events, key=lambda e: (e.start, -e.end)))
    open_ones: dict[int, list[Event]] = {}
    for event in ordered:
        event.cpu_parent, event.cpu_children = None, []
        stack = open_ones.setdefault(event.thread, [])
        while stack and stack[-1].end < event.end:
            stack.pop()
        if stack and stack[-1].end >= event.end and stack[-1].start <= event.start:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)
    return ordered
