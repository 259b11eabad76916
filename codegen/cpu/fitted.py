"""The driver behind conditions: a builtin function that runs code only if words in memory are what they have to be.

    run = fitted(code address, arena, words, arrays, others, number of items, team)
    run(items)     # True; False, with nothing done, if a condition does not hold

A *word* is eight bytes of a Python object: its class, or what a slot of it holds. An *array* is a NumPy array that
has to have a certain type and shape and to be contiguous (or to have certain strides), aligned and writeable. Both are
found from an object that stays alive, or from one of `items`, a list. So a hundred tensors are looked at in the time
in which Python looks at three. Conditions on items are looked at in order and the first that fails ends it, so that
what says that an object is of a class comes before those that depend on it. The GIL is held from end to end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from . import driver
from . import llvm_ir as ir
from .builtin import FUNCTION_TYPE, builtin_of, give
from .cells import I64, PTR, Counted, at, byte_cell, call, cell
from .kernels import compile_module
from .target import CompiledModule

_HEAD: Final = object.__basicsize__
_CLASS: Final = _HEAD - 8
_LIST_LENGTH, _LIST_ITEMS = _HEAD, _HEAD + 8
_NDIM, _DIMS, _STRIDES, _DTYPE, _FLAGS = (_HEAD + k for k in (8, 16, 24, 40, 48))
_NDIM_BITS, _FLAG_BITS, _ROW_MAJOR = (1 << 32) - 1, 0x0500, 0x0001  # aligned and writeable; C-contiguous
_HEADER, _FIXED_CELLS, _WORD_CELLS, _ARRAY_CELLS = 12, 2, 6, 8
_ITEM: Final = 0  # instead of an address: the object is one of the items


@dataclass(frozen=True, slots=True)
class Word:
    """Eight bytes at `offset` of an object, which under `mask` are `expected`.

    `owner` is the object, or the number of an item if `is_item`. With `then`, they are an address, and what counts is
    the word so many bytes behind it; an address of 0 is taken.
    """

    owner: Any
    offset: int
    expected: int
    is_item: bool = False
    then: int = 0
    mask: int = -1

    @property
    def is_fixed(self) -> bool:
        """Whether the word is always in the same place, and all of it counts: the quickest kind."""
        return not self.is_item and not self.then and self.mask == -1

    def cells(self) -> list[int]:
        """As numbers."""
        return [*_found(self.owner, self.is_item), self.offset, self.then, self.mask, self.expected]


@dataclass(frozen=True, slots=True)
class Array:
    """A NumPy array: `owner`, or item number `owner`, or what slots of these hold; `slots` are one behind the other.

    It is contiguous, or would be with its axes in that `order`; if it has gaps, with `lengths` in that order.
    """

    owner: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_item: bool = False
    slots: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    lengths: tuple[int, ...] | None = None

    @property
    def held(self) -> tuple[int, ...]:
        """Its lengths, gaps included, in the order in which axes lie in memory."""
        if self.lengths is not None:
            return self.lengths
        return self.shape if self.order is None else tuple([self.shape[a] for a in self.order])

    @property
    def numbers(self) -> tuple[int, ...]:
        """What the array's own numbers are compared with: lengths, and strides where they don't follow from those."""
        if self.order is None:
            return self.shape
        held, strides = self.held, dict[int, int]()
        for k, axis in enumerate(self.order):
            strides[axis] = self.dtype.itemsize * math.prod(held[k + 1 :])
        return (*self.shape, *(strides[axis] for axis in range(len(held))))

    def cells(self, dims: int, held: int) -> list[int]:
        """As numbers; `numbers` stand in cell `dims` and those behind it. `held` is the address of a word for
        the owner itself.
        """
        slots, address = self.slots, 0 if self.is_item else held
        if slots and not self.is_item:
            address, slots = id(self.owner) + slots[0], slots[1:]
        number = self.owner if self.is_item else id(self.owner)
        flags = _FLAG_BITS | (_ROW_MAJOR if self.order is None else 0)
        return [address, number, *(*slots, 0, 0)[:2], id(self.dtype), len(self.shape), dims, flags]


def _found(owner: Any, is_item: bool) -> tuple[int, int]:
    return (_ITEM, owner) if is_item else (id(owner), 0)


@functools.cache
def _module() -> CompiledModule:
    return compile_module("jitgrad_fitted", _build)


def _build(module: ir.Module) -> None:
    """`function(cells, items)`; the cells are those of `fitted`."""
    function = ir.Function(module, FUNCTION_TYPE, "jitgrad_fitted")
    holder, items = function.args
    start, bad = (function.append_basic_block(n) for n in ("start", "bad"))
    b = ir.IRBuilder(start)
    cells = b.inttoptr(byte_cell(b, holder, driver.ARRAY_DATA), PTR)
    numbers = [cell(b, cells, k) for k in range(_HEADER)]
    code, arena, start_code, true, false, given, fixed, words, regions, arrays, ndarray, team = numbers
    _go_on(b, bad, b.icmp_signed("==", byte_cell(b, items, _LIST_LENGTH), given))
    first = b.inttoptr(byte_cell(b, items, _LIST_ITEMS), PTR)
    base = at(b, cells, _HEADER)
    with Counted(function, b, fixed, "fixed") as k:
        pair = at(b, base, b.mul(k, I64(_FIXED_CELLS)))
        _go_on(b, bad, b.icmp_signed("==", _behind(b, cell(b, pair, 0), 0), cell(b, pair, 1)))
    base = at(b, base, b.mul(fixed, I64(_FIXED_CELLS)))
    with Counted(function, b, words, "word") as k:
        _word(b, bad, at(b, base, b.mul(k, I64(_WORD_CELLS))), first)
    table = b.alloca(I64, b.add(arrays, I64(1)))
    base = at(b, base, b.mul(words, I64(_WORD_CELLS)))
    with Counted(function, b, arrays, "array") as k:
        found = _array(b, bad, at(b, base, b.mul(k, I64(_ARRAY_CELLS))), first, cells, ndarray)
        b.store(found, at(b, table, b.add(k, b.zext(b.icmp_signed(">=", k, regions), I64))))
    b.store(arena, at(b, table, regions))
    threads = (cell(b, b.inttoptr(team, PTR), k) for k in range(2))
    call(b, driver.START_TYPE, start_code, [b.inttoptr(code, PTR), table, *threads])
    give(b, true)
    b.position_at_end(bad)
    give(b, false)


def _go_on(b: ir.IRBuilder, bad: ir.Block, holds: ir.Value) -> None:
    """What follows is for the case that this holds."""
    good = b.append_basic_block("good")
    b.cbranch(holds, good, bad)
    b.position_at_end(good)


def _object(b: ir.IRBuilder, cells: ir.Value, items: ir.Value) -> ir.Value:
    """The address of the object that the first two cells tell."""
    address, number = cell(b, cells, 0), cell(b, cells, 1)
    place = b.select(b.icmp_signed("==", address, I64(_ITEM)), at(b, items, number), at(b, cells, 0))
    return cell(b, place, 0)


def _word(b: ir.IRBuilder, bad: ir.Block, cells: ir.Value, items: ir.Value) -> None:
    """Go on if a word is what it has to be."""
    offset, then, mask, expected = (cell(b, cells, k) for k in range(2, 6))
    word = _behind(b, _object(b, cells, items), offset)
    before, follow, compare = b.block, b.append_basic_block("follow"), b.append_basic_block("compare")
    b.cbranch(b.icmp_signed("==", then, I64(0)), compare, follow)
    b.position_at_end(follow)
    good = b.append_basic_block("good")
    read = b.append_basic_block("read")
    b.cbranch(b.icmp_signed("==", word, I64(0)), good, read)
    b.position_at_end(read)
    behind = _behind(b, word, then)
    b.branch(compare)
    b.position_at_end(compare)
    found = b.phi(I64)
    found.add_incoming(word, before)
    found.add_incoming(behind, read)
    b.cbranch(b.icmp_signed("==", b.and_(found, mask), expected), good, bad)
    b.position_at_end(good)


def _array(
    b: ir.IRBuilder, bad: ir.Block, cells: ir.Value, items: ir.Value, header: ir.Value, ndarray: ir.Value
) -> ir.Value:
    """Where the elements of an array are; go on if it is what it has to be."""
    first, second, dtype, ndim, dims, flags = (cell(b, cells, k) for k in range(2, 8))
    address, number = cell(b, cells, 0), cell(b, cells, 1)
    is_item = b.icmp_signed("==", address, I64(_ITEM))
    array = cell(b, b.select(is_item, at(b, items, number), b.inttoptr(address, PTR)), 0)
    _go_on(b, bad, b.icmp_signed("!=", array, I64(0)))
    array = _through(b, bad, array, first)
    array = _through(b, bad, array, second)
    _go_on(b, bad, b.icmp_signed("==", _behind(b, array, _CLASS), ndarray))
    is_plain = b.icmp_signed("==", b.and_(_behind(b, array, _FLAGS), flags), flags)
    has_dtype = b.icmp_signed("==", _behind(b, array, _DTYPE), dtype)
    has_ndim = b.icmp_signed("==", b.and_(_behind(b, array, _NDIM), I64(_NDIM_BITS)), ndim)
    _go_on(b, bad, b.and_(is_plain, b.and_(has_dtype, has_ndim)))
    lengths, expected = b.inttoptr(_behind(b, array, _DIMS), PTR), at(b, header, dims)
    with Counted(b.function, b, ndim, "axis") as k:
        _go_on(b, bad, b.icmp_signed("==", cell(b, lengths, k), cell(b, expected, k)))
    is_row_major = b.icmp_signed("!=", b.and_(flags, I64(_ROW_MAJOR)), I64(0))
    strides, expected = b.inttoptr(_behind(b, array, _STRIDES), PTR), at(b, expected, ndim)
    with Counted(b.function, b, b.select(is_row_major, I64(0), ndim), "stride") as k:
        _go_on(b, bad, b.icmp_signed("==", cell(b, strides, k), cell(b, expected, k)))
    return _behind(b, array, driver.ARRAY_DATA)


def _behind(b: ir.IRBuilder, address: ir.Value, offset: int | ir.Value) -> ir.Value:
    """The word at an offset of an address."""
    number = I64(offset) if isinstance(offset, int) else offset
    return b.load(b.inttoptr(b.add(address, number), PTR), typ=I64)


def _through(b: ir.IRBuilder, bad: ir.Block, address: ir.Value, slot: ir.Value) -> ir.Value:
    """What a slot of an object holds; the object itself where there is no slot."""
    before, read, after = b.block, b.append_basic_block("read"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("==", slot, I64(0)), after, read)
    b.position_at_end(read)
    held = _behind(b, address, slot)
    b.cbranch(b.icmp_signed("==", held, I64(0)), bad, after)
    b.position_at_end(after)
    found = b.phi(I64)
    found.add_incoming(address, before)
    found.add_incoming(held, read)
    return found


def fitted(
    code: int,
    arena: int,
    words: Sequence[Word],
    regions: Sequence[Array],
    others: Sequence[Array],
    items: int,
    team: int,
) -> Callable[[list[Any]], bool]:
    """The function of a list of so many `items` that runs the driver's code on `regions`; the arena is the last one.
    Threads are as `Pool.team` says.

    `others` are arrays that are only looked at. What `words` and arrays name must outlive it, and so must `code` and
    `arena`.
    """
    driver.load_driver()
    arrays = (*regions, *others)
    fixed, moving = [w for w in words if w.is_fixed], [w for w in words if not w.is_fixed]
    counts = [items, len(fixed), len(moving), len(regions), len(arrays)]
    cells = [code, arena, driver.start_address(), id(True), id(False), *counts, id(np.ndarray), team]
    cells += [c for word in fixed for c in (id(word.owner) + word.offset, word.expected)]
    cells += [c for word in moving for c in word.cells()]
    start, dims = len(cells), list[int]()
    table = np.empty(start + len(arrays) * _ARRAY_CELLS + sum(len(x.numbers) for x in arrays), np.int64)
    first = start + len(arrays) * _ARRAY_CELLS
    for k, array in enumerate(arrays):
        owner = table.ctypes.data + 8 * (start + k * _ARRAY_CELLS + 1)  # the cell with its address
        cells += array.cells(first + len(dims), owner)
        dims += array.numbers
    table[:] = cells + dims
    return builtin_of(_module().address("jitgrad_fitted"), table)
