"""A CUDA machine made of host memory, for tests: `JITGRAD_CUDA_SIMULATOR=1`.

Device memory is host memory that only this module touches. Kernels run through the loop interpreter, or where Numba's
simulator is on (`NUMBA_ENABLE_CUDASIM=1`) as the source that a device would get, which takes far longer. Everything
happens at once, but for captures, which note what they are given, as on a device. `JITGRAD_CUDA_SIMULATOR=n` simulates
n devices.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import CudaError, InternalError, OutOfMemoryError

from ...loops.interpret import interpret
from ...loops.ir import Kernel
from ...loops.printer import print_kernel
from ..kernels import CudaKernel, compile_kernels, simulate
from ..mapping import Geometry, map_kernel
from ..target import SIMULATOR
from .protocol import (
    Array,
    CompiledKernel,
    DeviceProperties,
    Matrix,
    ProductShape,
)

_TOTAL: Final = 1 << 30
_GUARD: Final = 0xA5  # fresh memory is filled with it, so that a test sees what was never written


@dataclass(frozen=True, slots=True, eq=False)
class InterpretedKernel:
    """A kernel that the loop interpreter runs."""

    kernel: Kernel
    ptx = ""

    @property
    def source(self) -> str:
        """What is interpreted."""
        return print_kernel(self.kernel)

    def launch(self, slots: Sequence[int]) -> Geometry:
        """The blocks and threads that the simulator's target would use."""
        return map_kernel(self.kernel, False).geometry(slots, SIMULATOR)

    def llvm_ir(self) -> str:
        """There is none."""
        return ""

    def assembly(self) -> str:
        """There is none."""
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedLaunch:
    """A kernel with all but its buffers' addresses."""

    kernel: CompiledKernel
    lengths: tuple[int, ...]
    slots: tuple[int, ...]
    params: tuple[Any, ...]


@dataclass(slots=True, eq=False)
class _Stream:
    """What is being captured, or None; and the device."""

    device: int
    captured: list[Callable[[], None]] | None = None


@dataclass(slots=True, eq=False)
class _Event:
    """When it happened, in seconds."""

    at: float | None = None


