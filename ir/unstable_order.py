"""Where sorting and selecting leave equal elements: the algorithms of PyTorch's CPU kernels, on words.

A word is an integer whose upper half is a key and whose lower half the place where the element was; only keys are
compared. Up to `INSERTED` words equal keys keep their order; of more, the pivots decide. So the algorithms are those
of the C++ library that PyTorch is compiled with, step by step: introsort (Musser, *Introspective Sorting and Selection
Algorithms*, 1997) with the median of three, and for `kth` the quicksort of Sedgewick (*Implementing Quicksort
Programs*, 1978).

The functions run as they are, slowly, for references; `codegen.cpu.integer_code` compiles the same text. They keep to
what that takes: integers, words in the list `a`, and parts of it given by where they begin and end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Words: TypeAlias = Any  # a list of integers; in native code a pointer to them
Routine: TypeAlias = Callable[..., None]

INSERTED: Final = 16


def before(x: int, y: int) -> bool:
    """Whether the key of word `x` is smaller than that of `y`."""
    return x < (y >> 32 << 32)


def swap(a: Words, i: int, j: int) -> None:
    """Exchange two words."""
    word = a[i]
    a[i] = a[j]
    a[j] = word


def move_back(a: Words, i: int) -> None:
    """Put word `i` where it belongs among those before it, one of which is not larger."""
    word = a[i]
    while before(word, a[i - 1]):
        a[i] = a[i - 1]
        i -= 1
    a[i] = word


def insertion_sort(a: Words, first: int, last: int) -> None:
    """Sort by moving each word back to its place."""
    i = first + 1
    while i < last:
        if before(a[i], a[first]):
            word = a[i]
            j = i
            while j > first:
                a[j] = a[j - 1]
                j -= 1
            a[first] = word
        else:
            move_back(a, i)
        i += 1


def median_of_three(a: Words, x: int, y: int, z: int) -> int:
    """Which of three places has the middle one of their words."""
    if before(a[x], a[y]):
        if before(a[y], a[z]):
            return y
        if before(a[x], a[z]):
            return z
        return x
    if before(a[x], a[z]):
        return x
    if before(a[y], a[z]):
        return z
    return y


def partition(a: Words, first: int, last: int) -> int:
    """Move words not larger than a pivot before the others; where these begin. The pivot goes to `first`."""
    swap(a, first, median_of_three(a, first + 1, first + ((last - first) >> 1), last - 1))
    pivot = a[first]
    i = first + 1
    j = last
    while True:
        while before(a[i], pivot):
            i += 1
        j -= 1
        while before(pivot, a[j]):
            j -= 1
        if i >= j:
            return i
        swap(a, i, j)
        i += 1


def sift(a: Words, first: int, hole: int, length: int, word: int) -> None:
    """Fill the hole of a heap: its larger children move up to the bottom, from where `word` goes up again."""
    top = hole
    child = 2 * (hole + 1)
    while child < length:
        if before(a[first + child], a[first + child - 1]):
            child -= 1
        a[first + hole] = a[first + child]
        hole = child
        child = 2 * (hole + 1)
    if child == length:
        a[first + hole] = a[first + child - 1]
        hole = child - 1
    parent = (hole - 1) >> 1
    while hole > top and before(a[first + parent], word):
        a[first + hole] = a[first + parent]
        hole = parent
        parent = (hole - 1) >> 1
    a[first + hole] = word


def pop_heap(a: Words, first: int, last: int, place: int) -> None:
    """Exchange the largest word of a heap with the one at a place behind it."""
    word = a[place]
    a[place] = a[first]
    sift(a, first, 0, last - first, word)


def heap_select(a: Words, first: int, middle: int, last: int) -> None:
    """Bring the smallest words of all before `middle`, as a heap."""
    i = ((middle - first) >> 1) - 1
    while i >= 0:
        sift(a, first, i, middle - first, a[first + i])
        i -= 1
    i = middle
    while i < last:
        if before(a[i], a[first]):
            pop_heap(a, first, middle, i)
        i += 1


def partial_sort(a: Words, first: int, middle: int, last: int) -> None:
    """Bring the smallest words of all before `middle`, in order."""
    heap_select(a, first, middle, last)
    while middle - first > 1:
        middle -= 1
        pop_heap(a, first, middle, middle)


def partitions(length: int) -> int:
    """How many times so many words are partitioned before heaps take over."""
    found = 0
    while length > 1:
        length >>= 1
        found += 2
    return found


def introsort(a: Words, first: int, last: int, left: int) -> None:
    """Sort but for parts of `INSERTED` words; by a heap what has not become small after `left` partitions."""
    while last - first > INSERTED:
        if left == 0:
            partial_sort(a, first, last, last)
            return
        left -= 1
        border = partition(a, first, last)
        introsort(a, border, last, left)
        last = border


def sort_part(a: Words, first: int, last: int) -> None:
    """Sort the words from `first` to `last`."""
    if last - first <= INSERTED:
        insertion_sort(a, first, last)
        return
    introsort(a, first, last, partitions(last - first))
    insertion_sort(a, first, first + INSERTED)
    i = first + INSERTED
    while i < last:
        move_back(a, i)
        i += 1


def sort(a: Words, length: int) -> None:
    """Sort all words."""
    sort_part(a, 0, length)


def nth_element(a: Words, nth: int, length: int) -> None:
    """Bring the `nth` word in order to its place, smaller ones before it."""
    first = 0
    last = length
    left = partitions(length)
    while last - first > 3:
        if left == 0:
            heap_select(a, first, nth + 1, last)
            swap(a, first, nth)
            return
        left -= 1
        border = partition(a, first, last)
        if border <= nth:
            first = border
        else:
            last = border
    insertion_sort(a, first, last)


def top(a: Words, length: int, k: int) -> None:
    """The smallest `k` words of all, in order."""
    if k * 64 <= length:
        partial_sort(a, 0, k, length)
    else:
        nth_element(a, k - 1, length)
        sort_part(a, 0, k - 1)


def top_unsorted(a: Words, length: int, k: int) -> None:
    """The smallest `k` words of all, as they come."""
    if k * 64 <= length:
        partial_sort(a, 0, k, length)
    else:
        nth_element(a, k - 1, length)


def median_to_front(a: Words, low: int, high: int) -> None:
    """The middle one of the words at `low`, half way and `high` to `low`, the smallest next to it, the largest last."""
    swap(a, (low + high) >> 1, low + 1)
    if before(a[high], a[low + 1]):
        swap(a, low + 1, high)
    if before(a[high], a[low]):
        swap(a, low, high)
    if before(a[low], a[low + 1]):
        swap(a, low + 1, low)


def kth(a: Words, length: int, k: int) -> None:
    """Bring the word that is number `k` in order, counted from 0, to its place."""
    low = 0
    high = length - 1
    while high - low > 1:
        median_to_front(a, low, high)
        pivot = a[low]
        i = low + 2
        j = high - 1
        while before(a[i], pivot):
            i += 1
        while before(pivot, a[j]):
            j -= 1
        while i <= j:
            swap(a, i, j)
            i += 1
            j -= 1
            while before(a[i], pivot):
                i += 1
            while before(pivot, a[j]):
                j -= 1
        swap(a, low, j)
        if j <= k:
            low = i
        if j >= k:
            high = j - 1
    if high == low + 1 and before(a[high], a[low]):
        swap(a, low, high)


ROUTINES: Final[tuple[Routine, ...]] = (sort, top, top_unsorted, kth)
