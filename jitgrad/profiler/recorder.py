"""Collects events while a profiler records."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.location import is_library_file

from .events import Event

_DEEPEST = 16  # lines of a stack


@dataclass(frozen=True)
class Options:
    """What is noted of each event beside its times."""

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False


class Recorder:
    """Appends events of all threads to one list. Times are kept in nanoseconds, and told in microseconds."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.events: list[Event] = []
        self.origin = time.perf_counter_ns()

    def add(self, name: str, category: str, began: int, ended: int, **more: Any) -> Event:
        """An event of this thread, between two readings of `perf_counter_ns`."""
        start, end = (began - self.origin) / 1e3, (ended - self.origin) / 1e3
        stack = _stack() if self.options.with_stack else ()
        event = Event(name, category, start, end, threading.get_ident(), stack=stack, **more)
        self.events.append(event)
        return event

    @contextmanager
    def during(self, name: str, category: str, **more: Any) -> Iterator[None]:
        """An event for the block."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.add(name, category, began, time.perf_counter_ns(), **more)


class Active:
    """Which recorder is at work, if any."""

    recorder: Recorder | None = None


active = Active()


def _stack() -> tuple[str, ...]:
    """The user's lines, innermost first."""
    found: list[str] = []
    frame = sys._getframe(2)
    while frame is not None and len(found) < _DEEPEST:
        code = frame.f_code
        if not is_library_file(code.co_filename):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)