class Simulator:
    """A `Runtime` of `count` devices."""

    is_simulated = True

    def __init__(self, count: int = 1, in_numba: bool = False, total_memory: int = _TOTAL) -> None:
        self._in_numba = in_numba
        self._count = count
        self._total = total_memory
        self._blocks: dict[int, tuple[int, Any]] = {}  # by address: device and memory
        self._pinned: dict[int, Array] = {}
        self._used = [0] * count
        self._numbers = itertools.count(1)
        self._streams: dict[int, _Stream] = {}
        self._events: dict[int, _Event] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self.launches = 0
        self.replays = 0
        self.copies_to_host = 0
        self.copies_to_device = 0

    # Devices

    def device_count(self) -> int:
        """Number of devices."""
        return self._count

    def properties(self, device: int) -> DeviceProperties:
        """Facts of a device."""
        return DeviceProperties("jitgrad CUDA simulator", 8, 0, self._total, 1, uuid=f"simulated-{device}")

    def synchronize(self, device: int) -> None:
        """All is done already."""
        if any(s.captured is not None for s in self._streams.values()):
            raise CudaError("operation not permitted when stream is capturing")

    # Memory

    def allocate(self, device: int, nbytes: int) -> int:
        """Fresh memory, full of a pattern."""
        if self._used[device] + nbytes > self._total:
            raise OutOfMemoryError(f"out of memory: {nbytes} bytes")
        raw = np.full(nbytes + 512, _GUARD, np.uint8)
        pointer = -(-raw.ctypes.data // 512) * 512
        self._used[device] += nbytes
        self._blocks[pointer] = device, raw
        return pointer

    def release(self, device: int, pointer: int) -> None:
        """Memory is given back."""
        _, raw = self._blocks.pop(pointer)
        self._used[device] -= raw.size - 512

    def memory_info(self, device: int) -> tuple[int, int]:
        """Free and total bytes."""
        return self._total - self._used[device], self._total

    def allocate_pinned(self, nbytes: int) -> int:
        """Host memory like any other."""
        raw = np.full(nbytes, _GUARD, np.uint8)
        self._pinned[raw.ctypes.data] = raw
        return raw.ctypes.data

    def release_pinned(self, pointer: int) -> None:
        """Memory is given back."""
        self._pinned.pop(pointer)

    def to_device(self, pointer: int, source: Array, stream: int, blocking: bool) -> None:
        """Copy to the device."""
        self.copies_to_device += 1
        kept = source.copy() if blocking else source
        self._do(stream, lambda: _move(pointer, kept.ctypes.data, kept.nbytes))

    def to_host(self, target: Array, pointer: int, stream: int, blocking: bool) -> None:
        """Copy to the host."""
        if blocking and self._streams[stream].captured is not None:
            raise CudaError("operation not permitted when stream is capturing")
        self.copies_to_host += 1
        self._do(stream, lambda: _move(target.ctypes.data, pointer, target.nbytes))

    def on_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between places of devices."""
        self._do(stream, lambda: _move(target, source, nbytes))

    def fill(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes."""

        def run() -> None:
            ctypes.memset(pointer, byte, nbytes)

        self._do(stream, run)

    # Work

    def compile(self, kernels: Sequence[Kernel], numerics: str, device: int) -> list[CompiledKernel]:
        """Nothing to do for the interpreter."""
        if self._in_numba:
            return [*compile_kernels(kernels, numerics, SIMULATOR)]
        return [InterpretedKernel(k) for k in kernels]

    def prepare(
        self, kernel: Any, lengths: Sequence[int], slots: Sequence[int], params: Sequence[Any], device: int
    ) -> PreparedLaunch:
        """All but the addresses."""
        return PreparedLaunch(kernel, tuple(lengths), tuple(slots), tuple(params))

    def launch(self, prepared: PreparedLaunch, pointers: Sequence[int], stream: int) -> None:
        """Interpret a kernel."""
        given = [b for b in prepared.kernel.kernel.buffers if b.role != "local"]
        arrays = [_memory(at, (n,), b.dtype.np) for at, n, b in zip(pointers, prepared.lengths, given, strict=True)]

        def run() -> None:
            self.launches += 1
            with np.errstate(all="ignore"):
                self._interpret(prepared, arrays)

        self._do(stream, run)

    @staticmethod
    def _interpret(prepared: PreparedLaunch, arrays: Sequence[Array]) -> None:
        if isinstance(prepared.kernel, CudaKernel):
            simulate(prepared.kernel, arrays, prepared.slots, prepared.params)
        else:
            interpret(prepared.kernel.kernel, arrays, prepared.slots, prepared.params)

    def multiply(self, shape: ProductShape, lhs: Matrix, rhs: Matrix, result: Matrix, stream: int) -> None:
        """A batch of products by NumPy."""

        def run() -> None:
            self.launches += 1
            dtype = shape.dtype.np
            wide = np.promote_types(dtype, np.float32) if dtype.kind == "f" else np.dtype(np.float32)
            x = _matrices(lhs, shape.batch, shape.rows, shape.inner, dtype).astype(wide)
            y = _matrices(rhs, shape.batch, shape.inner, shape.columns, dtype).astype(wide)
            with np.errstate(all="ignore"):
                product = np.matmul(x, y)
            _matrices(result, shape.batch, shape.rows, shape.columns, dtype)[...] = product

        self._do(stream, run)

    @contextlib.contextmanager
    def library(self, stream: int) -> Iterator[Any]:
        """NumPy."""
        if self._streams[stream].captured is not None:
            raise CudaError("operation not permitted when stream is capturing")
        with np.errstate(all="ignore"):
            yield np

    def borrow(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Array:
        """Memory as an array."""
        return _memory(pointer, shape, dtype)

    # Streams and events

    def new_stream(self, device: int, priority: int) -> int:
        """A stream of its own."""
        number = next(self._numbers)
        self._streams[number] = _Stream(device)
        return number

    def stream_is_done(self, stream: int) -> bool:
        """Always."""
        return True

    def synchronize_stream(self, stream: int) -> None:
        """All is done already."""
        if self._streams[stream].captured is not None:
            raise CudaError("operation not permitted when stream is capturing")

    def new_event(self, device: int, timing: bool, blocking: bool) -> int:
        """An event."""
        number = next(self._numbers)
        self._events[number] = _Event()
        return number

    def release_event(self, event: int) -> None:
        """An event is needed no more."""
        self._events.pop(event, None)

    def record_event(self, event: int, stream: int) -> None:
        """It happens now."""
        happening = self._events[event]

        def run() -> None:
            happening.at = time.perf_counter()

        self._do(stream, run)

    def wait_event(self, stream: int, event: int) -> None:
        """It has happened already."""

    def event_is_done(self, event: int) -> bool:
        """An event that was never recorded counts as done, as in CUDA."""
        return True

    def synchronize_event(self, event: int) -> None:
        """All is done already."""

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two events."""
        first, last = self._events[start].at, self._events[end].at
        if first is None or last is None:
            raise CudaError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (last - first)

    # Graphs

    def begin_capture(self, stream: int) -> None:
        """Note work from now on."""
        if self._streams[stream].captured is not None:
            raise CudaError("the stream is being captured already")
        self._streams[stream].captured = []

    def end_capture(self, stream: int) -> int:
        """What was noted, as a graph."""
        noted = self._streams[stream].captured
        if noted is None:
            raise InternalError("a capture that was never begun")
        self._streams[stream].captured = None
        number = next(self._numbers)
        self._graphs[number] = noted
        return number

    def replay(self, graph: int, stream: int) -> None:
        """Run what was noted."""
        self.replays += 1
        for work in self._graphs[graph]:
            self._do(stream, work)

    def release_graph(self, graph: int) -> None:
        """A graph is needed no more."""
        self._graphs.pop(graph, None)

    def _do(self, stream: int, work: Callable[[], None]) -> None:
        """Run it, or note it while the stream is captured."""
        noted = self._streams[stream].captured
        if noted is None:
            work()
        else:
            noted.append(work)


def _move(target: int, source: int, nbytes: int) -> None:
    ctypes.memmove(target, source, nbytes)


def _memory(pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The elements at an address."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes == 0:
        return np.empty(shape, dtype)
    kind: Any = ctypes.c_uint8 * nbytes
    return np.frombuffer(kind.from_address(pointer), np.uint8).view(dtype).reshape(shape)


def _matrices(m: Matrix, batch: int, rows: int, columns: int, dtype: np.dtype[Any]) -> Array:
    """A batch of matrices as an array."""
    by_row, by_column = (1, m.leading) if m.transposed else (m.leading, 1)
    reach = (batch - 1) * m.batch_stride + (rows - 1) * by_row + (columns - 1) * by_column + 1
    flat = _memory(m.pointer, (max(reach, 0) if batch and rows and columns else 0,), dtype)
    size = dtype.itemsize
    strides = (m.batch_stride * size, by_row * size, by_column * size)
    return np.lib.stride_tricks.as_strided(flat, (batch, rows, columns), strides)
