"""Devices as jitgrad uses them: each with its memory pool and its streams; and which are current in this thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from jitgrad.ir.config import config
from jitgrad.ir.errors import DeviceError
from jitgrad.ir.types import Device

from .array import DeviceArray, Memory
from .pinned import pinned_block, pinned_empty
from .pool import MemoryPool
from .protocol import Array, DeviceProperties, Runtime

_STREAMS: Final = 32
_making: Final = threading.Lock()


class StreamHandle:
    """A stream of a device. It lives as long as the process, because blocks of memory know it."""

    __slots__ = ("__weakref__", "device", "number", "priority")

    def __init__(self, runtime: Runtime, device: int, priority: int = 0) -> None:
        self.device = device
        self.priority = priority
        self.number = runtime.new_stream(device, priority)


class Gpu:
    """One device: allocation on it, copies to and from it, in the order of this thread's current stream."""

    def __init__(self, runtime: Runtime, index: int) -> None:
        self.runtime = runtime
        self.index = index
        self.device = Device("cuda", index)
        self.pool = MemoryPool(runtime, index)
        self._default_stream: StreamHandle | None = None
        self._streams: dict[int, list[StreamHandle]] = {}  # by priority
        self._turns = itertools.count()
        self.kept: list[Any] | None = None  # while a graph is captured: the memory that it uses
        self._properties: DeviceProperties | None = None

    @property
    def properties(self) -> DeviceProperties:
        """Facts of the device."""
        if self._properties is None:
            self._properties = self.runtime.properties(self.index)
        return self._properties

    @property
    def default_stream(self) -> StreamHandle:
        """The stream that threads use unless told otherwise; made when needed, because that starts the device."""
        if self._default_stream is None:
            with _making:
                self._default_stream = self._default_stream or StreamHandle(self.runtime, self.index)
        return self._default_stream

    def new_stream(self, priority: int = 0) -> StreamHandle:
        """A stream beside the default one. There are a few for each priority, handed out in turn."""
        made = self._streams.setdefault(priority, [])
        if len(made) < _STREAMS:
            made.append(StreamHandle(self.runtime, self.index, priority))
            return made[-1]
        return made[next(self._turns) % _STREAMS]

    @property
    def current_stream(self) -> StreamHandle:
        """This thread's stream on this device."""
        return _here.streams.get(self.index) or self.default_stream

    @property
    def stream(self) -> int:
        """The number of this thread's stream."""
        return self.current_stream.number

    def memory(self, nbytes: int) -> Memory:
        """Fresh memory for use on the current stream."""
        made = Memory.of_pool(self.device, nbytes, self.pool, self.stream)
        if self.kept is not None:
            self.kept.append(made)
        return made

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """An uninitialised contiguous array."""
        count = dtype.itemsize
        for n in shape:
            count *= n
        return DeviceArray(self.memory(count), shape, dtype)

    def upload(self, array: Array, non_blocking: bool = False) -> DeviceArray:
        """A host array's numbers on the device; with `non_blocking` this does not wait where they are page-locked."""
        source = np.ascontiguousarray(array).reshape(array.shape)
        made = self.empty(source.shape, source.dtype)
        if source.nbytes:
            if self.kept is not None:  # a graph that is captured reads them at each replay
                source, non_blocking = self._kept_copy(source), True
            block = pinned_block(source) if non_blocking else None
            self.runtime.to_device(made.pointer, source, self.stream, block is None)
            if block is not None:
                block.used(self.index, self.stream)
        return made

    def _kept_copy(self, source: Array) -> Array:
        assert self.kept is not None
        copy = pinned_empty(self.runtime, source.shape, source.dtype)
        np.copyto(copy, source)
        self.kept.append(copy)
        return copy

    def synchronize(self) -> None:
        """Wait for everything on the device."""
        self.runtime.synchronize(self.index)


class _Here(threading.local):
    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, StreamHandle] = {}


class Machine:
    """The runtime of this process and its devices, found at first use; or the reason why there are none."""

    def __init__(self) -> None:
        self.gpus: list[Gpu] | None = None
        self.reason = ""
        self._lock = threading.RLock()

    def find(self) -> list[Gpu]:
        """The devices; none, and a `reason`, without hardware, driver or packages."""
        if self.gpus is None:
            with self._lock:
                if self.gpus is None:
                    runtime, self.reason = _runtime()
                    count = 0 if runtime is None else runtime.device_count()
                    self.gpus = [Gpu(runtime, i) for i in range(count)] if runtime is not None else []
        return self.gpus


_here: Final = _Here()
machine: Final = Machine()


def _runtime() -> tuple[Runtime | None, str]:
    """The runtime, or why there is none."""
    if config.cuda_simulator:
        from .simulator import Simulator

        return Simulator(config.cuda_simulator, config.numba_simulator), ""
    from .hardware import open_hardware

    return open_hardware()


def gpu(index: int | None = None) -> Gpu:
    """A device by number, by default the current one; `DeviceError` if it is not there."""
    found = machine.find()
    if not found:
        raise DeviceError(f"CUDA is not available: {machine.reason}; use device='cpu'")
    at = _here.device if index is None else index
    if not 0 <= at < len(found):
        raise DeviceError(f"CUDA error: invalid device ordinal: cuda:{at}, with {len(found)} CUDA device(s) here")
    return found[at]


def current_device() -> int:
    """The number of this thread's device."""
    return _here.device


def set_device(index: int) -> None:
    """Choose this thread's device."""
    _here.device = gpu(index).index


def set_stream(stream: StreamHandle | None, device: int) -> StreamHandle | None:
    """Choose this thread's stream on a device (None: the default one); the one it had."""
    before = _here.streams.get(device)
    if stream is None:
        _here.streams.pop(device, None)
    else:
        _here.streams[device] = stream
    return before


@contextmanager
def capturing(g: Gpu, kept: list[Any]) -> Iterator[None]:
    """What is allocated on the device inside is kept in `kept`."""
    before, g.kept = g.kept, kept
    try:
        yield
    finally:
        g.kept = before


__all__ = [
    "Gpu", "Machine", "StreamHandle", "capturing", "current_device", "gpu", "machine",
    "set_device", "set_stream",
]  # fmt: skip
