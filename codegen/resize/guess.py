"""Which numbers of a graph follow from lengths that may be others at a later call, before any other has been seen.

Types are inferred with an unknown in the place of each number that might follow. What has to be equal for that gives
equations: a factor of a reshape, a length that is broadcast to. Numbers that no equation tells count as fixed, so that
a guess that is wrong is noticed at other sizes, as any change of structure is.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from jitgrad.ir.graph import Graph
from jitgrad.ir.tracked import Recording, Terms, Tracked

from .outline import Outline, graph_with_tracked

_Equation: TypeAlias = tuple[Terms, Terms]
_DIGITS: Final = 12  # of numbers that people write


class _Equations(Recording):
    """Notes what has turned out to be equal."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[Any, Any], None] = {}

    def require(self, relation: Callable[[Any, Any], bool], a: Any, b: Any, holds: bool) -> bool:
        """Whether a relation holds."""
        if (relation is operator.eq and holds) or (relation is operator.ne and not holds):
            self.found[a, b] = None
        return holds


def guess(graph: Graph, outline: Outline, varying: Collection[int]) -> dict[int, Terms]:
    """Terms over the places of lengths, by place among the outline's numbers, of what follows from first lengths.

    `varying` are the inputs whose first lengths may be others. Nothing where no guess can be made.
    """
    numbers = outline.numbers
    starts = [0]
    for v in graph.inputs:
        starts.append(starts[-1] + v.ndim)
    roots = [starts[i] for i in varying if graph.inputs[i].ndim and numbers[starts[i]] > 1]
    lengths = {numbers[k] for k in roots}
    if not roots:
        return {}
    fields = list(enumerate(numbers))[starts[-1] :]
    unknown = [k for k, n in fields if n.__class__ is int and n and any(n % r == 0 for r in lengths)]
    recording = _Equations()
    atoms = {k: recording.symbol(numbers[k]) for k in (*roots, *unknown)}
    try:
        graph_with_tracked(graph, [atoms.get(k, n) for k, n in enumerate(numbers)], outline.counts)
    except Exception:  # what takes plain numbers alone may raise anything
        return {}
    places = {x.register: k for k, x in atoms.items()}
    equations = [e for a, b in recording.found if (e := _equation(a, b, places)) is not None]
    known = _solved(equations, set(roots), numbers)
    free = {r for r in roots if known[r] == {(r,): 1}}
    found = {k: known[k] for k in atoms if k in known and _names(known[k]) and _names(known[k]) <= free}
    floats: dict[float, int] = {}  # alike ones are one
    of_lengths = [(k, x) for k, x in fields if x.__class__ is float and _may_follow(x, lengths)]
    return found | {k: {(floats.setdefault(x, k),): 1} for k, x in of_lengths} if found else {}


def _may_follow(x: float, lengths: Collection[int]) -> bool:
    """Whether a float may have been computed from a length: it has many digits, or is a multiple, or 1 through one."""
    return len(repr(x)) > _DIGITS or any(x and (x % n == 0 or 1 / x % n == 0) for n in lengths)


def _equation(a: Any, b: Any, places: dict[int, int]) -> _Equation | None:
    """An equation over places; None where one side is more than a polynomial of them."""
    sides = []
    for x in (a, b):
        terms = x.terms if x.__class__ is Tracked else {(): x} if x.__class__ is int else None
        if terms is None or not all(f in places for factors in terms for f in factors):
            return None
        sides.append({tuple(sorted([places[f] for f in factors])): c for factors, c in terms.items()})
    return sides[0], sides[1]


def _solved(equations: Sequence[_Equation], roots: set[int], numbers: Sequence[Any]) -> dict[int, Terms]:
    """What each place is, by the equations: terms over roots that are independent."""
    solver = _Solver(equations, roots, numbers)
    solver.run()
    return {k: _put_in({(k,): 1}, solver.known) for k in (*roots, *solver.known)}


