"""Running CUDA kernels without CUDA, and graphs through them launch by launch: what several tests share."""

from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from jitgrad.codegen.cuda import device_functions, stand_ins
from jitgrad.codegen.cuda.kernels import PARAM_FORM
from jitgrad.codegen.cuda.mapping import Geometry, map_kernel
from jitgrad.codegen.cuda.memory import memory_view
from jitgrad.codegen.cuda.source import kernel_source
from jitgrad.codegen.cuda.target import Target
from jitgrad.codegen.fuse import ControlStep, HostStep, KernelStep, ProductStep, fuse
from jitgrad.codegen.fuse.program import Program
from jitgrad.codegen.loops.ir import Kernel
from jitgrad.codegen.loops.verify import verify_kernel
from jitgrad.codegen.lower import GPU_TUNING, Launch, Tuning, lower
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.interpreter import apply_reference

ONE_THREAD = Target((0, 0), threads=1, blocks=3, simulated=True)
RunLaunch = Callable[[Launch, list[Any]], None]


def source_of(kernel: Kernel, target: Target, strict: bool = False) -> str:
    """The source of a kernel, as function `kernel`."""
    return kernel_source(kernel, map_kernel(kernel, strict), target, "kernel", strict)


def run_sequentially(
    kernel: Kernel, arrays: Sequence[Any], slots: Sequence[int] = (), params: Sequence[Any] = (), strict: bool = False
) -> None:
    """Run a kernel on flat arrays as several blocks of one thread, one after another: barriers mean nothing then."""
    mapping = map_kernel(kernel, strict)
    geometry = mapping.geometry(slots, ONE_THREAD)
    numbers = [np.asarray(v, d.np).astype(PARAM_FORM.get(d, d.np))[()] for d, v in zip(kernel.params, params)]
    arguments = [*map(memory_view, arrays), *map(np.int64, slots), *numbers]
    for block in range(geometry.grid):
        namespace = _one_thread(block, geometry)
        exec(source_of(kernel, ONE_THREAD, strict), namespace)
        with np.errstate(all="ignore"):
            namespace["kernel"](*arguments)


def _one_thread(block: int, geometry: Geometry) -> dict[str, Any]:
    at = SimpleNamespace
    memory = at(array=lambda n, kind: np.zeros(n, kind))
    cuda = at(
        gridDim=at(x=geometry.grid), blockDim=at(x=1), blockIdx=at(x=block), threadIdx=at(x=0),
        shared=memory, local=memory, syncthreads=lambda: None,
    )  # fmt: skip
    kinds = {
        k: np.dtype(k) for k in ("uint8", "int8", "int16", "int32", "int64", "uint16", "float16", "float32", "float64")
    }
    numbers = {"NAN": np.nan, "INFINITY": np.inf}
    return {"cuda": cuda, **stand_ins.NAMES, **device_functions.FUNCTIONS, **kinds, **numbers}


def run_program(
    program: Program, inputs: Sequence[Any], run_launch: RunLaunch, tuning: Tuning = GPU_TUNING
) -> list[Any]:
    """The outputs of a program whose launches `run_launch` runs, on flat arrays; the rest through NumPy."""
    memory: dict[Any, Any] = {v: np.ascontiguousarray(x) for v, x in zip(program.graph.inputs, inputs)}
    memory.update({v: np.array(op.literal.array) for v, op in program.constants.items()})
    for step in program.steps:
        if isinstance(step, KernelStep):
            memory.update({v: _garbage(v.shape, v.type.dtype.np) for v in step.stores})
            scratch: dict[Any, Any] = {}
            for launch in lower(program, step, {}, tuning):
                verify_kernel(launch.kernel)
                for operand in launch.operands:
                    if not isinstance(operand, Value) and operand not in scratch:
                        scratch[operand] = _garbage((operand.length,), operand.dtype.np)
                arrays = [scratch[o] if o in scratch else memory[program.memory_of(o)] for o in launch.operands]
                run_launch(launch, [a.reshape(-1) for a in arrays])
        else:
            assert isinstance(step, (ProductStep, HostStep, ControlStep))
            operands = [_value(program, memory, v) for v in step.node.operands]
            results = apply_reference(step.node.op, operands)
            memory.update({v: np.ascontiguousarray(r) for v, r in zip(step.node.results, results)})
    return [memory[program.memory_of(v)].reshape(v.shape) for v in program.graph.outputs]


def run_graph(graph: Graph, inputs: Sequence[Any], run_launch: RunLaunch, tuning: Tuning = GPU_TUNING) -> list[Any]:
    """The same for a graph of primitives."""
    return run_program(fuse(graph), inputs, run_launch, tuning)


def _garbage(shape: tuple[int, ...], dtype: Any) -> Any:
    """Memory as an allocator gives it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    fill = 1 if dtype == np.bool_ else 0xA5
    return np.full(size, fill, np.uint8).view(dtype).reshape(shape)


def _value(program: Program, memory: dict[Any, Any], value: Value) -> Any:
    """A value in memory, or one that matrix products read through views."""
    home = program.memory_of(value)
    if home in memory:
        return memory[home].reshape(value.shape)
    assert value.node is not None
    return value.node.op.reference(*[_value(program, memory, v) for v in value.node.operands])


def every_pair(first: Sequence[Any], second: Sequence[Any]) -> list[tuple[Any, Any]]:
    """All pairs, for parametrisation."""
    return list(product(first, second))
