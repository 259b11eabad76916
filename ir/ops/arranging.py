"""Orders of rows: elements as integer keys, keys with their places as words, and ops that rearrange words.

Where all keys of a row differ there is one order, which NumPy finds fastest. Where some are equal and their order is
not to be kept, it is that of `unstable_order`, which an op gets as a function: Python for references, native elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from ..errors import InternalError
from ..op import Array, Op
from ..unstable_order import INSERTED, Routine, sort

Arrange: TypeAlias = Callable[..., None]  # (routine, words, *numbers): rearranges each row of words in place

_PLACE: Final = (1 << 32) - 1
_SHORTEST, _LONGEST = -(1 << 31), (1 << 31) - 1  # keys that fit
_LARGEST: Final[dict[int, Any]] = {4: np.int32(_LONGEST), 8: np.int64((1 << 63) - 1)}
_FEW: Final = 4096  # elements, for which NumPy's stable sort takes less than making words


def arrange_in_python(routine: Routine, words: Array, *numbers: int) -> None:
    """Apply a routine to each row of words, in place."""
    for row in words.reshape(-1, words.shape[-1]):
        listed = row.tolist()
        routine(listed, len(listed), *numbers)
        row[:] = listed


def arrange_in_places(routine: Routine, words: Array, *numbers: int) -> None:
    """Sort each row of words in place: equal elements stay in their order. That will do for all routines."""
    words.sort(axis=-1)


class Arranging(Op):
    """An op of one operand whose results hang on the order of its rows."""

    def arranged(self, arrange: Arrange, x: Array) -> tuple[Array, ...]:
        """The results, by a function that rearranges words."""
        raise InternalError(f"op {self.name} arranges nothing")

    def reference(self, *operands: Array) -> Array:
        """The results by NumPy, with equal elements arranged in Python."""
        return self.arranged(arrange_in_python, operands[0])

    def can_emit(self, *operands: object) -> bool:
        """Never: it runs by NumPy, and by routines for words."""
        return False


def keys_of(x: Array, descending: bool) -> Array:
    """An int64 for each element, in the order of the elements and equal for equal ones; NaN is the largest."""
    x = np.ascontiguousarray(x)
    if x.dtype.kind in "fV":
        keys = _keys_of_floats(x)
    elif x.dtype == np.uint64:
        keys = (x ^ np.uint64(1 << 63)).view(np.int64)
    else:
        keys = x.astype(np.int64)
        if x.dtype == np.uint32:
            keys -= 1 << 31
    return ~keys if descending else keys


def _keys_of_floats(x: Array) -> Array:
    """The bits, whose order is that of the numbers once those of negative ones are turned round."""
    numbers = with_order(x)
    numbers = numbers + numbers.dtype.type(0)  # no zero is negative
    largest = _LARGEST[numbers.itemsize]
    bits = numbers.view(largest.dtype)
    bits = bits ^ ((bits >> (8 * numbers.itemsize - 1)) & largest)
    return np.where(np.isnan(numbers), largest, bits).astype(np.int64, copy=False)


def with_order(x: Array) -> Array:
    """Half types as float32, which NumPy sorts, and faster."""
    return x.astype(np.float32) if x.dtype.kind in "fV" and x.itemsize < 4 else x


def words_of(keys: Array) -> Array:
    """Keys, or where they are wide their ranks, each with its place in the row."""
    if _is_wide(keys):
        index = np.argsort(keys, axis=-1)
        keys = _ranks(index, take(keys, index))
    return _with_places(keys)


def _is_wide(keys: Array) -> bool:
    return bool(keys.size and (keys.min() < _SHORTEST or keys.max() > _LONGEST))


def _ranks(index: Array, ordered: Array) -> Array:
    """How many different keys of the row are smaller, by the keys in order and where they were."""
    ranks, found = np.zeros_like(ordered), np.empty_like(ordered)
    np.cumsum(ordered[..., 1:] != ordered[..., :-1], axis=-1, out=ranks[..., 1:])
    np.put_along_axis(found, index, ranks, -1)
    return found


def _with_places(keys: Array) -> Array:
    return (keys << 32) | np.arange(keys.shape[-1])


def places(words: Array) -> Array:
    """Where words were, as int64."""
    return words & _PLACE


def order(x: Array, descending: bool, stable: bool, arrange: Arrange) -> Array:
    """Where the elements of each row are in order, as int64: equal ones as they come if `stable`."""
    stable = stable or x.shape[-1] <= INSERTED
    if stable and (x.size <= _FEW or (x.itemsize <= 2 and x.dtype.kind in "biu")):
        return _stable_order(with_order(x), descending)
    keys = keys_of(x, descending)
    if _is_wide(keys):
        index = np.argsort(keys, axis=-1)
        ordered = take(keys, index)
        if not has_ties(ordered):
            return index
        words = _with_places(_ranks(index, ordered))
    else:
        words = _with_places(keys)
        ordered = np.sort(words, axis=-1)
        if stable or not has_ties(ordered >> 32):
            return places(ordered)
    if stable:
        words.sort(axis=-1)
    else:
        arrange(sort, words)
    return places(words)


def _stable_order(x: Array, descending: bool) -> Array:
    """By NumPy's stable sort, backwards for descending order."""
    index = np.argsort(x[..., ::-1] if descending else x, axis=-1, kind="stable")
    return x.shape[-1] - 1 - index[..., ::-1] if descending else index


def take(x: Array, index: Array) -> Array:
    """The elements of each row at places in it."""
    return x[index] if x.ndim == 1 else np.take_along_axis(x, index, -1)


def has_ties(ordered: Array) -> bool:
    """Whether some row of sorted keys has equal ones."""
    return bool((ordered[..., 1:] == ordered[..., :-1]).any())