class _Solver:
    """Finds out of equations what places are, and assumes something where they don't say."""

    def __init__(self, equations: Sequence[_Equation], roots: set[int], numbers: Sequence[Any]) -> None:
        self.known: dict[int, Terms] = {}
        self._roots = roots
        self._numbers = numbers
        self._left = dict(enumerate(equations))
        self._uses: defaultdict[int, dict[int, None]] = defaultdict(dict)  # the equations that a place is in

    def run(self) -> None:
        """Learn all that there is to learn."""
        again, unsaid = list(self._left), list(self._left)
        waiting = set(unsaid)  # those of the heap `unsaid`: an assumption may still solve them
        while again:
            seen: dict[int, None] = {}
            while again:
                seen |= dict.fromkeys(again)
                again = self._learn(again)
            for i in seen.keys() - waiting:
                heapq.heappush(unsaid, i)
            waiting |= seen.keys()
            again = self._learn(list(seen), 1)
            while unsaid and not again:  # one at a time, from the first
                waiting.remove(i := heapq.heappop(unsaid))
                again = self._learn([i], 2)

    def _learn(self, equations: Sequence[int], assuming: int = 0) -> list[int]:
        """Learn from some equations; those to be looked at again."""
        again: dict[int, None] = {}
        for i in equations:
            if i not in self._left:
                continue
            a, b = self._left[i] = (_put_in(self._left[i][0], self.known), _put_in(self._left[i][1], self.known))
            if a == b:
                del self._left[i]
                continue
            found = self._said(a, b, assuming)
            if found is None:
                for f in _names(a) | _names(b):
                    self._uses[f][i] = None
                continue
            self.known[found[0]] = found[1]
            again |= dict.fromkeys((*self._uses.pop(found[0], ()), i))
        return list(again)

    def _said(self, a: Terms, b: Terms, assuming: int) -> tuple[int, Terms] | None:
        """A place, and what it is."""
        roots, numbers = self._roots, self._numbers
        found = _isolated(a, b, roots) or _isolated(b, a, roots)
        if found is None and assuming:
            found = _assumed(a, b, roots, numbers) or _assumed(b, a, roots, numbers)
        if found is None and assuming > 1:
            found = _fixed(a, roots, numbers) or _fixed(b, roots, numbers)
        return found


def _put_in(terms: Terms, known: dict[int, Terms]) -> Terms:
    """The terms with what is known in the places of factors. Places on the way there are known by these terms then."""
    passed: list[int] = []
    while True:
        if len(terms) == 1:  # most are one place
            ((factors, c),) = terms.items()
            if c == 1 and len(factors) == 1:
                found = known.get(factors[0])
                if found is None:
                    break
                passed.append(factors[0])
                terms = found
                continue
        if not any(f in known for factors in terms for f in factors):
            break
        total: Terms = {}
        for factors, c in terms.items():
            product: Terms = {(): c}
            for f in factors:
                product = _times(product, known.get(f, {(f,): 1}))
            for k, d in product.items():
                total[k] = total.get(k, 0) + d
        terms = {k: c for k, c in total.items() if c}
    known.update(dict.fromkeys(passed, terms))
    return terms


def _assumed(a: Terms, b: Terms, roots: set[int], numbers: Sequence[Any]) -> tuple[int, Terms] | None:
    """Of unknown factors, as where a reshape splits an axis, the first that is as long as a length in `b`: that one."""
    lengths = {numbers[r]: r for r in sorted(_names(b) & roots, reverse=True)}
    if len(a) != 1 or len(b) != 1:
        return None
    unknown = [f for factors in a for f in factors if f not in roots]
    for f in unknown:
        if numbers[f] in lengths:
            return f, {(lengths[numbers[f]],): 1}
    return None


def _fixed(a: Terms, roots: set[int], numbers: Sequence[Any]) -> tuple[int, Terms] | None:
    """The last of several unknown factors as the number that it is now: lengths that vary mostly come first."""
    unknown = sorted(_names(a) - roots)
    return (unknown[-1], {(): numbers[unknown[-1]]}) if unknown else None


def _times(a: Terms, b: Terms) -> Terms:
    made: Terms = {}
    for p, c in a.items():
        for q, d in b.items():
            key = tuple(sorted((*p, *q)))
            made[key] = made.get(key, 0) + c * d
    return made


def _isolated(a: Terms, b: Terms, roots: set[int]) -> tuple[int, Terms] | None:
    """What a factor of the one term `a` must be, if it is the only one that is unknown: `b` through the rest of `a`."""
    if len(a) != 1:
        return None
    ((factors, c),) = a.items()
    unknown = [f for f in factors if f not in roots]
    if not unknown and len(factors) == 1 and c == 1 and _names(b) <= roots - {*factors}:
        return factors[0], b  # a length that is fixed, or another one's
    if len(unknown) != 1 or unknown[0] in _names(b):
        return None
    rest = Counter(factors)
    rest[unknown[0]] -= 1
    made: Terms = {}
    for other, d in b.items():
        kept = Counter(other)
        kept.subtract(rest)
        if d % c or min(kept.values(), default=0) < 0:
            return None
        made[tuple(sorted(kept.elements()))] = d // c
    return unknown[0], made


def _names(terms: Terms) -> set[int]:
    return {f for factors in terms for f in factors}
