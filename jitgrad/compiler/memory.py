"""How arrays lie in memory, and which share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.lib.array_utils import byte_bounds

from ..arrays import Data, may_share_memory
from ..backend import DeviceArray

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
    """The bytes from the first to the last of arrays, looked up once for each."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Array, int, int]] = {}

    def meet(self, array: Array, others: Iterable[Array]) -> bool:
        """Whether one of `others` may share memory with `array`: the same as `may_share_memory`."""
        if array.__class__ is DeviceArray:
            return any(may_share_memory(x, array) for x in others)
        known = self._known
        _, low, high = known.get(id(array)) or self._span(array)
        for x in others:
            _, start, stop = known.get(id(x)) or self._span(x)
            if start < high and low < stop:
                return True
        return False

    def _span(self, array: Array) -> tuple[Array, int, int]:
        if array.__class__ is DeviceArray or array.size == 0:
            found = array, 0, 0
        else:
            found = array, *byte_bounds(array)
        self._known[id(array)] = found  # with the array, whose identity is nobody else's as long as it lives
        return found


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
