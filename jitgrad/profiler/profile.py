"""`profile`: records what runs, from when to when, as `torch.profiler.profile` does."""

from __future__ import annotations

import enum
import os
import platform
import time
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ..errors import located
from .chrome_trace import export
from .events import Averages, Event, Events, nested
from .places import Places
from .recorder import Options, Recorder, active


class ProfilerActivity(enum.Enum):
    """What is recorded. Calls on a device are waited for and timed as a whole, whichever of these is given."""

    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    """What a profiler does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """All of them."""
    return set(ProfilerActivity)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """For `profile`: skip steps, then wait, warm up and record, again and again (`repeat` times; 0: always).

    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(k).name for k in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise located(ArgumentError("schedule: active is at least 1, and no number is negative"))

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == cycle - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: write each trace to a file of its own in a folder."""

    def handle(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{platform.node()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class profile:
    """Records eager operations, compiled calls with each kernel inside, compilation, backward passes, optimizer steps,
    data loading, and blocks of `record_function`, in all threads.

    While it records, compiled graphs are run step by step, and operations on small tensors take the general way, so
    that both are slower; when no profiler records, nothing is. The first time that it meets a compiled graph, it
    prepares ("profiler" events); steps of a schedule's warm-up do that outside what is recorded. On a CUDA device a
    compiled graph is one event.

    Args:
        activities: accepted for PyTorch's sake; all is recorded.
        schedule: what to do in which step (see `schedule`); `step()` begins the next one. None: record all.
        on_trace_ready: called with the profiler when a recording ends.
        record_shapes: note the operands' shapes.
        profile_memory: note the bytes of results.
        with_stack: note the user's lines.
        with_flops: note floating-point operations of kernels and matrix products.
        acc_events: keep the events of all cycles of a schedule.

    Raises:
        RuntimeError: another profiler records, or events are asked for before there are any.

    >>> import jitgrad as jg
    >>> f = jg.compile(lambda x: (x * 2).tanh())
    >>> x = jg.ones(8, 8)
    >>> _ = f(x)
    >>> with jg.profiler.profile() as p:
    ...     _ = f(x)
    >>> [e.category for e in p.events() if e.category != "profiler"]
    ['compiled', 'executable', 'kernel']
    >>> "mul, tanh" in p.key_averages().table(sort_by="cpu_time_total")
    True
    """

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
        acc_events: bool = False,
    ) -> None:  # fmt: skip
        self.activities = set(activities) if activities is not None else supported_activities()
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.options = Options(record_shapes, profile_memory, with_stack, with_flops)
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._recorder: Recorder | None = None
        self._places: Places | None = None
        self._events: list[Event] | None = None
        self._metadata: dict[str, Any] = {}
        self._step_began = 0

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, with what the schedule says for the first step."""
        self.current_action = self.schedule(self.step_num)
        if self.current_action is not ProfilerAction.NONE:
            self._begin()
        self._step_began = time.perf_counter_ns()

    def stop(self) -> None:
        """End; `on_trace_ready` is called if anything was recorded since it was last."""
        if self._recorder is not None:
            self._note_step()
            self._end(self.current_action is not ProfilerAction.WARMUP)
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """Say that the next step of the program begins."""
        self._note_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = now = self.schedule(self.step_num)
        if self._recorder is not None:
            if before is ProfilerAction.RECORD_AND_SAVE or now is ProfilerAction.NONE:
                self._end(before is not ProfilerAction.WARMUP)
            elif before is ProfilerAction.WARMUP and now is not ProfilerAction.WARMUP:
                self._recorder.events.clear()
        if now is not ProfilerAction.NONE and self._recorder is None:
            self._begin()
        self._step_began = time.perf_counter_ns()

    def events(self) -> Events:
        """What was recorded, in order; each event knows those inside it."""
        if self._recorder is not None:
            return nested(self._recorder.events)
        if self._events is None:
            raise located(OperationError("profiler: nothing has been recorded yet"))
        return nested(self._events)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """Averages by name: `print(p.key_averages().table(sort_by="cpu_time_total"))`."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a trace for chrome://tracing or Perfetto, compressed if `path` ends with `.gz`."""
        export(self.events(), path, self._metadata)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks (with `with_stack`) as text for flame graphs: frames from outside in, and microseconds."""
        if metric not in ("self_cpu_time_total", "cpu_time_total"):
            raise located(ArgumentError(f"export_stacks: metric is self_cpu_time_total, not {metric!r}"))
        lines = [
            f"{';'.join([*reversed(e.stack), e.name]).replace(' ', '_')} {int(getattr(e, metric))}"
            for e in self.events() if e.stack
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def add_metadata(self, key: str, value: str) -> None:
        """A field of the trace."""
        self._metadata[key] = value

    def _begin(self) -> None:
        if active.recorder is not None:
            raise located(OperationError("profiler: another profiler is recording"))
        self._recorder = active.recorder = Recorder(self.options)
        self._places = Places(self._recorder)
        self._places.exchange()

    def _end(self, is_recording: bool) -> None:
        assert self._recorder is not None and self._places is not None
        self._places.put_back()
        recorded = self._recorder.events
        self._recorder = self._places = active.recorder = None
        if is_recording:
            kept = self._events if self.acc_events and self._events is not None else []
            self._events = [*kept, *recorded]
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def _note_step(self) -> None:
        if self._recorder is not None and self.record_steps:
            name = f"ProfilerStep#{self.step_num}"
            self._recorder.add(name, "step", self._step_began, time.perf_counter_ns())
