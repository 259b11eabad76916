"""Results that go past the caches, where they are so large that they would push each other out.

A store reads its cache line first; one that goes past the caches does not, and leaves there what others need. But what
reads the result soon finds it in memory alone. So this pays for results that are larger than what caches keep, which is
known when a kernel runs: the loop has both kinds of stores, and a test which of them it is to take.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..loops import walk
from ..loops.analysis import stride
from ..loops.ir import Kernel, Loop, Store
from . import llvm_ir as ir
from .emit_types import I64

STREAMED_FROM: Final = 40 << 20
"""Bytes that a loop reads and writes."""
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class Streams:
    """`buffers` that a loop writes past the caches, where `chosen` holds."""

    buffers: frozenset[int]
    chosen: ir.Value


def streamed_buffers(loop: Loop, kernel: Kernel) -> frozenset[int]:
    """What a flat loop over all of a result writes, element by element, and does not read."""
    if loop.kind != "parallel_vector" or not all(isinstance(s, Store) for s in loop.body):
        return frozenset()
    read = {e.buffer for s in loop.body for e in walk.loads(walk.expressions(s))}
    stores = [s for s in loop.body if isinstance(s, Store)]
    return frozenset(
        s.buffer for s in stores
        if s.index is loop.var and s.buffer not in read and kernel.buffers[s.buffer].role == "out"
    )  # fmt: skip


def bytes_per_iteration(loop: Loop, kernel: Kernel) -> int:
    """What one iteration of the loop moves of memory that is gone through in order."""
    accesses = {(s.buffer, s.index) for s in loop.body if isinstance(s, Store)}
    accesses |= {(e.buffer, e.args[0]) for s in loop.body for e in walk.loads(walk.expressions(s))}
    return sum(kernel.buffers[b].dtype.itemsize for b, index in accesses if stride(index, loop.var) == 1)


def are_aligned(b: ir.IRBuilder, addresses: Iterable[ir.Value]) -> ir.Value:
    """Whether all addresses are those of cache lines."""
    bits = functools.reduce(b.or_, (b.ptrtoint(address, I64) for address in addresses))
    return b.icmp_unsigned("==", b.and_(bits, I64(_LINE - 1)), I64(0))


def store_past_caches(b: ir.IRBuilder, value: ir.Value, address: ir.Value, nbytes: int) -> None:
    """A store of a vector of `nbytes`, the first of which, or one of those before it, starts a cache line."""
    b.store(value, address, align=min(nbytes, _LINE), past_caches=True)


def wait_for_stores(b: ir.IRBuilder, chosen: ir.Value) -> None:
    """What went past the caches is seen by others from here on."""
    with b.if_then(chosen):
        b.fence("seq_cst")


__all__ = [
    "STREAMED_FROM", "Streams", "are_aligned", "bytes_per_iteration", "store_past_caches", "streamed_buffers",
    "wait_for_stores",
]  # fmt: skip
