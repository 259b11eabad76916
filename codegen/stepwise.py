"""An executable that is run step by step, with the time of each: what profilers put in the place of one."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .cpu import driver
from .encode import HostSegment, NativeSegment, Segment, encode_steps
from .executable import Array, Executable
from .plan import kernels_of

_NOTHING: Final = np.array([driver.END], np.int64)  # code that does nothing


class _Times(threading.local):
    """Nanoseconds at which the steps of the call under way in this thread began and ended."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int, int]] = []
        self.began = 0


class Stepwise:
    """Runs `executable` one step at a time.

    The results are the same, bit for bit: the steps, their order, memory and threads are those of the plan. Calls may
    be made from several threads at once.
    """

    def __init__(self, executable: Executable) -> None:
        plan = executable.running
        addresses = {k: n.address for k, n in zip(kernels_of(plan), executable.native)}
        self.executable = executable
        self._enter = executable._run
        self._times = _Times()
        self._step_at: dict[int, tuple[int, bool]] = {}  # by address: the step, and whether threads share it
        self._marks: dict[int, int] = {}  # by address: the step of the host that begins (-1: ends) there
        segments: list[Segment] = []
        for number, parts in enumerate(encode_steps(plan, addresses)):
            for part in parts:
                if isinstance(part, HostSegment):
                    segments += [self._mark(number), part, self._mark(-1 - number)]
                else:
                    self._step_at[part.address] = number, part.is_shared
                    segments.append(part)
        self.clone = copy.copy(executable)
        self.clone._segments = tuple(segments)
        self.clone._run = self._run

    def __call__(self, inputs: Sequence[Array]) -> tuple[list[Array], list[tuple[int, int, int]]]:
        """The outputs; and for each piece that ran its step's number, and when it began and ended in nanoseconds."""
        times = self._times
        times.spans = []
        return self.clone(inputs), times.spans

    def _mark(self, number: int) -> NativeSegment:
        code = _NOTHING.copy()
        self._marks[code.ctypes.data] = number
        return NativeSegment(code, code.ctypes.data, 0, False)

    def _run(self, arrays: list[Array], address: int, arena: int, count: int, entry: int) -> Any:
        """In the place of the driver's function."""
        mark = self._marks.get(address)
        times = self._times
        if mark is not None:
            if mark >= 0:
                times.began = time.perf_counter_ns()
            else:
                times.spans.append((-1 - mark, times.began, time.perf_counter_ns()))
            return True
        number, is_shared = self._step_at[address]
        before = time.perf_counter_ns()
        done = self._enter(arrays, address, arena, count if is_shared else 1, entry if is_shared else 0)
        if done:
            times.spans.append((number, before, time.perf_counter_ns()))
        return done
