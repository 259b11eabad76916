"""What this process has compiled and run, in numbers; and who is told of it: watchers of a thread, and logs.

Loggers are `jitgrad.compile`, `jitgrad.guards` and `jitgrad.fallbacks`. They are silent until their level is set to
`INFO` or `DEBUG`, and `logging` is not even loaded unless somebody else does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Counters:
    """Counts since the process began; differences of copies are those of a stretch.

    calls: of compiled functions, from outside of others
    traces: runs of Python to capture a graph
    specialisations: captured paths that later calls replay
    graphs: graphs compiled (with gradients of eager tapes, and large eager ops)
    kernels: kernels compiled to machine code
    cache_hits: kernels that were there already, in memory or on disk
    fallbacks: calls that ran Python instead of a replay (retrace mode, refused values)

    Threads may lose counts to each other; `jitgrad.assert_no_compile` counts its own thread exactly.

    >>> import jitgrad as jg
    >>> before = jg.compiler.counters.copy()
    >>> f = jg.compile(lambda x: x * 3)
    >>> f(jg.ones(2)).tolist(), f(jg.ones(2)).tolist()
    ([3.0, 3.0], [3.0, 3.0])
    >>> made = jg.compiler.counters - before
    >>> made.calls, made.traces, made.specialisations
    (2, 1, 1)
    """

    calls: int = 0
    traces: int = 0
    specialisations: int = 0
    graphs: int = 0
    kernels: int = 0
    cache_hits: int = 0
    fallbacks: int = 0

    def copy(self) -> Counters:
        """The counts as they are now."""
        return self - Counters()

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*[getattr(self, f.name) - getattr(other, f.name) for f in fields(self)])


@dataclass(frozen=True)
class Event:
    """Something that costs time where none should be lost: `kind` is "trace" or "compile"."""

    kind: str
    name: str
    kernels: int = 0  # compiled
    location: Any = None  # the user's line


class _Watched(threading.local):
    def __init__(self) -> None:
        self.lists: list[list[Event]] = []


counters = Counters()
_watched = _Watched()


def tell(event: Event) -> None:
    """Let those who watch this thread know."""
    for events in _watched.lists:
        events.append(event)


def is_watched() -> bool:
    """Whether somebody watches this thread: what need not be compiled is not, meanwhile."""
    return bool(_watched.lists)


@contextmanager
def watching() -> Iterator[list[Event]]:
    """The events of this thread inside the block, in a list that grows."""
    events: list[Event] = []
    _watched.lists = [*_watched.lists, events]
    try:
        yield events
    finally:
        _watched.lists = [x for x in _watched.lists if x is not events]


def log(logger: str, message: str, *values: Any, debug: bool = False) -> None:
    """Log under `jitgrad.<logger>`, if anybody has loaded `logging`."""
    logging = sys.modules.get("logging")
    if logging is not None:
        target = logging.getLogger(f"jitgrad.{logger}")
        level = logging.DEBUG if debug else logging.INFO
        if target.isEnabledFor(level):
            target.log(level, message, *values)
