"""A graph whose varying numbers are tracked, found by comparing it with the same graph at other sizes, or guessed.

Numbers that differ are taken for multiples of a few others: the lengths of inputs that come first. That need not be so
at all sizes; where it isn't, `Symbols.bound` says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from jitgrad.ir.tracked import Changed, Recording, Terms, Tracked

from .outline import Outline

_Pair: TypeAlias = tuple[type, Any, Any]  # of a number: its type, and what it is at one size and at the other


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
    def compared(cls, old: Sequence[Any], outline: Outline) -> Symbols:
        """Those that differ from the numbers of another outline of one structure."""
        made, new = cls(outline), outline.numbers
        differing = [k for k, (a, b) in enumerate(zip(old, new, strict=True)) if a != b or type(a) is not type(b)]
        known: dict[_Pair, Any] = {}
        pairs = {k: (type(new[k]), old[k], new[k]) for k in differing}  # 2.0 is not the length 2
        for k, pair in pairs.items():
            if pair not in known and _multiple(pair, known) is None:
                known[pair] = made._symbol(k)
        for k, pair in pairs.items():
            found = known.get(pair)
            if found is None:
                found = known[pair] = _product(pair, known)
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


def _multiple(pair: _Pair, known: dict[_Pair, Any]) -> tuple[_Pair, int] | None:
    """Of which known number it is a multiple at both sizes, and which."""
    cls, a, b = pair
    if cls is not int:
        return None
    for other in known:
        kind, x, y = other
        if kind is int and x and y and a % x == 0 and a // x * y == b and a:
            return other, a // x
    return None


def _product(pair: _Pair, known: dict[_Pair, Any]) -> Any:
    found = _multiple(pair, known)
    assert found is not None
    return known[found[0]] * found[1]
