"""Graphs that have been compiled, by structure, and the templates of those that were met at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Final

from jitgrad.ir.graph import Graph
from jitgrad.ir.tracked import Changed

from ..plan import Plan
from .guess import guess
from .outline import Outline, Outlines
from .symbols import Symbols
from .template import Template

_MOST_STRUCTURES: Final = 512
_MOST_TEMPLATES: Final = 5  # one that is guessed, and four of sizes that were compared
_MOST_FAILURES: Final = 2


class _Known:
    """What is known of a structure: the numbers that it was last compiled with, and templates."""

    def __init__(self) -> None:
        self.numbers: Sequence[Any] | None = None
        self.templates: list[Template] = []
        self.failures = 0


class Sizes:
    """A graph's numbers, and what is known of its structure."""

    def __init__(self, known: _Known, graph: Graph, outline: Outline, varying: Collection[int]) -> None:
        self._known = known
        self._graph = graph
        self._outline = outline
        self._numbers = numbers = outline.numbers
        self._varying = varying
        self._before, known.numbers = known.numbers, numbers

    def resized(self) -> tuple[Plan, Template] | None:
        """The plan, by a template that fits, and that one."""
        for template in self._known.templates:
            try:
                return template.at(self._numbers), template
            except Changed:
                continue
        return None

    def recorded(self, record: Callable[[Symbols], Template]) -> tuple[Plan, Template] | None:
        """The same by a new template. `record` makes it, by compiling with tracked numbers.

        None if no number is known to vary, or after too many templates, or if it can't be compiled so.
        """
        known = self._known
        if len(known.templates) >= _MOST_TEMPLATES or known.failures >= _MOST_FAILURES:
            return None
        symbols = self._symbols()
        if not symbols.recording.symbols:
            return None
        try:
            template = record(symbols)
            plan = template.at(self._numbers)
        except Exception:  # what takes plain numbers alone may raise anything; compiling as it is says what is wrong
            known.failures += 1
            return None
        known.templates.append(template)
        return plan, template

    def _symbols(self) -> Symbols:
        """What differs from the numbers that were met before; at first, what may differ."""
        if self._before is None:
            return Symbols.guessed(self._outline, guess(self._graph, self._outline, self._varying))
        return Symbols.compared(self._before, self._outline)


class Table:
    """Structures of graphs that have been compiled. It takes one compilation at a time."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._outlines = Outlines()

    def sizes(self, graph: Graph, key: Hashable, varying: Collection[int] = ()) -> Sizes:
        """The sizes of `graph`; `key` is all else that compiling depends on.

        `varying` are inputs whose first lengths are expected to be others at a later call.
        """
        outline = self._outlines.of(graph)
        known = self._known.setdefault((outline.structure, key), _Known())
        while len(self._known) > _MOST_STRUCTURES:
            self._known.pop(next(iter(self._known)))
        return Sizes(known, graph, outline, varying)
