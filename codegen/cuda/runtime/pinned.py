"""Page-locked host memory, from and to which copies run beside the host's own work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .protocol import Array, Runtime


class PinnedBlock:
    """A stretch of page-locked memory. It lives until the copies that use it are done."""

    __slots__ = ("__weakref__", "_events", "_runtime", "nbytes", "pointer")

    base = None  # as of NumPy's arrays: it stands on nothing else

    def __init__(self, runtime: Runtime, nbytes: int) -> None:
        self._runtime = runtime
        self._events: list[int] = []
        self.nbytes = nbytes
        self.pointer = runtime.allocate_pinned(nbytes)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.pointer, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def used(self, device: int, stream: int) -> None:
        """A copy that uses it has been given to a stream."""
        self._events = [e for e in self._events if not self._finished(e)]
        event = self._runtime.new_event(device, timing=False, blocking=False)
        self._runtime.record_event(event, stream)
        self._events.append(event)

    def _finished(self, event: int) -> bool:
        if not self._runtime.event_is_done(event):
            return False
        self._runtime.release_event(event)
        return True

    def __del__(self) -> None:
        pointer = getattr(self, "pointer", None)
        if pointer is None:
            return
        for event in self._events:
            self._runtime.synchronize_event(event)
            self._runtime.release_event(event)
        self._runtime.release_pinned(pointer)


def pinned_empty(runtime: Runtime, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised contiguous array in page-locked memory."""
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    block = PinnedBlock(runtime, count * dtype.itemsize)
    return np.asarray(block).view(dtype).reshape(shape)


def pinned_block(array: Array) -> PinnedBlock | None:
    """The page-locked memory that an array lies in."""
    base: Any = array
    while base is not None and not isinstance(base, PinnedBlock):
        base = getattr(base, "base", None)
    return base
