"""How long each step of an executable takes, found by running the steps one at a time."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Value

from .cpu import driver
from .cpu.threads import pool as threads
from .encode import HostSegment, NativeSegment, Segment, encode_steps
from .executable import Array, Executable, run_host
from .plan import kernels_of

_MIN_RUNS: Final = 3
_WARM_UP: Final = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians over `runs`, in microseconds: `steps[n]` of step `n` alone, `call` of a whole call.

    The steps' sum differs from `call`: each is entered by itself, so that caches and threads are in another state.
    """

    runs: int
    steps: tuple[float, ...]
    call: float


def time_steps(
    executable: Executable, inputs: Sequence[Array] | None = None, *, runs: int = 30, seconds: float = 2.0
) -> Timing:
    """Run every step `runs` times, or as often as fits into `seconds`, on copies of `inputs`.

    Without inputs: floats between 0 and 1, everything else zeros, which are valid indices of whatever is not empty.
    """
    given = inputs if inputs is not None else [example_input(v) for v in executable.running.program.graph.inputs]
    if len(given) != len(executable.running.program.graph.inputs):
        raise InternalError(f"{executable.name} takes {len(executable.running.program.graph.inputs)} inputs")
    kept = [np.array(x, order="C") for x in given]
    arrays = [x.copy() for x in kept]
    written = sorted(set(executable.aliases.values()))
    start = time.perf_counter()
    calls: list[int] = []
    samples = _Samples(executable, arrays)
    while len(calls) < _WARM_UP + runs:
        if len(calls) >= _WARM_UP + _MIN_RUNS and time.perf_counter() - start > seconds:
            break
        for k in written:
            np.copyto(arrays[k], kept[k])
        before = time.perf_counter_ns()
        executable(arrays)
        calls.append(time.perf_counter_ns() - before)
        for k in written:
            np.copyto(arrays[k], kept[k])
        samples.run()
    return Timing(len(calls) - _WARM_UP, tuple(_median(s) for s in samples.by_step), _median(calls))


def example_input(value: Value) -> Array:
    """An array of the value's type that ops can be expected to take."""
    dtype = value.type.dtype.np
    if value.type.dtype.is_differentiable and not value.type.dtype.is_complex:
        return np.random.default_rng(0).uniform(0.05, 1.0, value.type.shape).astype(dtype)
    return np.zeros(value.type.shape, dtype)


def _median(nanoseconds: Sequence[int]) -> float:
    return statistics.median(nanoseconds[_WARM_UP:]) / 1e3


def _time(run: Callable[[], Any]) -> int:
    before = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - before


class _Samples:
    """Times of each step, over the memory of one call."""

    def __init__(self, executable: Executable, inputs: list[Array]) -> None:
        plan = executable.running
        addresses = {k: n.address for k, n in zip(kernels_of(plan), executable.native)}
        graph = plan.program.graph
        outputs = [
            inputs[executable.aliases[k]] if k in executable.aliases else np.empty(v.type.shape, v.type.dtype.np)
            for k, v in enumerate(graph.outputs)
        ]
        constants = [np.array(op.literal.array, order="C") for op in plan.program.constants.values()]
        self.arrays = [*inputs, *outputs, *constants]
        self.arena = (ctypes.c_byte * (plan.arena_bytes + 64))()
        self.address = -(-ctypes.addressof(self.arena) // 64) * 64
        self.steps = [[self._runner(s) for s in segments] for segments in encode_steps(plan, addresses)]
        self.by_step: list[list[int]] = [[] for _ in self.steps]
        code = np.array([driver.END], np.int64)
        self.overhead = min(_time(self._runner(NativeSegment(code, code.ctypes.data, 0, False))) for _ in range(200))

    def run(self) -> None:
        """All steps once."""
        for samples, runners in zip(self.by_step, self.steps):
            samples.append(sum(max(0, _time(runner) - self.overhead) for runner in runners))

    def _runner(self, segment: Segment) -> Callable[[], Any]:
        if isinstance(segment, HostSegment):
            arena = (ctypes.c_byte * max(1, len(self.arena) - 64)).from_address(self.address)
            return lambda: run_host(segment, self.arrays, arena)
        enter, entry = driver.load_driver(), threads.parallel_for if segment.is_shared else 0
        count = threads.num_threads if entry else 1
        return lambda: enter(self.arrays, segment.address, self.address, count, entry)
