"""A graph whose varying numbers are tracked, found by comparing it with the same graph at other sizes, or guessed.

Numbers that differ are taken for multiples of a few others: the lengths of inputs that come first. That need not be so
at all sizes; where it isn't, `Symbols.bound` says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from jitgrad.ir.tracked import Changed, Recording, Terms, Tracked

from .outline import Outline

_Course: TypeAlias = tuple[Any, ...]  # of a number: its type, and what it is at one size after another
_LITTLE: Final = 4


class Symbols:
    """The numbers of an outline: which of them may be others at other sizes, and what they follow from."""

    def __init__(self, outline: Outline) -> None:
        self.recording = Recording()
        self.counts = outline.counts
        self.numbers = list(outline.numbers)
        self.tracked = list(outline.numbers)
        self._given: list[int] = []  # where the symbols are found
        self._varying: list[tuple[int, Tracked]] = []

    @classmethod
    def compared(cls, before: Sequence[Sequence[Any]], outline: Outline) -> Symbols:
        """Those that differ from the numbers of other outlines of one structure, and so may do it again."""
        made, new = cls(outline), outline.numbers
        known: dict[_Course, Any] = {}
        courses = {}
        for k, numbers in enumerate(zip(new, *before, strict=True)):
            x = numbers[0]
            if any(x != other or type(x) is not type(other) for other in numbers[1:]):  # 2.0 is not the length 2
                courses[k] = (type(x), *numbers)
        for k, course in courses.items():
            if course not in known and _follows(course, known, shifted=k >= outline.counts[0]) is None:
                known[course] = made._symbol(k)
        for k, course in courses.items():
            found = known.get(course)
            if found is None:
                found = known[course] = _derived(course, known)
            made._vary(k, found)
        return made

    @classmethod
    def guessed(cls, outline: Outline, terms: Mapping[int, Terms]) -> Symbols:
        """Those at the places of `terms`, which are over places: see `guess`."""
        made = cls(outline)
        symbols = {k: made._symbol(k) for k, t in terms.items() if t == {(k,): 1}}
        for k, t in terms.items():
            made._vary(k, sum((c * math.prod([symbols[f] for f in factors]) for factors, c in t.items()), start=0))
        return made

    def _symbol(self, place: int) -> Tracked:
        self._given.append(place)
        return self.recording.symbol(self.numbers[place])

    def _vary(self, place: int, number: Any) -> None:
        self._varying.append((place, number))
        self.tracked[place] = number

    def bound(self, numbers: Sequence[Any]) -> list[Any]:
        """The symbols' values in another outline. Raises `Changed` where numbers differ that are not tracked."""
        same = list(numbers)
        for k, _ in self._varying:
            same[k] = self.numbers[k]
        if same != self.numbers:
            raise Changed
        return [numbers[k] for k in self._given]

    def check(self, numbers: Sequence[Any], registers: Sequence[Any]) -> None:
        """Raise `Changed` if a number is not what it was taken for."""
        for k, x in self._varying:
            if registers[x.register] != numbers[k]:
                raise Changed


def _follows(course: _Course, known: dict[_Course, Any], *, shifted: bool = True) -> tuple[_Course, int, int] | None:
    """Of which known number it is a multiple at all sizes, and which; or, if `shifted`, what is it but for a little.

    So the rest of a slice that leaves out one element is known to fill the axis with it.
    """
    cls, *numbers = course
    if cls is not int:
        return None
    for other in known:
        kind, *others = other
        if kind is int and all(others):
            factor = numbers[0] // others[0]
            if factor and all(n == factor * m for n, m in zip(numbers, others, strict=True)):
                return other, factor, 0
    for other in known if shifted else ():
        kind, *others = other
        shift = numbers[0] - others[0] if kind is int else 0
        if 0 < abs(shift) <= _LITTLE and all(n == m + shift for n, m in zip(numbers, others, strict=True)):
            return other, 1, shift
    return None


def _derived(course: _Course, known: dict[_Course, Any]) -> Any:
    found = _follows(course, known)
    assert found is not None
    other, factor, shift = found
    return known[other] * factor + shift
