"""The functions of cuda-bindings, cuda-core and cuBLAS that `hardware` calls, on host memory.

They check what they are given as the driver would, as far as that can be known: streams, events, graphs and memory that
exist, contexts that are current. Kernels are interpreted; nothing is compiled.
"""

import contextlib
import ctypes
import itertools
import time
from types import SimpleNamespace

import numpy as np
from cuda.bindings import driver as real

from jitgrad.codegen.cuda.mapping import Geometry
from jitgrad.codegen.cuda.memory import PARAM_FORM
from jitgrad.codegen.cuda.runtime import hardware
from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.loops.printer import canonical_text
from jitgrad.ir import dtypes

DEVICES = 2
TOTAL = 1 << 30
OK, NO_MEMORY, NOT_PERMITTED = (
    real.CUresult.CUDA_SUCCESS, real.CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    real.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
)  # fmt: skip


class Machine:
    """What exists on the machine."""

    def __init__(self):
        self.numbers = itertools.count(1000)
        self.blocks = {}  # address: (device, size, memory)
        self.streams = {}  # number: [device, noted work or None]
        self.events = {}
        self.graphs = {}
        self.current = None
        self.kernels = {}

    def work(self, stream, do):
        assert self.streams[int(stream)][0] == self.current, "the stream's context is not current"
        noted = self.streams[int(stream)][1]
        if noted is None:
            do()
        else:
            noted.append(do)
        return (OK,)

    def reach(self, pointer):
        """Bytes from a pointer to the end of its memory."""
        for at, (_, size, _) in self.blocks.items():
            if at <= pointer < at + size:
                return at + size - pointer
        raise AssertionError(f"{pointer:#x} is no device memory")


M = Machine()


def host(pointer, count, dtype):
    if count == 0:
        return np.empty(0, dtype)
    nbytes = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(pointer), np.uint8).view(dtype)


