"""What jitgrad asks of a CUDA machine; implemented by `hardware` and `simulator`.

Pointers, streams, events and captured graphs are integers that mean something to the runtime alone. Everything that
takes a stream is ordered after what was given to that stream before, and returns at once unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jitgrad.ir.dtypes import DType

from ...loops.ir import Kernel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """Facts of a device, with PyTorch's names."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int = 2048
    shared_memory_per_block: int = 49152
    warp_size: int = 32
    L2_cache_size: int = 0
    uuid: str = ""
    pci_bus_id: str = ""
    is_integrated: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand of a matrix product: address, whether stored transposed, leading dimension and batch stride.

    Leading dimension and batch stride are in elements.
    """

    pointer: int
    transposed: bool
    leading: int
    batch_stride: int


@dataclass(frozen=True, slots=True)
class ProductShape:
    """`batch` products of `[rows, inner]` and `[inner, columns]`, row-major."""

    dtype: DType
    rows: int
    columns: int
    inner: int
    batch: int = 1


class CompiledKernel(Protocol):
    """A kernel ready to be launched."""

    @property
    def kernel(self) -> Kernel:
        """The loop-level IR."""


class Runtime(Protocol):
    """A CUDA machine."""

    is_simulated: bool

    # Devices

    def device_count(self) -> int:
        """Number of devices."""

    def properties(self, device: int) -> DeviceProperties:
        """Facts of a device."""

    def synchronize(self, device: int) -> None:
        """Wait for everything on a device."""

    # Memory

    def allocate(self, device: int, nbytes: int) -> int:
        """The address of fresh memory; `OutOfMemoryError` if there is none."""

    def release(self, device: int, pointer: int) -> None:
        """Give memory back, once the device is done with it."""

    def memory_info(self, device: int) -> tuple[int, int]:
        """Free and total bytes of a device."""

    def allocate_pinned(self, nbytes: int) -> int:
        """The address of page-locked host memory."""

    def release_pinned(self, pointer: int) -> None:
        """Page-locked memory is given back."""

    def to_device(self, pointer: int, source: Array, stream: int, blocking: bool) -> None:
        """Copy a contiguous host array to the device. Unless `blocking`, `source` is page-locked and stays as it is."""

    def to_host(self, target: Array, pointer: int, stream: int, blocking: bool) -> None:
        """Copy to a contiguous host array. Unless `blocking`, `target` is page-locked and read after the stream."""

    def on_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between places of devices."""

    def fill(self, pointer: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes."""

    # Work

    def compile(self, kernels: Sequence[Kernel], numerics: str, device: int) -> list[CompiledKernel]:
        """Kernels for a device, in order."""

    def prepare(
        self, kernel: Any, lengths: Sequence[int], slots: Sequence[int], params: Sequence[Any], device: int
    ) -> Any:
        """A launch with all that does not depend on addresses done; `lengths` are those of the buffers, in elements."""

    def launch(self, prepared: Any, pointers: Sequence[int], stream: int) -> None:
        """Run a kernel on buffers at these addresses."""

    def multiply(self, shape: ProductShape, lhs: Matrix, rhs: Matrix, result: Matrix, stream: int) -> None:
        """A batch of matrix products."""

    def library(self, stream: int) -> AbstractContextManager[Any]:
        """A context that gives NumPy's functions for arrays on the stream's device, which run in its order."""

    def borrow(self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Any:
        """Memory as an array for those functions."""

    # Streams and events

    def new_stream(self, device: int, priority: int) -> int:
        """A stream of its own, for as long as the process lives."""

    def stream_is_done(self, stream: int) -> bool:
        """Whether all work of a stream has finished."""

    def synchronize_stream(self, stream: int) -> None:
        """Wait for a stream."""

    def new_event(self, device: int, timing: bool, blocking: bool) -> int:
        """An event."""

    def release_event(self, event: int) -> None:
        """An event is needed no more."""

    def record_event(self, event: int, stream: int) -> None:
        """The event happens when the stream has come here."""

    def wait_event(self, stream: int, event: int) -> None:
        """What the stream is given from now on waits for the event."""

    def event_is_done(self, event: int) -> bool:
        """Whether the event has happened."""

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""

    def elapsed_ms(self, start: int, end: int) -> float:
        """Milliseconds between two events that have happened."""

    # Graphs

    def begin_capture(self, stream: int) -> None:
        """From now on the stream's work is noted and not run."""

    def end_capture(self, stream: int) -> int:
        """A graph of what was noted."""

    def replay(self, graph: int, stream: int) -> None:
        """Run a graph."""

    def release_graph(self, graph: int) -> None:
        """A graph is needed no more."""
