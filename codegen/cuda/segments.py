"""Runs of steps that need neither host nor library, launched as one CUDA graph where memory is where it was before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from jitgrad.ir.config import config

from .control import waits
from .runtime.gpu import Gpu
from .steps import Pointers, Step

_MAX_GRAPHS: Final = 4
_MAX_SEEN: Final = 16


class DeviceSegment:
    """Consecutive steps on the device.

    A graph holds addresses. So it is captured when the same ones come a second time, and replayed for them only: the
    memory pool gives back the blocks that a loop has just freed, so that in a loop they are the same from then on.
    """

    __slots__ = ("_graphs", "_seen", "steps")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._graphs: dict[Pointers, _CapturedGraph] = {}
        self._seen: dict[Pointers, None] = {}

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """All steps."""
        if len(self.steps) < 2 or g.kept is not None or not config.cuda_graphs:
            return self._launch(g, pointers, stream)
        found = self._graphs.get(pointers)
        if found is None:
            if pointers not in self._seen:
                _remember(self._seen, pointers, None, _MAX_SEEN)
                return self._launch(g, pointers, stream)
            found = self._capture(g, pointers, stream)
            _remember(self._graphs, pointers, found, _MAX_GRAPHS)
        g.runtime.replay(found.number, stream)

    def _launch(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        for step in self.steps:
            step.run(g, pointers, stream)

    def _capture(self, g: Gpu, pointers: Pointers, stream: int) -> _CapturedGraph:
        g.runtime.begin_capture(stream)
        try:
            self._launch(g, pointers, stream)
        finally:
            number = g.runtime.end_capture(stream)
        return _CapturedGraph(g, number)


class _CapturedGraph:
    """A graph of the runtime's, released with its last reference."""

    __slots__ = ("_gpu", "number")

    def __init__(self, g: Gpu, number: int) -> None:
        self._gpu = g
        self.number = number

    def __del__(self) -> None:
        self._gpu.runtime.release_graph(self.number)


def _remember(table: dict[Pointers, Any], key: Pointers, value: Any, limit: int) -> None:
    table[key] = value
    if len(table) > limit:
        table.pop(next(iter(table)), None)


Segment: TypeAlias = DeviceSegment | Step


def segments_of(steps: Sequence[Step]) -> list[Segment]:
    """The steps in order, those between calls of the host and of libraries together."""
    found: list[Segment] = []
    together: list[Step] = []
    for step in steps:
        if waits(step):
            if together:
                found.append(DeviceSegment(together))
            together = []
            found.append(step)
        else:
            together.append(step)
    if together:
        found.append(DeviceSegment(together))
    return found
