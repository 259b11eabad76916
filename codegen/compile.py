"""From a graph to an `Executable`, in order: prepare, fuse, plan (which lowers), compile, encode."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from jitgrad.ir.collection import PAUSE
from jitgrad.ir.config import config
from jitgrad.ir.graph import Graph
from jitgrad.ir.passes import EliminateDeadCode
from jitgrad.ir.types import CPU, Device

from . import stored
from .cache import COUNTERS
from .conv.target import DEFAULT_TARGET, TileTarget
from .cpu.code_maker import soon_switched
from .cpu.driver import begin_driver
from .cpu.kernels import KERNELS_IN_A_MODULE, begin_kernels, compile_kernels, tile_target
from .encode import encode
from .executable import Executable
from .expected import EXPECTED
from .fuse.program import ControlStep, HostStep, ProductStep, fuse
from .loops.ir import Kernel
from .loops.verify import verify_kernel
from .lower import CPU_TUNING, GPU_TUNING, AnyKernel, Launch, nbytes_of
from .options import DEFAULT, CompileOptions
from .plan import Plan, kernels_of, make_plan
from .plan_verify import verify_plan
from .prepare import prepare
from .program_text import DumpText
from .resize import Table
from .resize.symbols import Symbols
from .resize.template import RecordedArena, Template, symbolic_graph
from .stats import Stats
from .tile_launches import tile_kernels

Observer = Callable[[str, Any], None]
_MOST_ON_HOST: Final = 1 << 24  # elements: NumPy has them in a time that compiling takes as well
NO_ALIASES: Final[Mapping[int, int]] = MappingProxyType({})


def ignore(stage: str, what: Any) -> None:
    """The observer that looks away."""


def compile_graph(
    graph: Graph,
    *,
    name: str = "graph",
    aliases: Mapping[int, int] = NO_ALIASES,
    options: CompileOptions = DEFAULT,
    observer: Observer = ignore,
    device: Device = CPU,
    varying: Collection[int] = (),
) -> Any:
    """Compile `graph`, which may hold composites: an `Executable`, or for a CUDA device a `CudaExecutable`.

    The graph lives on `device` as a whole, whatever its types say.

    `aliases[k] = i` writes output `k` into the memory of input `i`, after everything that reads the input's old value;
    other outputs are fresh arrays. `observer(stage, object)` sees the result of every stage.

    `varying` are inputs that are expected to have another first length at a later call: a batch. What is found out of
    the graph then serves other lengths too.

    >>> import numpy as np
    >>> from jitgrad.ir import dtypes
    >>> from jitgrad.ir.builder import Builder
    >>> from jitgrad.ir.ops.arithmetic import Add
    >>> from jitgrad.ir.types import TensorType
    >>> b = Builder()
    >>> x = b.input(TensorType((3,), dtypes.float32))
    >>> run = compile_graph(b.build([b(Add(), x, x)]))
    >>> run([np.array([1, 2, 3], np.float32)])
    [array([2., 4., 6.], dtype=float32)]
    """
    with EXCLUSIVE, PAUSE, soon_switched():
        return _compile(graph, name, aliases, options, observer, device, varying)


# Expressions are interned in one table, which takes one compilation at a time; a child must not inherit a held lock.
EXCLUSIVE: Final = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=EXCLUSIVE.acquire, after_in_parent=EXCLUSIVE.release, after_in_child=EXCLUSIVE.release)


def _compile(
    graph: Graph, name: str, aliases: Mapping[int, int], options: CompileOptions, observer: Observer, device: Device,
    varying: Collection[int],
) -> Any:  # fmt: skip
    if device.type != "cpu" or observer is not ignore:
        return _compile_anew(graph, name, aliases, options, observer, device)

    if _is_empty_batch(graph, varying):
        return _compile_anew(graph, name, aliases, dataclasses.replace(options, host=True), ignore, CPU)

    def whole() -> Executable:
        with EXCLUSIVE, PAUSE, soon_switched():
            made: Executable = _compile_anew(graph, name, aliases, options, ignore, CPU)
        return made

    begin_driver()
    start, compiled = time.perf_counter(), COUNTERS.compiled
    guessed = () if config.verify else varying  # the verifier of kernels and graphs takes plain numbers
    kind = (tuple(aliases.items()), options)
    whole_graph = TEMPLATES.completed(graph, kind, sums=options.numerics != "strict")
    sizes = TEMPLATES.sizes(whole_graph, kind, guessed)
    plan = sizes.resized()
    stats = Stats()
    if plan is not None:
        return _resized(name, plan, whole, stats, start, compiled)
    key = stored.key_of(graph, aliases, options)
    found = None if key is None else stored.load(key, graph, name, aliases, whole)
    if found is None:
        EXPECTED.begin_all(graph, options)
        plan = sizes.recorded(functools.partial(_template, whole_graph, aliases, options, stats))
        found = whole() if plan is None else _resized(name, plan, whole, stats, start, compiled)
        if key is not None:
            stored.store(key, graph, found)
    return found


def _is_empty_batch(graph: Graph, varying: Collection[int]) -> bool:
    """Whether an argument is empty, and what there is to do besides little: kernels for it would not be worth it."""
    return any(graph.inputs[k].type.numel == 0 for k in varying) and (
        sum(v.type.numel for v in graph.values()) <= _MOST_ON_HOST
    )


def _compile_anew(
    graph: Graph, name: str, aliases: Mapping[int, int], options: CompileOptions, observer: Observer, device: Device
) -> Any:
    stats = Stats()
    tiles = _tiles(options, device)
    with _timed(stats, "prepare"):
        prepared = EliminateDeadCode().run(graph) if options.host else prepare_for(device, graph, options, observer)
    if tiles is not None:  # tile kernels are known already, and take longest
        begin_kernels(tile_kernels(prepared, tiles), options.numerics)
    with _timed(stats, "fuse"):
        program = fuse(prepared, options)
    observer("fused", program)
    ahead = _Ahead(options.numerics, begins=tiles is not None)
    with _timed(stats, "plan"):
        tuning = CPU_TUNING if device.type == "cpu" else GPU_TUNING
        plan = make_plan(program, dict(aliases), tuning, tiles or DEFAULT_TARGET, lowered=ahead)
        ahead.begin()
        if options.check_plan:
            verify_plan(plan)
    observer("plan", plan)
    with _timed(stats, "compile"):
        kernels = kernels_of(plan)
        if config.verify:
            for kernel in kernels:
                if isinstance(kernel, Kernel):
                    verify_kernel(kernel)
        before = COUNTERS.compiled
        compile_ = compile_kernels if device.type == "cpu" else functools.partial(_cuda().compile_for, device)
        native = compile_(kernels, options.numerics)
        stats.compiled = COUNTERS.compiled - before
    observer("kernels", native)
    _describe(stats, plan, kernels)
    if device.type != "cpu":
        return _cuda().CudaExecutable(name, plan, dict(zip(kernels, native)), stats, DumpText(prepared), device)
    with _timed(stats, "encode"):
        segments = encode(plan, {k: n.address for k, n in zip(kernels, native)})
    return Executable(name, plan, segments, native, stats, DumpText(prepared))


@dataclass(slots=True)
class _Ahead:
    """Has kernels compiled by other threads, some at a time, as a plan comes to them."""

    numerics: str
    begins: bool
    _kernels: dict[AnyKernel, None] = field(default_factory=dict)
    _begun: int = 0

    def __call__(self, launches: Sequence[Launch]) -> None:
        """More launches."""
        self._kernels.update(dict.fromkeys(x.kernel for x in launches))
        if len(self._kernels) - self._begun >= KERNELS_IN_A_MODULE:
            self.begin()

    def begin(self) -> None:
        """Begin with those there are."""
        if self.begins:
            begin_kernels(list(self._kernels)[self._begun :], self.numerics)
        self._begun = len(self._kernels)


def prepare_for(device: Device, graph: Graph, options: CompileOptions, observer: Observer) -> Graph:
    """What `compile_graph` fuses for `device`; the observer sees the graph after each pass, and as "prepared"."""
    prepared = prepare(graph, options, observer, half_products=device.type != "cpu", tiles=_tiles(options, device))
    observer("prepared", prepared)
    return prepared


def _tiles(options: CompileOptions, device: Device) -> TileTarget | None:
    """The registers of tile kernels, which the CPU alone has."""
    return tile_target(options.vector_bits) if device.type == "cpu" else None


def _resized(
    name: str, found: tuple[Plan, Template], whole: Callable[[], Executable], stats: Stats, start: float, compiled: int
) -> Executable:
    """An executable by what is known of its graph at other sizes, begun at `start` when `compiled` kernels had been."""
    plan, template = found
    stats.compiled = COUNTERS.compiled - compiled
    stats.stages_ms["resize"] = 1e3 * (time.perf_counter() - start) - sum(stats.stages_ms.values())
    _describe(stats, plan, list(template.native))
    with _timed(stats, "encode"):
        segments = encode(plan, {k: n.address for k, n in template.native.items()})
    return Executable(name, plan, segments, list(template.native.values()), stats, whole)


def _template(
    graph: Graph, aliases: Mapping[int, int], options: CompileOptions, stats: Stats, symbols: Symbols
) -> Template:
    """Compiles with tracked numbers. It may raise what code raises that takes plain numbers alone."""
    tiles = tile_target(options.vector_bits)
    recording = symbols.recording
    with _timed(stats, "prepare"):
        prepared = prepare(symbolic_graph(graph, symbols), options, tiles=tiles)
    begin_kernels(tile_kernels(prepared, tiles), options.numerics)
    with _timed(stats, "fuse"):
        program = fuse(prepared, options)
    with _timed(stats, "plan"):
        ahead = _Ahead(options.numerics, begins=True)
        arena = functools.partial(RecordedArena, recording)
        plan = make_plan(program, dict(aliases), CPU_TUNING, tiles, arena, lowered=ahead)
        ahead.begin()
    kernels = kernels_of(plan)
    recording.close()
    if options.check_plan:
        verify_plan(plan)
    with _timed(stats, "compile"):
        native = compile_kernels(kernels, options.numerics)
    return Template(symbols, plan, tiles, dict(zip(kernels, native, strict=True)))


TEMPLATES: Final = Table()


def _cuda() -> Any:
    """The CUDA backend, loaded where a graph is compiled for a device of its."""
    from .cuda import executable

    return executable


@contextmanager
def _timed(stats: Stats, stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    stats.stages_ms[stage] = 1e3 * (time.perf_counter() - start)


def _describe(stats: Stats, plan: Plan, kernels: Sequence[AnyKernel]) -> None:
    """The numbers that follow from the plan."""
    stats.kernels = len(kernels)
    stats.reused = stats.kernels - stats.compiled
    stats.arena_bytes = plan.arena_bytes
    stats.host_steps = sum(
        isinstance(step, HostStep) or (isinstance(step, ControlStep) and step.needs_host) for step in plan.steps
    )
    for step, launches in zip(plan.steps, plan.launches):
        if isinstance(step, ProductStep):
            x, y = step.node.operands
            stats.flops += 2 * step.node.result.type.numel * x.type.shape[-1]
            stats.bytes += x.type.nbytes + y.type.nbytes + step.node.result.type.nbytes
        stats.bytes += sum(nbytes_of(o) for launch in launches for o in launch.operands)
        stats.flops += sum(launch.operations for launch in launches)
