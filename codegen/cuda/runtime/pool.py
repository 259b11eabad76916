"""The caching allocator of one device: blocks that die are kept for tensors to come.

Asking the driver for memory costs a hundred times as much as a launch, and giving it back waits for the device. A block
belongs to the stream it was asked for on: it may be used again there at once, because the stream runs in order. Where
other streams have used it (`record_stream`), it waits for events on those first.

Small blocks are cut out of slabs of 2 MiB; a large block is an allocation of its own.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from jitgrad.ir.errors import OutOfMemoryError

from ...buffers import size_class
from .protocol import Runtime

ALIGNMENT: Final = 512
_SLAB: Final = 2 << 20
_SMALL: Final = 256 << 10  # bytes; up to this, blocks come out of slabs


@dataclass(slots=True, eq=False)
class Slab:
    """One allocation of the driver's; `used` counts the blocks of it that tensors have."""

    pointer: int
    nbytes: int
    used: int = 0


@dataclass(slots=True, eq=False)
class Block:
    """A piece of device memory. `streams` are those that have used it beside its own."""

    pointer: int
    nbytes: int
    stream: int
    slab: Slab
    streams: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Statistics:
    """Bytes that tensors have, and bytes asked of the driver: now and at most; and how often blocks were asked for."""

    allocated: int = 0
    peak_allocated: int = 0
    reserved: int = 0
    peak_reserved: int = 0
    allocations: int = 0
    frees: int = 0
    driver_allocations: int = 0
    retries: int = 0


class MemoryPool:
    """Blocks of one device. Safe to use from several threads, and while the garbage collector runs."""

    def __init__(self, runtime: Runtime, device: int) -> None:
        self.statistics = Statistics()
        self._runtime = runtime
        self._device = device
        self._free: defaultdict[tuple[int, int], list[Block]] = defaultdict(list)  # by stream and size
        self._slabs: dict[int, Slab] = {}
        self._returned: deque[Block] = deque()  # `give` may run inside `take`, through the garbage collector
        self._waiting: list[tuple[Block, list[int]]] = []  # blocks, and the events they wait for
        self._lock = threading.RLock()

    def take(self, nbytes: int, stream: int) -> Block:
        """A block of at least `nbytes` bytes for use on `stream`."""
        size = max(ALIGNMENT, size_class(nbytes))
        size = -(-size // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._collect()
            free = self._free[stream, size]
            if not free:
                self._refill(size, stream)
            block = free.pop()
            block.slab.used += 1
            s = self.statistics
            s.allocations += 1
            s.allocated += size
            s.peak_allocated = max(s.peak_allocated, s.allocated)
            return block

    def give(self, block: Block) -> None:
        """A tensor's block is free again."""
        self._returned.append(block)

    def release_cached(self) -> None:
        """Give unused memory back to the driver."""
        with self._lock:
            self._collect()
            if any(slab.used == 0 for slab in self._slabs.values()):
                self._runtime.synchronize(self._device)
            unused = {p for p, slab in self._slabs.items() if slab.used == 0}
            for key, blocks in self._free.items():
                self._free[key] = [b for b in blocks if b.slab.pointer not in unused]
            for pointer in unused:
                self.statistics.reserved -= self._slabs.pop(pointer).nbytes
                self._runtime.release(self._device, pointer)

    def current(self) -> Statistics:
        """The statistics, with what has died until now counted."""
        with self._lock:
            self._collect()
            return self.statistics

    def reset_peaks(self) -> None:
        """Peaks start again from where things are."""
        s = self.current()
        s.peak_allocated, s.peak_reserved = s.allocated, s.reserved

    def _collect(self) -> None:
        """Put returned blocks where they can be found again."""
        while self._returned:
            block = self._returned.popleft()
            self.statistics.allocated -= block.nbytes
            self.statistics.frees += 1
            block.slab.used -= 1
            if block.streams:
                self._waiting.append((block, self._events(block)))
            else:
                self._free[block.stream, block.nbytes].append(block)
        if self._waiting:
            self._waiting = [w for w in self._waiting if not self._is_free(*w)]

    def _events(self, block: Block) -> list[int]:
        """Events behind all that the other streams were given so far."""
        events = []
        for stream in block.streams:
            event = self._runtime.new_event(self._device, timing=False, blocking=False)
            self._runtime.record_event(event, stream)
            events.append(event)
        block.slab.used += 1  # not to be given back to the driver yet
        return events

    def _is_free(self, block: Block, events: list[int]) -> bool:
        if not all(map(self._runtime.event_is_done, events)):
            return False
        for event in events:
            self._runtime.release_event(event)
        block.streams.clear()
        block.slab.used -= 1
        self._free[block.stream, block.nbytes].append(block)
        return True

    def _refill(self, size: int, stream: int) -> None:
        """More blocks of a size, from the driver."""
        count = _SLAB // size if size <= _SMALL else 1
        slab = Slab(self._ask(size * count), size * count)
        self._slabs[slab.pointer] = slab
        free = self._free[stream, size]
        free.extend(Block(slab.pointer + k * size, size, stream, slab) for k in reversed(range(count)))
        s = self.statistics
        s.driver_allocations += 1
        s.reserved += slab.nbytes
        s.peak_reserved = max(s.peak_reserved, s.reserved)

    def _ask(self, nbytes: int) -> int:
        """Memory of the driver; if there is none left, after giving back what is unused."""
        try:
            return self._runtime.allocate(self._device, nbytes)
        except OutOfMemoryError:
            self.statistics.retries += 1
            self.release_cached()
        try:
            return self._runtime.allocate(self._device, nbytes)
        except OutOfMemoryError:
            free, total = self._runtime.memory_info(self._device)
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {_text(nbytes)}. GPU {self._device} has a total capacity of "
                f"{_text(total)} of which {_text(free)} is free. {_text(self.statistics.allocated)} is allocated by "
                f"jitgrad, and {_text(self.statistics.reserved - self.statistics.allocated)} is reserved but unused."
            ) from None


def _text(nbytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"
