"""The CUDA driver as a `Runtime`: cuda-bindings for memory, streams and graphs, cuda-core for launches, CuPy's cuBLAS.

Beside the compiler's toolchain this is the only file that imports any of them. They are loaded when a script first asks
for CUDA; `open_hardware` says in a sentence what is missing where that can't be.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import math
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jitgrad.ir import dtypes
from jitgrad.ir.errors import CudaError, OutOfMemoryError

from ...loops.ir import Kernel
from ..kernels import CudaKernel, compile_kernels
from ..target import device_target
from .protocol import (
    Array,
    CompiledKernel,
    DeviceProperties,
    Matrix,
    ProductShape,
)

_EXTRA: Final = "pip install 'jitgrad[cuda13]' (or 'jitgrad[cuda12]', for drivers older than 580)"
_STAGED: Final = 64 << 10  # bytes; the driver copies no more than this of ordinary memory aside before it returns


# Of cublas_api.h and library_types.h.
_CUDA_TYPES: Final = {dtypes.float32: 0, dtypes.float64: 1, dtypes.float16: 2, dtypes.bfloat16: 14}
_COMPUTE_32F: Final = 68
_COMPUTE_64F: Final = 70
_DEFAULT_ALGORITHM: Final = -1


class Hardware:
    """The devices that the driver shows this process."""

    is_simulated = False

    def __init__(self, driver: Any, count: int) -> None:
        self._driver = driver
        self._count = count
        self._pid = os.getpid()
        self._contexts: dict[int, Any] = {}
        self._kernels: dict[tuple[int, str], Any] = {}
        self._streams: dict[int, tuple[int, Any]] = {}  # by number: device, and the stream as cuda-core has it
        self._handles: dict[int, int] = {}
        self._here = threading.local()
        self._lock = threading.RLock()
        self._core: Any = None

    # Calling the driver

    def _call(self, name: str, *args: Any) -> Any:
        """The result of a driver function (a tuple of several); `CudaError` if it fails."""
        if self._pid != os.getpid():
            raise CudaError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )
        status, *results = getattr(self._driver, name)(*args)
        if int(status):
            self._fail(name, status)
        return results[0] if len(results) == 1 else tuple(results)

    def _fail(self, name: str, status: Any) -> None:
        _, text = self._driver.cuGetErrorString(status)
        message = text.decode() if text else str(status)
        if status == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemoryError(f"{name}: {message}")
        raise CudaError(f"CUDA error: {message} (in {name})")

    def _release(self, name: str, *args: Any) -> None:
        """Give something back; at exit, or in a forked child, the driver may be gone."""
        with contextlib.suppress(Exception):
            if self._pid == os.getpid():
                self._call(name, *args)

    def _query(self, name: str, thing: Any) -> bool:
        """Whether a stream or an event is done."""
        (status,) = getattr(self._driver, name)(thing)
        if status == self._driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        if int(status):
            self._fail(name, status)
        return True

    def _use(self, device: int) -> None:
        """Make a device's context this thread's."""
        if getattr(self._here, "device", None) == device:
            return
        with self._lock:
            context = self._contexts.get(device)
            if context is None:
                context = self._call("cuDevicePrimaryCtxRetain", self._call("cuDeviceGet", device))
                self._contexts[device] = context
        self._call("cuCtxSetCurrent", context)
        self._here.device = device

    def _on(self, stream: int) -> Any:
        """The driver's stream, with its device's context current."""
        self._use(self._streams[stream][0])
        return self._driver.CUstream(stream)

    # Devices

    def device_count(self) -> int:
        """Number of devices."""
        return self._count

    def properties(self, device: int) -> DeviceProperties:
        """Facts of a device."""
        handle, kinds = self._call("cuDeviceGet", device), self._driver.CUdevice_attribute

        def fact(name: str) -> int:
            return int(self._call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

        name = self._call("cuDeviceGetName", 256, handle).split(b"\0")[0].decode()
        return DeviceProperties(
            name, fact("COMPUTE_CAPABILITY_MAJOR"), fact("COMPUTE_CAPABILITY_MINOR"),
            int(self._call("cuDeviceTotalMem", handle)), fact("MULTIPROCESSOR_COUNT"), fact("MAX_THREADS_PER_BLOCK"),
            fact("MAX_THREADS_PER_MULTIPROCESSOR"), fact("MAX_SHARED_MEMORY_PER_BLOCK"), fact("WARP_SIZE"),
            fact("L2_CACHE_SIZE"), bytes(self._call("cuDeviceGetUuid", handle).bytes).hex(),
            self._call("cuDeviceGetPCIBusId", 32, handle).split(b"\0")[0].decode(), bool(fact("INTEGRATED")),
        )  # fmt: skip

    def synchronize(self, device: int) -> None:
        """Wait for everything on a device."""
        self._use(device)
        self._call("cuCtxSynchronize")

    # Memory

    def allocate(self, device: int, nbytes: int) -> int:
        """The address of fresh memory."""
        self._use(device)
        return int(self._call("cuMemAlloc", nbytes))

    def release(self, device: int, pointer: int) -> None:
        """Give memory back."""
        self._use(device)
        self._release("cuMemFree", pointer)

    def memory_info(self, device: int) -> tuple[int, int]:
        """Free and total bytes of a device."""
        self._use(device)
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def allocate_pinned(self, nbytes: int) -> int:
        """The address of page-locked host memory."""
        self._use(getattr(self._here, "device", None) or 0)
        return int(self._call("cuMemHostAlloc", nbytes, 1))  # 1: CU_MEMHOSTALLOC_PORTABLE, for all devices

    def release_pinned(self, pointer: int) -> None:
        """Page-locked memory is given back."""
        self._release("cuMemFreeHost", pointer)

    def to_device(self, pointer: int, source: Array, stream: int, blocking: bool) -> None:
        """Copy a contiguous host array to the device."""
        handle = self._on(stream)
        self._call("cuMemcpyHtoDAsync", pointer, source.ctypes.data, source.nbytes, handle)
        if blocking and source.nbytes > _STAGED:
            self._call("cuStreamSynchronize", handle)

    def to_host(self, target: Array, pointer: int, stream: int, blocking: bool) -> None:
        """Copy to a contiguous host array."""
        handle = self._on(stream)
        self._call("cuMemcpyDtoHAsync", target.ctypes.data, pointer, target.nbytes, handle)
        if blocking:
            self._call("cuStreamSynchronize", handle)

    def on_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between places of devices."""
        self._call("cuMemcpyAsync", target, source, nbytes, self._on(stream))

    def fill(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes."""
        self._call("cuMemsetD8Async", pointer, byte, nbytes, self._on(stream))

    # Work

    def compile(self, kernels: Sequence[Kernel], numerics: str, device: int) -> list[CompiledKernel]:
        """Kernels for a device, in order."""
        p = self.properties(device)
        return [*compile_kernels(kernels, numerics, device_target((p.major, p.minor), p.multi_processor_count))]

    def prepare(
        self, kernel: Any, lengths: Sequence[int], slots: Sequence[int], params: Sequence[Any], device: int
    ) -> tuple[Any, Any, list[Any]] | None:
        """The kernel as cuda-core has it, its geometry, and arguments after the pointers; None if nothing is to do."""
        geometry = kernel.launch(slots)
        if geometry.grid == 0:
            return None
        config = self.core.LaunchConfig(grid=geometry.grid, block=geometry.block, shmem_size=geometry.shared_bytes)
        return self._loaded(kernel, device), config, kernel.scalars(slots, params)

    def launch(self, prepared: tuple[Any, Any, list[Any]] | None, pointers: Sequence[int], stream: int) -> None:
        """Run a kernel on buffers at these addresses."""
        if prepared is not None:
            kernel, config, scalars = prepared
            device, handle = self._streams[stream]
            self._use(device)
            self.core.launch(handle, config, kernel, *pointers, *scalars)

    @property
    def core(self) -> Any:
        """The package cuda-core."""
        if self._core is None:
            self._core = _packages()[1]
        return self._core

    def _loaded(self, kernel: CudaKernel, device: int) -> Any:
        """A kernel's code in a device's context."""
        found = self._kernels.get((device, kernel.key))
        if found is None:
            self._use(device)
            code = self.core.ObjectCode.from_cubin(kernel.cubin, name=kernel.entry)
            found = self._kernels[device, kernel.key] = code.get_kernel(kernel.entry)
        return found

    def multiply(self, shape: ProductShape, lhs: Matrix, rhs: Matrix, result: Matrix, stream: int) -> None:
        """A batch of matrix products; half types add up in float32.

        Row-major `C = A B` is column-major `C' = B' A'`, so that the right operand comes first.
        """
        self._use(self._streams[stream][0])
        cublas, kind = _cublas(), _CUDA_TYPES[shape.dtype]
        wide = shape.dtype is dtypes.float64
        number = ctypes.c_double if wide else ctypes.c_float
        one, zero = number(1.0), number(0.0)
        with self._lock:  # a handle has one stream at a time
            handle = self._blas_handle(self._streams[stream][0])
            cublas.setStream(handle, stream)
            cublas.gemmStridedBatchedEx(
                handle, int(rhs.transposed), int(lhs.transposed), shape.columns, shape.rows, shape.inner,
                ctypes.addressof(one), rhs.pointer, kind, rhs.leading, rhs.batch_stride,
                lhs.pointer, kind, lhs.leading, lhs.batch_stride,
                ctypes.addressof(zero), result.pointer, kind, result.leading, result.batch_stride, shape.batch,
                _COMPUTE_64F if wide else _COMPUTE_32F, _DEFAULT_ALGORITHM,
            )  # fmt: skip

    def _blas_handle(self, device: int) -> int:
        if device not in self._handles:
            self._handles[device] = _cublas().create()
        return self._handles[device]

    @contextlib.contextmanager
    def library(self, stream: int) -> Iterator[Any]:
        """CuPy, on the stream; where an algorithm does not succeed it raises."""
        device = self._streams[stream][0]
        self._use(device)
        cupy, errstate = _cupy()
        with cupy.cuda.Device(device), cupy.cuda.ExternalStream(stream, device), errstate(linalg="raise"):
            yield cupy

    def borrow(self, pointer: int, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        """Memory as CuPy's array."""
        cuda = _cupy()[0].cuda
        memory = cuda.UnownedMemory(pointer, math.prod(shape) * dtype.itemsize, None, device)
        return _cupy()[0].ndarray(shape, dtype, cuda.MemoryPointer(memory, 0))

    # Streams and events

    def new_stream(self, device: int, priority: int) -> int:
        """A stream of its own, which waits for the legacy default stream and is waited for by it."""
        self._use(device)
        handle = self._call("cuStreamCreateWithPriority", 0, priority)
        number = int(handle)
        self._streams[number] = device, self.core.Stream.from_handle(number)
        return number

    def stream_is_done(self, stream: int) -> bool:
        """Whether all work of a stream has finished."""
        return self._query("cuStreamQuery", self._on(stream))

    def synchronize_stream(self, stream: int) -> None:
        """Wait for a stream."""
        self._call("cuStreamSynchronize", self._on(stream))

    def new_event(self, device: int, timing: bool, blocking: bool) -> int:
        """An event."""
        self._use(device)
        return int(self._call("cuEventCreate", (0 if timing else 2) | (1 if blocking else 0)))

    def release_event(self, event: int) -> None:
        """An event is needed no more."""
        self._release("cuEventDestroy", self._driver.CUevent(event))

    def record_event(self, event: int, stream: int) -> None:
        """The event happens when the stream has come here."""
        self._call("cuEventRecord", self._driver.CUevent(event), self._on(stream))

    def wait_event(self, stream: int, event: int) -> None:
        """What the stream is given from now on waits for the event."""
        self._call("cuStreamWaitEvent", self._on(stream), self._driver.CUevent(event), 0)

    def event_is_done(self, event: int) -> bool:
        """Whether the event has happened."""
        return self._query("cuEventQuery", self._driver.CUevent(event))

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""
        self._call("cuEventSynchronize", self._driver.CUevent(event))

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two events that have happened."""
        return float(self._call("cuEventElapsedTime", self._driver.CUevent(start), self._driver.CUevent(end)))

    # Graphs

    def begin_capture(self, stream: int) -> None:
        """From now on the stream's work is noted and not run."""
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._call("cuStreamBeginCapture", self._on(stream), mode)

    def end_capture(self, stream: int) -> int:
        """A graph of what was noted."""
        graph = self._call("cuStreamEndCapture", self._on(stream))
        try:
            return int(self._call("cuGraphInstantiate", graph, 0))
        finally:
            self._call("cuGraphDestroy", graph)

    def replay(self, graph: int, stream: int) -> None:
        """Run a graph."""
        self._call("cuGraphLaunch", self._driver.CUgraphExec(graph), self._on(stream))

    def release_graph(self, graph: int) -> None:
        """A graph is needed no more."""
        self._release("cuGraphExecDestroy", self._driver.CUgraphExec(graph))


def open_hardware() -> tuple[Hardware | None, str]:
    """The machine's devices, or why there are none."""
    for name in ("cuda.bindings", "cuda.core"):
        if not _is_installed(name):
            return None, f"the package {name.replace('.', '-')} is not installed: {_EXTRA}"
    driver = _packages()[0]
    try:
        (status,) = driver.cuInit(0)
        if int(status):
            return None, f"the CUDA driver can't be used: {driver.cuGetErrorString(status)[1].decode()}"
        status, count = driver.cuDeviceGetCount()
    except Exception:  # cuda-bindings raises of its own where the driver's library is not there
        return None, "no NVIDIA driver is installed (libcuda was not found)"
    if int(status) or not count:
        return None, "there is no CUDA device"
    return Hardware(driver, int(count)), ""


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _packages() -> tuple[Any, Any]:
    """The driver's functions, and cuda-core."""
    import cuda.core
    from cuda.bindings import driver

    return driver, cuda.core


def _cupy() -> tuple[Any, Any]:
    """CuPy, and its context for what to do at errors."""
    try:
        import cupy
        from cupyx import errstate
    except ImportError as error:
        raise CudaError(f"transforms, factorisations and sorting on CUDA need CuPy ({error}): {_EXTRA}") from None
    return cupy, errstate


def _cublas() -> Any:
    """cuBLAS, as CuPy binds it."""
    try:
        from cupy_backends.cuda.libs import cublas
    except ImportError as error:
        raise CudaError(f"matrix products on CUDA need CuPy ({error}): {_EXTRA}") from None
    return cublas
