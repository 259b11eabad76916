"""Offsets in one block of memory, handed out and taken back while a plan is made."""

from __future__ import annotations

from bisect import insort
from typing import Final

ALIGNMENT: Final = 64
PAGE: Final = 4096  # where large values start, all alike: `buffers.py` says why
_LARGE: Final = 16 * 1024


class Arena:
    """A best-fit allocator that never touches memory; `size` is the high-water mark.

    >>> arena = Arena()
    >>> a, b = arena.allocate(100), arena.allocate(10)
    >>> arena.release(a, 100)
    >>> (a, b, arena.allocate(64), arena.size)
    (0, 128, 0, 192)
    """

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, bytes), by offset, never touching

    def allocate(self, nbytes: int) -> int:
        """The offset of `nbytes` free bytes."""
        need, alignment = _rounded(nbytes), PAGE if nbytes >= _LARGE else ALIGNMENT
        if need == 0:
            return 0
        fitting = [(n, at) for at, n in self._free if n >= need + -at % alignment]
        if fitting:
            n, at = min(fitting)
            self._free.remove((at, n))
        elif self._free and sum(self._free[-1]) == self.size:
            at, _ = self._free.pop()
            n = 0
        else:
            at, n = self.size, 0
        start = at + -at % alignment
        end = start + need
        if start > at:
            insort(self._free, (at, start - at))
        if at + n > end:
            insort(self._free, (end, at + n - end))
        self.size = max(self.size, end)
        return start

    def release(self, offset: int, nbytes: int) -> None:
        """Take back what `allocate(nbytes)` gave."""
        need = _rounded(nbytes)
        if need == 0:
            return
        insort(self._free, (offset, need))
        k = self._free.index((offset, need))
        if k + 1 < len(self._free) and offset + need == self._free[k + 1][0]:
            need += self._free.pop(k + 1)[1]
            self._free[k] = (offset, need)
        if k > 0 and sum(self._free[k - 1]) == offset:
            at, n = self._free[k - 1]
            self._free[k - 1 : k + 1] = [(at, n + need)]


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
