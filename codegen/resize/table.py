"""Graphs that have been compiled, by structure, and the templates of those that were met at several sizes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, Final

from jitgrad.ir.graph import Graph
from jitgrad.ir.tracked import Changed

from ..plan import Plan
from .complete import completed
from .guess import guess
from .outline import Outline, Outlines
from .symbols import Symbols
from .template import Template

_MOST_STRUCTURES: Final = 512
_MOST_TEMPLATES: Final = 5  # one that is guessed, and four of sizes that were compared
_MOST_FAILURES: Final = 2
_MOST_MET: Final = 4  # sizes whose numbers are compared
_MOST_ALIKE: Final = 3  # graphs that another may be one of with ops left out


class _Known:
    """What is known of a structure: the numbers that it was last met with, and templates."""

    def __init__(self) -> None:
        self.met: deque[Sequence[Any]] = deque(maxlen=_MOST_MET)
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
        self._before = [x for x in known.met if x != numbers]
        known.met.append(numbers)

    def resized(self) -> tuple[Plan, Template] | None:
        """The plan, by a template that fits, and that one."""
        return plan_of(self._known.templates, self._numbers)

    def recorded(self, record: Callable[[Symbols], Template]) -> tuple[Plan, Template] | None:
        """The same by a new template. `record` makes it, by compiling with tracked numbers.

        None if no number is known to vary, or if it can't be compiled so. The one that was guessed stays, and of
        the others the newest.
        """
        known = self._known
        if known.failures >= _MOST_FAILURES:
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
        del known.templates[1 : -_MOST_TEMPLATES + 1]
        return plan, template

    def _symbols(self) -> Symbols:
        """What differs among the numbers that were met; at first, what may differ."""
        if not self._before:
            return Symbols.guessed(self._outline, guess(self._graph, self._outline, self._varying))
        return Symbols.compared(self._before, self._outline)


def plan_of(templates: Sequence[Template], numbers: Sequence[Any]) -> tuple[Plan, Template] | None:
    """The plan at these numbers, by the first template that fits, and that one."""
    for template in templates:
        try:
            return template.at(numbers), template
        except Changed:
            continue
    return None


class Table:
    """Structures of graphs that have been compiled. It takes one compilation at a time."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._outlines = Outlines()
        self._last: tuple[Graph, Outline] | None = None  # `completed` needs it, and `sizes` again
        self._alike: dict[Hashable, list[Graph]] = {}  # graphs of several structures, by what goes in and comes out

    def completed(self, graph: Graph, key: Hashable, *, sums: bool) -> Graph:
        """`graph`, with what does nothing at its sizes put in, if so it has a known structure: see `complete`."""
        outline = self._outlines.of(graph)
        if (outline.structure, key) in self._known:
            self._last = graph, outline
            return graph
        ends = (key, tuple([(v.type.dtype, v.ndim) for v in graph.inputs]), len(graph.outputs))
        alike = self._alike.setdefault(ends, [])
        found = [completed(graph, other, self._outlines.form, sums=sums) for other in alike]
        made = [g for g in found if g is not None]
        if made:  # one whose plan is known, if there is one: what is left of other functions may look like this one
            return next((g for g in made if self._fits(g, key)), made[0])
        alike.insert(0, graph)
        del alike[_MOST_ALIKE:]
        while len(self._alike) > _MOST_STRUCTURES:
            self._alike.pop(next(iter(self._alike)))
        return graph

    def _fits(self, graph: Graph, key: Hashable) -> bool:
        """Whether a template of the graph's structure has its plan."""
        outline = self._outlines.of(graph)
        known = self._known.get((outline.structure, key))
        return known is not None and plan_of(known.templates, outline.numbers) is not None

    def sizes(self, graph: Graph, key: Hashable, varying: Collection[int] = ()) -> Sizes:
        """The sizes of `graph`; `key` is all else that compiling depends on.

        `varying` are inputs whose first lengths are expected to be others at a later call.
        """
        last, self._last = self._last, None
        outline = last[1] if last is not None and last[0] is graph else self._outlines.of(graph)
        known = self._known.setdefault((outline.structure, key), _Known())
        while len(self._known) > _MOST_STRUCTURES:
            self._known.pop(next(iter(self._known)))
        return Sizes(known, graph, outline, varying)
