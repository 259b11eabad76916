"""The one place where code generation (and with it Numba and llvmlite) is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.codegen.cuda.runtime.array import DEVICE_DTYPES as DEVICE_DTYPES
from jitgrad.codegen.cuda.runtime.array import DeviceArray as DeviceArray
from jitgrad.codegen.cuda.runtime.array import Memory as Memory
from jitgrad.ir.config import config
from jitgrad.ir.graph import Graph
from jitgrad.ir.ops.arranging import arrange_in_python
from jitgrad.ir.types import CPU, Device
from jitgrad.ir.unstable_order import Routine

from .counters import Event, counters, log, tell

_FEW_WORDS = 100  # Python takes as long for these as loading a kernel from disk

Observer = Callable[[str, Any], None]


def load() -> Any:
    """The code generator; loads llvmlite and the rest at the first call."""
    from jitgrad.codegen import compile as codegen

    return codegen


def gpus() -> Any:
    """The module that knows the CUDA devices, their memory and their streams."""
    from jitgrad.codegen.cuda.runtime import gpu

    return gpu


def device_copies() -> Any:
    """The module that copies between host and devices, and within them."""
    from jitgrad.codegen.cuda.runtime import copies

    return copies


def steps_of(executable: Any) -> Any:
    """What a compiled graph's steps do: a `StepDescription` each (see `codegen.describe`)."""
    from jitgrad.codegen.describe import describe_steps

    return describe_steps(executable.plan)


def timing_of(executable: Any) -> Any:
    """How long its steps take (see `codegen.timing.Timing`); None for what runs on a device."""
    from jitgrad.codegen.executable import Executable
    from jitgrad.codegen.timing import time_steps

    return time_steps(executable) if isinstance(executable, Executable) else None


@dataclass(frozen=True)
class CodeGeneration:
    """Modules of the code generator that profilers look into."""

    compile: Any
    executable: Any
    stepwise: Any
    cuda: Any


def code_generation() -> CodeGeneration:
    """They, loaded at the first call."""
    from jitgrad.codegen import compile as codegen
    from jitgrad.codegen import executable, stepwise
    from jitgrad.codegen.cuda import executable as cuda

    return CodeGeneration(codegen, executable, stepwise, cuda)


def set_num_threads(count: int) -> None:
    """Let kernels use so many threads."""
    from jitgrad.codegen.cpu import threads

    threads.set_num_threads(count)


def get_num_threads() -> int:
    """How many threads kernels may use."""
    from jitgrad.codegen.cpu import threads

    return threads.get_num_threads()


def arrange(routine: Routine, words: Any, *numbers: int) -> None:
    """Rearrange rows of words in place: natively, but in Python what is short while no code generation is loaded."""
    if not config.compile or (words.size <= _FEW_WORDS and "jitgrad.codegen.cpu.arrange" not in sys.modules):
        arrange_in_python(routine, words, *numbers)
        return
    from jitgrad.codegen.cpu import arrange as native

    native.arrange(routine, words, *numbers)


def load_if_numba_is() -> None:
    """Load the code generator now where that is cheap, because Numba is there already."""
    if "numba" in sys.modules:
        load()


def _options(numerics: str) -> Any:
    """The code generator's settings."""
    from jitgrad.codegen.options import CompileOptions

    return CompileOptions(numerics=numerics)


def _graphs_for(observer: Observer) -> Observer:
    """`observer` for the stages that are graphs."""

    def see(stage: str, what: Any) -> None:
        if isinstance(what, Graph):
            observer(stage, what)

    return see


def compile_graph(
    graph: Graph, *, name: str = "graph", aliases: Mapping[int, int] | None = None, observer: Observer | None = None,
    device: Device = CPU, numerics: str = "default", varying: Collection[int] = (),
) -> Any:  # fmt: skip
    """The executable of a graph on a device: called with arrays, gives fresh arrays (see `codegen.compile_graph`)."""
    compile_ = load().compile_graph
    options = {
        "name": name, "aliases": aliases or {}, "device": device, "options": _options(numerics), "varying": varying,
    }  # fmt: skip
    if observer is None:
        executable = compile_(graph, **options)
    else:
        executable = compile_(graph, **options, observer=_graphs_for(observer))
        observer("executable", executable)
    counters.graphs += 1
    stats = executable.stats
    counters.kernels += stats.compiled
    counters.cache_hits += stats.reused
    tell(Event("compile", name, stats.compiled))
    log(
        "compile", "%s: %d nodes -> %d kernels (%d compiled), %.1f ms", name, len(graph.nodes), stats.kernels,
        stats.compiled, stats.total_ms,
    )  # fmt: skip
    return executable


def native_call(graph: Graph) -> Any:
    """A graph of small arrays as one function of a list of them, rounding as NumPy does; None where that can't be.

    Nothing is counted: at which call eager code is compiled is no matter of the program's.
    """
    return native_form(load().compile_graph(graph, name="call", options=_options("strict")))


def native_form(executable: Any) -> Any:
    """An executable as a function of a list of small arrays that are known to fit: see `codegen.small_call`."""
    from jitgrad.codegen.small_call import small_call

    return small_call(executable)


def eager_ops() -> Any:
    """The module that makes eager ops native: see `codegen.cpu.eager_op`."""
    load()
    from jitgrad.codegen.cpu import eager_op

    return eager_op


def fitted_calls() -> Any:
    """The module that makes calls which native code checks: see `codegen.fitted_call`."""
    from jitgrad.codegen import fitted_call

    return fitted_call


def can_join(run: Any) -> bool:
    """Whether `join` takes an executable: one for the CPU without steps of the host."""
    from jitgrad.codegen import join as joining

    return joining.can_join(run)


def join(stages: Sequence[Sequence[tuple[Any, ...]]], types: Sequence[Any], copies: Sequence[Any] = ()) -> Any:
    """Calls of executables, `(executable, inputs, outputs)`, as one native call: see `codegen.join`."""
    from jitgrad.codegen import join as joining

    return joining.join([[joining.Call(*c) for c in stage] for stage in stages], types, copies)
