"""Where time is taken: functions that are exchanged for timed ones while a profiler records.

Nothing asks whether a profiler runs, so that it costs nothing when none does. The fast path of small tensors is closed
meanwhile: their operations go through `dispatch`, where they are seen.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from .. import dispatch, fast_path, hot_path
from ..autograd import engine, replay
from ..backend import code_generation, steps_of
from ..compiler import CompiledFunction
from ..cuda import synchronize
from ..optim.optimizer import Optimizer
from ..utils.data import DataLoader
from .recorder import Recorder

_now = time.perf_counter_ns


class Places:
    """The functions that one recorder has exchanged."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._before: list[tuple[Any, str, Any]] = []
        self._stepwise: dict[int, tuple[Any, Any, Any, Any]] = {}  # by identity: an executable, its twin, its steps
        self._clones: set[int] = set()  # identities of what runs them

    def exchange(self) -> None:
        """Put timed functions in."""
        generation = code_generation()
        self._put(fast_path, "_SMALL", -1)
        self._put(hot_path, "SMALL", -1)
        self._put(replay, "run", _nothing)
        self._put(dispatch, "run_op", self._timed_op(dispatch.run_op))
        self._put(engine, "backward", self._timed(engine.backward, "backward", "backward"))
        self._put(generation.compile, "compile_graph", self._timed_compilation(generation.compile.compile_graph))
        on_host, on_device = generation.executable.Executable, generation.cuda.CudaExecutable
        for kind, run in ((on_host, self._run), (on_device, self._run_on_device)):
            self._put(kind, "__call__", _method(run, kind.__call__))
        self._put(CompiledFunction, "__call__", self._timed_call(CompiledFunction.call_at_length))
        self._put(DataLoader, "__iter__", self._timed_batches(DataLoader.__iter__))
        for cls in _subclasses(Optimizer):
            if "step" in cls.__dict__:
                self._put(cls, "step", self._timed_step(cls.__dict__["step"]))

    def put_back(self) -> None:
        """Put the functions back that were there before."""
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    # timed functions --------------------------------------------------------------------------------------

    def _timed(self, f: Callable[..., Any], name: str, category: str) -> Callable[..., Any]:
        @functools.wraps(f)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.recorder.during(name, category):
                return f(*args, **kwargs)

        return timed

    def _timed_op(self, run_op: Callable[..., Any]) -> Callable[..., Any]:
        recorder, options = self.recorder, self.recorder.options

        def timed(op: Any, data: Any, operands: Any, results: Any) -> Any:
            began = _now()
            out = run_op(op, data, operands, results)
            ended = _now()
            recorder.add(
                op.name, "op", began, ended,
                input_shapes=tuple([t.shape for t in operands]) if options.record_shapes else (),
                cpu_memory_usage=sum(x.nbytes for x in out) if options.profile_memory else 0,
            )  # fmt: skip
            return out

        return timed

    def _timed_compilation(self, compile_graph: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile_graph)
        def timed(graph: Any, **options: Any) -> Any:
            with self.recorder.during(f"compile {options.get('name', 'graph')}", "compile"):
                return compile_graph(graph, **options)

        return timed

    def _timed_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(f: Any, *args: Any, **kwargs: Any) -> Any:
            with self.recorder.during(f._name, "compiled"):
                return call(f, args, kwargs)

        return timed

    def _timed_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def timed(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            with self.recorder.during(f"Optimizer.step#{type(optimizer).__name__}.step", "optimizer"):
                return step(optimizer, *args, **kwargs)

        return timed

    def _timed_batches(self, iterate: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
        recorder = self.recorder

        @functools.wraps(iterate)
        def timed(loader: Any) -> Iterator[Any]:
            batches = iterate(loader)
            while True:
                began = _now()
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                recorder.add("DataLoader.__next__", "data", began, _now())
                yield batch

        return timed

    # executables ------------------------------------------------------------------------------------------

    def _run(self, call: Callable[..., Any], executable: Any, inputs: Any) -> Any:
        """A call step by step: an event for each, inside one for the call."""
        if id(executable) in self._clones:
            return call(executable, inputs)
        known = self._stepwise.get(id(executable)) or self._prepared(executable)
        _, run, steps, told = known
        recorder, options = self.recorder, self.recorder.options
        began = _now()
        outputs, spans = run(inputs)
        ended = _now()
        memory = sum(x.nbytes for x in outputs) if options.profile_memory else 0
        shapes = tuple([x.shape for x in inputs]) if options.record_shapes else ()
        recorder.add(executable.name, "executable", began, ended, cpu_memory_usage=memory, input_shapes=shapes)
        for number, start, end in spans:
            step = steps[number]
            recorder.add(
                step.title, step.kind, start, end, flops=step.flops if options.with_flops else 0, bytes=step.bytes,
                args=told[number],
            )  # fmt: skip
        return outputs

    def _prepared(self, executable: Any) -> tuple[Any, Any, Any, Any]:
        with self.recorder.during(f"prepare {executable.name}", "profiler"):
            run = code_generation().stepwise.Stepwise(executable)
            steps = steps_of(executable)
            known = executable, run, steps, [_told(step) for step in steps]
        self._clones.add(id(run.clone))
        self._stepwise[id(executable)] = known
        return known

    def _run_on_device(self, call: Callable[..., Any], executable: Any, inputs: Any) -> Any:
        """A call on a device as a whole, which is waited for."""
        synchronize()
        began = _now()
        outputs = call(executable, inputs)
        synchronize()
        self.recorder.add(executable.name, "executable", began, _now(), args={"device": "cuda"})
        return outputs


def _told(step: Any) -> dict[str, Any]:
    """What traces show of a step beside its times."""
    lines = dict.fromkeys(str(n.location) for n in step.nodes if n.location is not None)
    return {"shape": step.shape, "ops": [n.op.name for n in step.nodes], "lines": list(lines)}


def _nothing(*_: Any) -> None:
    """What a short way gives where it can't be gone."""


def _method(run: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    def timed(executable: Any, inputs: Any) -> Any:
        return run(call, executable, inputs)

    return timed


def _subclasses(cls: type) -> Iterator[type]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)
