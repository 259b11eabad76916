"""The short way into a small plan: one native segment, entered as a builtin function of Python.

It holds the GIL from end to end, so that one arena serves all threads of Python, and is for what takes microseconds
only. What is worth sharing out is run by a team, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .buffers import ALIGNMENT
from .cpu.builtin import builtin
from .cpu.threads import pool
from .encode import NativeSegment, Segment

_MOST_BYTES: Final = 256 << 10  # that a call goes through


class DirectEntry:
    """`run(arrays)`: inputs, outputs and constants; False, with nothing done, if one is not contiguous or aligned."""

    __slots__ = ("_kept", "run")

    def __init__(self, segment: Segment, arena_bytes: int) -> None:
        assert isinstance(segment, NativeSegment)
        arena = np.empty(arena_bytes + ALIGNMENT, np.uint8)
        start = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
        self._kept = segment, arena
        self.run = builtin(segment.address, start, pool.team(segment.is_shared))

    @staticmethod
    def suits(segments: Sequence[Segment], nbytes: int) -> bool:
        """Whether a plan of these segments, with so much memory in all, is entered this way."""
        if len(segments) != 1 or nbytes > _MOST_BYTES:
            return False
        (segment,) = segments
        return isinstance(segment, NativeSegment) and not segment.inner
