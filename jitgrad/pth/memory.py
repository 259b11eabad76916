"""Which saved arrays share memory: those whose addresses overlap become views of one storage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Place(NamedTuple):
    """Where an array's elements are: in which storage, from which element on, in which steps."""

    storage: int
    offset: int
    strides: tuple[int, ...]
    count: int  # of the elements of the storage


class _Span:
    """Arrays of one dtype whose addresses overlap, from `start` to `end`."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.members: list[tuple[int, Array]] = []


def storages(arrays: list[Array]) -> tuple[list[Array], list[Place]]:
    """Flat arrays with all elements of `arrays`, and the place of each among them."""
    flats: list[Array] = []
    places: list[Place | None] = [None] * len(arrays)
    for span in _spans(arrays):
        flat = _elements(span)
        for i, array in span.members:
            size = array.dtype.itemsize
            strides = tuple(s // size for s in array.strides)
            places[i] = Place(len(flats), (_address(array) - span.start) // size, strides, flat.size)
        flats.append(flat)
    return flats, [place for place in places if place is not None]


def _spans(arrays: list[Array]) -> list[_Span]:
    """The arrays by spans of memory, in the order of their first arrays."""
    found: list[_Span] = []
    last: dict[np.dtype[Any], _Span] = {}
    plain = [a if _is_plain(a) else np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
    for i in sorted(range(len(plain)), key=lambda i: _address(plain[i])):
        array = plain[i]
        start, end = np.lib.array_utils.byte_bounds(array)
        span = last.get(array.dtype)
        aligned = span is not None and (start - span.start) % array.dtype.itemsize == 0
        if span is None or not aligned or start >= span.end or array.size == 0:
            span = _Span(start, end if array.size else start)
            found.append(span)
            if array.size:
                last[array.dtype] = span
        span.end = max(span.end, end if array.size else start)
        span.members.append((i, array))
    return sorted(found, key=lambda span: min(i for i, _ in span.members))


def _is_plain(array: Array) -> bool:
    """Whether a storage can hold the array as it lies."""
    return all(s >= 0 and s % array.dtype.itemsize == 0 for s in array.strides)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _elements(span: _Span) -> Array:
    """The memory of a span: that of an array that covers it, or a copy."""
    dtype = span.members[0][1].dtype
    count = (span.end - span.start) // dtype.itemsize
    for _, array in span.members:
        if array.size == count and array.flags.c_contiguous:
            return array.reshape(-1)
    flat = np.zeros(count, dtype)
    for _, array in span.members:
        part = flat[(_address(array) - span.start) // dtype.itemsize :]
        np.lib.stride_tricks.as_strided(part, array.shape, array.strides)[...] = array
    return flat
