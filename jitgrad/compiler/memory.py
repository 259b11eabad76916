"""How arrays lie in memory, and which share it."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.lib.array_utils import byte_bounds

from ..arrays import Data, may_share_memory
from ..backend import DeviceArray
from ..tensor import Tensor

Array = Data


def layout(array: Array) -> bool | tuple[Any, ...]:
    """What of an array's memory decides which views it has and whether it can be written: True if all is plain.

    Off the CPU, the device is part of it.
    """
    flags = array.flags
    if array.__class__ is DeviceArray:
        return (array.device, *(() if flags.c_contiguous else array.strides), flags.writeable)
    if flags.c_contiguous and flags.writeable:
        return True
    return (*array.strides, flags.writeable)


def overlaps_itself(array: Array) -> bool:
    """Whether elements of an array may share memory with one another, as those of an expanded one do.

    No overlap is missed; strides that interleave without meeting count as one.
    """
    if array.flags.c_contiguous or array.size == 0:
        return False
    reach = array.dtype.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


class Spans:
    """The memory of tensors, from the first to the last byte of each, in order: who meets whom takes no look at all."""

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        self._tensors: dict[int, Tensor] = {id(t): t for t in tensors}
        self._looked_up = 0
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._elsewhere: list[DeviceArray] = []

    def add(self, t: Tensor) -> None:
        """One more tensor, whose memory stays what it is."""
        self._tensors[id(t)] = t

    def meet(self, t: Tensor) -> bool:
        """Whether one of the others may share memory with `t`, as `may_share_memory` says."""
        if self._looked_up < len(self._tensors):
            for other in itertools.islice(self._tensors.values(), self._looked_up, None):
                self._look_up(other._data)
            self._looked_up = len(self._tensors)
        array = t._data
        if array.__class__ is DeviceArray:
            found = sum(may_share_memory(x, array) for x in self._elsewhere)
        elif array.size == 0:
            return False
        else:
            low, high = byte_bounds(array)
            found = bisect_left(self._starts, high) - bisect_right(self._stops, low)
        return found > (id(t) in self._tensors)

    def _look_up(self, array: Array) -> None:
        if array.__class__ is DeviceArray:
            self._elsewhere.append(array)
        elif array.size:
            low, high = byte_bounds(array)
            insort(self._starts, low)
            insort(self._stops, high)


def owner(array: Array) -> int:
    """The identity of the object that owns the memory of `array`; arrays of different owners share none."""
    base: Any = array
    while (below := getattr(base, "base", None)) is not None:
        base = below
    return id(base.obj) if isinstance(base, memoryview) else id(base)


def overlaps(arrays: Sequence[tuple[int, Array]]) -> tuple[tuple[int, int], ...]:
    """Pairs of different arrays, by their numbers, that share memory."""
    by_owner: dict[int, list[tuple[int, Array]]] = {}
    for i, x in arrays:
        by_owner.setdefault(owner(x), []).append((i, x))
    return tuple(
        (i, j)
        for group in by_owner.values()
        if len(group) > 1
        for i, x in group
        for j, y in group
        if i < j and may_share_memory(x, y)
    )
