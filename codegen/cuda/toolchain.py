"""The seam to NVIDIA's compilers: (source, types, target) -> PTX and cubin; the only file that imports numba-cuda.

numba-cuda compiles the Python source to PTX (through its NVVM), nvJitLink, by way of `cuda.core`, assembles that to a
cubin: a driver older than the toolkit refuses PTX, but takes cubins. Neither needs a GPU. Everything is imported at the
first use, so that nothing else depends on the extra being there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import linecache
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

from jitgrad.ir.dtypes import DType

from . import device_functions, stand_ins
from .memory import MEMORY_NAME, register_name

Types = tuple[Sequence[DType], int, Sequence[DType]]  # of buffers, how many slots, of params

INSTALL: Final = "pip install 'jitgrad[cuda13]' (or [cuda12] for a CUDA 12 driver)"
_LONG_NAMES: Final = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "bool": "uint8",
}  # fmt: skip
_NUMBERS: Final = {"NAN": math.nan, "INFINITY": math.inf}
_PACKAGES: Final = (
    "numba-cuda", "cuda-core", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12",
)  # fmt: skip
_SHARED: Final = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)


class ToolchainError(RuntimeError):
    """CUDA kernels cannot be compiled here; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What became of a source."""

    ptx: str
    cubin: bytes


def _import(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ToolchainError(f"CUDA kernels need {package}, which is not installed: {INSTALL}") from error


@functools.cache
def _numba_cuda() -> Any:
    """numba-cuda for compiling."""
    _import("numba_cuda", "numba-cuda")
    if _import("numba", "numba").config.ENABLE_CUDASIM:
        raise ToolchainError("Numba's CUDA simulator is on in this process, and then nothing is compiled for a device")
    return _import("numba.cuda", "numba-cuda with NVIDIA's bindings")


@functools.cache
def _simulator() -> Any:
    """Numba's simulator, which must have been asked for before Numba was first imported."""
    if not _import("numba", "numba").config.ENABLE_CUDASIM:
        raise ToolchainError("Numba's CUDA simulator is off: set NUMBA_ENABLE_CUDASIM=1 in the environment")
    return importlib.import_module("numba.cuda")


@functools.cache
def versions() -> str:
    """Names everything outside the source that machine code depends on."""
    found = []
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return " ".join(found)


def _function(source: str, name: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """The function `name` that `source` defines, with its text in `linecache`, so that tracebacks show it."""
    filename = f"<jitgrad {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)
    made: Callable[..., Any] = namespace[name]
    return made


@functools.cache
def _device_names() -> dict[str, Any]:
    """The namespace of kernel source when compiled."""
    cuda = _numba_cuda()
    types = cuda.types
    names: dict[str, Any] = {"cuda": cuda, "libdevice": importlib.import_module("numba.cuda.libdevice")}
    names |= {short: getattr(types, _LONG_NAMES[short]) for short in stand_ins.NAMES if short in _LONG_NAMES}
    names |= {name: getattr(types, name) for name in _SHARED} | _NUMBERS
    own = dict(names)
    for name, function in device_functions.FUNCTIONS.items():
        rebound = FunctionType(function.__code__, own, name)
        names[name] = cuda.jit(device=True, inline="always")(rebound)
    return names


def compile_source(source: str, name: str, types: Types, capability: tuple[int, int], threads: int) -> DeviceCode:
    """Compile the kernel `name` of `source`; the code's entry has the same name. `threads`: the most in a block."""
    cuda = _numba_cuda()
    numba_types = cuda.types
    buffers, slots, params = types
    arguments = [numba_types.CPointer(getattr(numba_types, MEMORY_NAME[d])) for d in buffers]
    arguments += [numba_types.int64] * slots
    arguments += [getattr(numba_types, _LONG_NAMES[register_name(d)]) for d in params]
    function = _function(source, name, dict(_device_names()))
    ptx = _renamed(_ptx(cuda, function, numba_types.void(*arguments), capability, threads), name)
    return DeviceCode(ptx, _link(ptx, capability))


def _ptx(cuda: Any, function: Any, signature: Any, capability: tuple[int, int], threads: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about types of the host's code that numba-cuda brings along
        try:
            ptx, _ = cuda.compile(
                function, signature, device=False, abi="numba", cc=capability, output="ptx", launch_bounds=threads
            )
        except ImportError as error:  # so numba-cuda says that it finds no NVVM
            raise ToolchainError(
                "CUDA kernels need NVVM, which was not found: install the wheel nvidia-nvvm, or set CUDA_HOME to a "
                "CUDA toolkit"
            ) from error
    return ptx if isinstance(ptx, str) else str(ptx.decode())


def _renamed(ptx: str, name: str) -> str:
    """The PTX with `name` for Numba's mangled name, which is long and differs from process to process."""
    mangled = re.search(r"\.visible \.entry (\w+)\(", ptx)
    assert mangled is not None
    environment = re.compile(r"^\.common \.global .*NumbaEnv.*\n", re.MULTILINE)
    return environment.sub("", ptx.replace(mangled[1], name))


def _link(ptx: str, capability: tuple[int, int]) -> bytes:
    core = _import("cuda.core", "cuda-core")
    options = core.LinkerOptions(arch=f"sm_{capability[0]}{capability[1]}")
    linked = core.Linker(core.ObjectCode.from_ptx(ptx.encode()), options=options).link("cubin")
    return bytes(linked.code)


# The simulator


@functools.cache
def _simulator_names() -> dict[str, Any]:
    """The namespace of kernel source in the simulator."""
    cuda = _simulator()
    types = _import("numba", "numba").types
    names = {"cuda": cuda, **stand_ins.NAMES, **device_functions.FUNCTIONS}
    names |= {name: getattr(types, name) for name in _SHARED} | _NUMBERS
    return names


def simulated(source: str, name: str) -> Callable[..., Any]:
    """The kernel as the simulator's callable: `function[grid, block](*arguments)`."""
    cuda = _simulator()
    made: Callable[..., Any] = cuda.jit(_function(source, name, dict(_simulator_names())))
    return made


def simulate(function: Any, grid: int, block: int, arguments: Sequence[Any]) -> None:
    """Run a simulated kernel on NumPy arrays in memory form."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # integers that wrap, floats that overflow
        function[grid, block](*arguments)