class Driver:
    """`cuda.bindings.driver`."""

    CUresult, CUstream, CUevent, CUgraphExec = real.CUresult, real.CUstream, real.CUevent, real.CUgraphExec
    CUdevice_attribute, CUstreamCaptureMode = real.CUdevice_attribute, real.CUstreamCaptureMode

    cuInit = staticmethod(lambda flags: (OK,))
    cuDeviceGetCount = staticmethod(lambda: (OK, DEVICES))
    cuGetErrorString = staticmethod(lambda status: (OK, status.name.lower().replace("_", " ").encode()))
    cuDeviceGet = staticmethod(lambda ordinal: (OK, ordinal))
    cuDeviceGetName = staticmethod(lambda length, dev: (OK, b"fake\0\0"))
    cuDeviceGetAttribute = staticmethod(lambda attribute, dev: (OK, 8 if "MAJOR" in attribute.name else 0))
    cuDeviceTotalMem = staticmethod(lambda dev: (OK, TOTAL))
    cuDeviceGetUuid = staticmethod(lambda dev: (OK, SimpleNamespace(bytes=b"0123456789abcdef")))
    cuDeviceGetPCIBusId = staticmethod(lambda length, dev: (OK, b"0000:01:00.0\0"))
    cuDevicePrimaryCtxRetain = staticmethod(lambda dev: (OK, ("context", dev)))

    @staticmethod
    def cuCtxSetCurrent(ctx):
        M.current = ctx[1]
        return (OK,)

    @staticmethod
    def cuCtxSynchronize():
        return (NOT_PERMITTED if any(s[1] is not None for s in M.streams.values()) else OK,)

    @staticmethod
    def cuMemAlloc(nbytes):
        used = sum(size for device, size, _ in M.blocks.values() if device == M.current)
        if used + nbytes > TOTAL:
            return NO_MEMORY, None
        raw = np.full(nbytes + 512, 0xA5, np.uint8)
        pointer = -(-raw.ctypes.data // 512) * 512
        M.blocks[pointer] = M.current, nbytes, raw
        return OK, pointer

    @staticmethod
    def cuMemFree(pointer):
        del M.blocks[pointer]
        return (OK,)

    @staticmethod
    def cuMemGetInfo():
        used = sum(size for device, size, _ in M.blocks.values() if device == M.current)
        return OK, TOTAL - used, TOTAL

    @staticmethod
    def cuMemHostAlloc(nbytes, flags):
        raw = np.zeros(nbytes, np.uint8)
        M.blocks[raw.ctypes.data] = "host", nbytes, raw
        return OK, raw.ctypes.data

    cuMemFreeHost = cuMemFree

    @staticmethod
    def cuMemcpyHtoDAsync(target, source, nbytes, stream):
        assert M.reach(target) >= nbytes
        if M.streams[int(stream)][1] is None:
            return M.work(stream, lambda: ctypes.memmove(target, source, nbytes))
        assert M.reach(source) >= nbytes, "a captured copy needs page-locked memory"
        return M.work(stream, lambda: ctypes.memmove(target, source, nbytes))

    @staticmethod
    def cuMemcpyDtoHAsync(target, source, nbytes, stream):
        assert M.reach(source) >= nbytes
        return M.work(stream, lambda: ctypes.memmove(target, source, nbytes))

    @staticmethod
    def cuMemcpyAsync(target, source, nbytes, stream):
        assert M.reach(target) >= nbytes and M.reach(source) >= nbytes
        return M.work(stream, lambda: ctypes.memmove(target, source, nbytes))

    @staticmethod
    def cuMemsetD8Async(target, byte, nbytes, stream):
        assert M.reach(target) >= nbytes
        return M.work(stream, lambda: ctypes.memset(target, byte, nbytes))

    @staticmethod
    def cuStreamCreateWithPriority(flags, priority):
        number = next(M.numbers)
        M.streams[number] = [M.current, None]
        return OK, real.CUstream(number)

    @staticmethod
    def cuStreamSynchronize(stream):
        return (OK if M.streams[int(stream)][1] is None else NOT_PERMITTED,)

    cuStreamQuery = cuStreamSynchronize

    @staticmethod
    def cuStreamWaitEvent(stream, event, flags):
        assert int(event) in M.events and int(stream) in M.streams
        return (OK,)

    @staticmethod
    def cuEventCreate(flags):
        number = next(M.numbers)
        M.events[number] = None
        return OK, real.CUevent(number)

    @staticmethod
    def cuEventDestroy(event):
        del M.events[int(event)]
        return (OK,)

    @staticmethod
    def cuEventRecord(event, stream):
        assert int(event) in M.events
        return M.work(stream, lambda: M.events.update({int(event): time.perf_counter()}))

    @staticmethod
    def cuEventQuery(event):
        assert int(event) in M.events
        return (OK,)

    cuEventSynchronize = cuEventQuery

    @staticmethod
    def cuEventElapsedTime(start, end):
        return OK, 1e3 * (M.events[int(end)] - M.events[int(start)])

    @staticmethod
    def cuStreamBeginCapture(stream, mode):
        M.streams[int(stream)][1] = []
        return (OK,)

    @staticmethod
    def cuStreamEndCapture(stream):
        noted, M.streams[int(stream)][1] = M.streams[int(stream)][1], None
        return OK, noted

    @staticmethod
    def cuGraphInstantiate(graph, flags):
        number = next(M.numbers)
        M.graphs[number] = list(graph)
        return OK, real.CUgraphExec(number)

    cuGraphDestroy = staticmethod(lambda graph: (OK,))

    @staticmethod
    def cuGraphLaunch(graph, stream):
        for do in M.graphs[int(graph)]:
            M.work(stream, do)
        return (OK,)

    @staticmethod
    def cuGraphExecDestroy(graph):
        del M.graphs[int(graph)]
        return (OK,)


class Kernel:
    """A `CudaKernel` without code: its name as its cubin."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.key = self.entry = canonical_text(kernel)
        self.cubin = self.entry.encode()
        M.kernels[self.entry] = kernel

    def launch(self, slots):
        return Geometry(1, 32, 0)

    def scalars(self, slots, params):
        values = [np.asarray(v, d.np).astype(PARAM_FORM.get(d, d.np))[()] for d, v in zip(self.kernel.params, params)]
        return [*map(np.int64, slots), *values]

    def llvm_ir(self):
        return ""

    assembly = llvm_ir


def launch(stream, config, kernel, *args):
    """`cuda.core.launch`."""
    given = [b for b in kernel.buffers if b.role != "local"]
    pointers, scalars = args[: len(given)], args[len(given) :]
    assert config.grid > 0 and len(scalars) == kernel.slots + len(kernel.params)
    assert all(type(p) is int for p in pointers) and all(isinstance(s, np.generic) for s in scalars)
    arrays = [host(p, M.reach(p) // b.dtype.itemsize, b.dtype.np) for p, b in zip(pointers, given)]
    slots, params = [int(s) for s in scalars[: kernel.slots]], scalars[kernel.slots :]

    def run():
        with np.errstate(all="ignore"):
            interpret(kernel, arrays, slots, params)

    M.work(stream, run)


def matrices(pointer, rows, columns, leading, step, batch, transposed, dtype):
    """A batch of column-major matrices, as BLAS reads them."""
    flat = host(pointer, M.reach(pointer) // dtype.itemsize, dtype)
    shape, strides = (batch, rows, columns), (step, leading, 1) if transposed else (step, 1, leading)
    reach = sum((n - 1) * s for n, s in zip(shape, strides)) + 1
    assert reach <= flat.size, "a matrix reaches beyond its memory"
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides])


class Cublas:
    """`cupy_backends.cuda.libs.cublas`."""

    stream = None
    create = staticmethod(lambda: 1)

    @classmethod
    def setStream(cls, handle, stream):
        cls.stream = stream

    @classmethod
    def gemmStridedBatchedEx(
        cls, handle, transa, transb, m, n, k, alpha, a, ta, lda, sa, b, tb, ldb, sb, beta, c, tc, ldc, sc, batch,
        compute, algo,
    ):  # fmt: skip
        dtype = {0: dtypes.float32, 1: dtypes.float64, 2: dtypes.float16, 14: dtypes.bfloat16}[ta].np
        wide = np.dtype(np.float64 if ta == 1 else np.float32)
        assert ta == tb == tc and algo == -1 and compute == (70 if ta == 1 else 68)
        assert host(alpha, 1, wide)[0] == 1 and host(beta, 1, wide)[0] == 0
        assert lda >= (k if transa else m) and ldb >= (n if transb else k) and ldc >= m

        def run():
            x = matrices(a, m, k, lda, sa, batch, transa, dtype).astype(wide)
            y = matrices(b, k, n, ldb, sb, batch, transb, dtype).astype(wide)
            matrices(c, m, n, ldc, sc, batch, False, dtype)[...] = np.matmul(x, y)

        M.work(cls.stream, run)


CORE = SimpleNamespace(
    Stream=SimpleNamespace(from_handle=lambda number: number),
    LaunchConfig=lambda grid, block, shmem_size: SimpleNamespace(grid=grid, block=block),
    ObjectCode=SimpleNamespace(
        from_cubin=lambda cubin, name: SimpleNamespace(get_kernel=lambda entry: M.kernels[cubin.decode()])
    ),
    launch=launch,
)


class Cupy:
    """`cupy`: NumPy, and arrays on addresses."""

    cuda = SimpleNamespace(
        Device=lambda device: contextlib.nullcontext(), ExternalStream=lambda stream, device: contextlib.nullcontext(),
        UnownedMemory=lambda pointer, size, owner, device: (pointer, size),
        MemoryPointer=lambda memory, offset: (memory[0] + offset, memory[1] - offset),
    )  # fmt: skip

    @staticmethod
    def ndarray(shape, dtype, memory):
        pointer, size = memory
        assert M.reach(pointer) >= size == int(np.prod(shape)) * dtype.itemsize
        return host(pointer, int(np.prod(shape)), dtype).reshape(shape)

    def __getattr__(self, name):
        return getattr(np, name)


CUPY = Cupy()


def install():
    """Let `hardware` find these."""
    hardware._is_installed = lambda name: True
    hardware._packages = lambda: (Driver, CORE)
    hardware._cublas = lambda: Cublas
    hardware._cupy = lambda: (CUPY, lambda linalg: contextlib.nullcontext())
    hardware.compile_kernels = lambda kernels, numerics, target: [Kernel(k) for k in kernels]
