"""Memory for large arrays that is kept when they die, because fresh pages cost more than most kernels.

Touching 16 MB of new memory takes about as long as running a fused kernel on it twice. `BufferPool.empty` gives
an ordinary array, whose memory comes back to the pool when it and all its views are gone.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Block = Any  # a ctypes array of bytes

ALIGNMENT: Final = 64
PAGE: Final = 4096
_SMALL: Final = 64 * 1024  # bytes; below, NumPy's own allocator is fast
_MAX_KEPT: Final = 1 << 30


class _Lease(np.ndarray[Any, Any]):
    """Stands between an array and the block it borrows; gives the block back when the last view dies.

    Blocks are ctypes arrays: NumPy would see through the lease if it stood on another array.
    """

    pool: BufferPool | None = None

    def __del__(self) -> None:
        pool, block = self.pool, self.base
        if pool is not None and block is not None:
            pool.give(block)


class BufferPool:
    """Blocks of bytes by size class, at most `max_kept` bytes of unused ones. Safe to use from several threads."""

    def __init__(self, max_kept: int = _MAX_KEPT) -> None:
        self.max_kept = max_kept
        self.kept = 0
        self._free: defaultdict[int, list[Block]] = defaultdict(list)

    def take(self, nbytes: int) -> Block:
        """A block of at least `nbytes` bytes, for `give` to take back."""
        size = size_class(nbytes)
        try:
            block = self._free[size].pop()
        except IndexError:
            return _aligned(size)
        self.kept -= size
        return block

    def lend(self, nbytes: int) -> Block:
        """The same for a short while: an unused block may be up to twice as large, because it comes back soon."""
        size = size_class(nbytes)
        if not self._free.get(size):
            for larger in sorted(n for n, blocks in list(self._free.items()) if blocks and size < n <= 2 * size):
                return self.take(larger)
        return self.take(nbytes)

    def give(self, block: Block) -> None:
        """Keep an unused block for later, if there is room."""
        size = len(block)
        if self.kept + size <= self.max_kept:
            self.kept += size
            self._free[size].append(block)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> Array:
        """An uninitialised C-contiguous array of `nbytes` bytes."""
        if nbytes < _SMALL:
            return np.empty(shape, dtype)
        block = self.take(nbytes)
        lease = _Lease((nbytes,), np.uint8, block)
        lease.pool = self
        return np.ndarray(shape, dtype, buffer=lease)

    def clear(self) -> None:
        """Let go of all unused blocks."""
        self._free.clear()
        self.kept = 0


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to a multiple of an eighth of its power of two, so that similar sizes share blocks.

    >>> size_class(1000), size_class(1025)
    (1024, 1152)
    """
    step = max(ALIGNMENT, 1 << max(0, (max(1, nbytes) - 1).bit_length() - 4))
    return -(-max(1, nbytes) // step) * step


def _aligned(size: int) -> Block:
    """A block that starts with a page.

    Processors take a load for one of what a store in flight writes if the low 12 bits of their addresses say so, and
    wait. NumPy's large arrays start 16 bytes behind a page: what is written 64 bytes behind one lies just in front of
    what is read next, and a kernel takes three times as long.
    """
    raw = np.empty(size + PAGE, np.uint8)
    start = -raw.__array_interface__["data"][0] % PAGE
    kind: Any = ctypes.c_uint8 * size
    return kind.from_buffer(raw, start)


pool: Final = BufferPool()
