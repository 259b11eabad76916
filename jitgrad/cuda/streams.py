"""Streams and events."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import OperationError

from ..backend import gpus
from ..errors import located
from .devices import gpu


class Stream:
    """A queue of work of its own on a device. Work of different streams may overlap.

    `jg.cuda.stream(s)` makes it this thread's. Memory that a tensor leaves may be used again on the stream it was made
    on; where another stream still uses it, say so by `Tensor.record_stream`.
    """

    def __init__(self, device: Any = None, priority: int = 0, *, _handle: Any = None) -> None:
        self._gpu = gpu(device)
        self._handle = self._gpu.new_stream(priority) if _handle is None else _handle
        self.priority = priority

    @property
    def device(self) -> Any:
        """The device."""
        return self._gpu.device

    @property
    def device_index(self) -> int:
        """The number of the device."""
        return self._gpu.index  # type: ignore[no-any-return]

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, for other libraries."""
        return self._handle.number  # type: ignore[no-any-return]

    stream_id = cuda_stream

    def query(self) -> bool:
        """Whether all its work is done."""
        return self._gpu.runtime.stream_is_done(self.cuda_stream)  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        """Wait for its work."""
        self._gpu.runtime.synchronize_stream(self.cuda_stream)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that happens when the work given until now is done."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What it is given from now on waits for `event`."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What it is given from now on waits for all that `stream` was given until now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<jitgrad.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A point in a stream's work: to wait for, or with `enable_timing` to measure time between two of them."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timing = enable_timing
        self._blocking = blocking
        self._gpu: Any = None
        self._number: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Let it happen when `stream` (by default the current one) has done what it was given until now."""
        at = current_stream() if stream is None else stream
        if self._number is None or self._gpu is not at._gpu:
            self._free()
            self._gpu = at._gpu
            self._number = self._gpu.runtime.new_event(self._gpu.index, self._timing, self._blocking)
        self._gpu.runtime.record_event(self._number, at.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """What `stream` (by default the current one) is given from now on waits for it."""
        if self._number is not None:
            at = current_stream() if stream is None else stream
            at._gpu.runtime.wait_event(at.cuda_stream, self._number)

    def query(self) -> bool:
        """Whether it has happened; an event never recorded counts so."""
        return self._number is None or self._gpu.runtime.event_is_done(self._number)

    def synchronize(self) -> None:
        """Wait for it."""
        if self._number is not None:
            self._gpu.runtime.synchronize_event(self._number)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`; both with `enable_timing`, both done."""
        if not (self._timing and end_event._timing):
            raise located(OperationError("Both events must be created with argument 'enable_timing=True'."))
        if self._number is None or end_event._number is None:
            raise located(OperationError("Both events must be recorded before calculating elapsed time."))
        if not (self.query() and end_event.query()):
            raise located(OperationError("Both events must be completed before calculating elapsed time."))
        return self._gpu.runtime.elapsed_ms(self._number, end_event._number)  # type: ignore[no-any-return]

    @property
    def cuda_event(self) -> int:
        """The driver's handle, for other libraries; 0 before the event is recorded."""
        return self._number or 0

    def _free(self) -> None:
        if self._number is not None:
            self._gpu.runtime.release_event(self._number)
            self._number = None

    def __del__(self) -> None:
        if getattr(self, "_number", None) is not None:
            self._free()

    def __repr__(self) -> str:
        return f"<jitgrad.cuda.Event {self._number or 'uninitialized'}>"


def current_stream(device: Any = None) -> Stream:
    """This thread's stream on a device."""
    g = gpu(device)
    return Stream(g.index, _handle=g.current_stream)


def default_stream(device: Any = None) -> Stream:
    """The stream of a device that threads use unless told otherwise."""
    g = gpu(device)
    return Stream(g.index, _handle=g.default_stream)


def set_stream(stream: Stream | None) -> None:
    """Make a stream this thread's on its device."""
    if stream is not None:
        gpus().set_stream(stream._handle, stream.device_index)


class StreamContext:
    """A context in which a stream is this thread's, and its device the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Any = None
        self._device = 0

    def __enter__(self) -> None:
        if self.stream is not None:
            self._device = gpus().current_device()
            gpus().set_device(self.stream.device_index)
            self._before = gpus().set_stream(self.stream._handle, self.stream.device_index)

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            gpus().set_stream(self._before, self.stream.device_index)
            gpus().set_device(self._device)


def stream(stream: Stream | None) -> StreamContext:
    """A context in which `stream` is this thread's; None changes nothing."""
    return StreamContext(stream)
