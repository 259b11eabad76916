"""Finds the expression behind numbers seen at several sizes.

A number of a graph that differs between sizes is some expression of the dimensions. Candidates come from what is near:
the expression that the trace itself carried there, lengths of the node's operands, their products, sums and
differences; of each, multiples with an offset, quotients, minima and maxima with a constant; ratios of two sizes. What
fits at all sizes that were traced is taken, and tested at others by the caller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from jitgrad.ir.symbols import Expression, as_expression, combine, number, symbol

Vector = tuple[Any, ...]  # a number at each of the sizes
_MAX_DIVISOR: Final = 64
_MAX_AXES: Final = 5
_MAX_RATIOS: Final = 100  # sizes that are tried against each other
_ERRORS = (ArithmeticError, ValueError, TypeError, KeyError)


class Fitter:
    """Fits numbers at the sizes `samples`."""

    def __init__(self, samples: Sequence[Mapping[str, int]]) -> None:
        self.samples = samples
        self.known: dict[Vector, Expression] = {}
        for name in samples[0]:
            self.remember(symbol(name))

    def at(self, e: Expression) -> Vector | None:
        """An expression at all samples; None where it has no value at some."""
        try:
            return tuple([e.at(s) for s in self.samples])
        except _ERRORS:
            return None

    def remember(self, e: Expression) -> None:
        """Something near has this size."""
        vector = self.at(e)
        if vector is not None:
            self.known.setdefault(vector, e)

    def integer(self, values: Vector, hint: Any, near: Near) -> Expression | None:
        """The expression of these integers."""
        found = self._hinted(values, hint) or self.known.get(values)
        if found is None:
            found = next(self._integers(values, near), None)
            if found is not None:
                self.remember(found)
        return found

    def real(self, values: Vector, hint: Any, near: Near) -> Expression | None:
        """The expression of these floats, to the bit."""
        found = self._hinted(values, hint)
        if found is None and all(math.isfinite(v) and v == int(v) for v in values):
            found = self.integer(tuple(map(int, values)), None, near)
        tried = itertools.chain(self._reals(values, near), self._ratios(values))
        return found or next((e for e in tried if self.at(e) == values), None)

    def _hinted(self, values: Vector, hint: Any) -> Expression | None:
        e = as_expression(hint) if isinstance(hint, (int, float)) else number(0)
        return e if e.fn != "number" and self.at(e) == values else None

    def _integers(self, values: Vector, near: Near) -> Iterator[Expression]:
        sources = [(e, v) for e in near.sources(self) if (v := self.at(e)) is not None]
        for fit in (_linear, _bounded, _quotient):
            for e, vector in sources:
                yield from fit(values, e, vector)

    def _reals(self, values: Vector, near: Near) -> Iterator[Expression]:
        for e in near.sources(self):
            vector = self.at(e)
            if vector is None or 0 in vector:
                continue
            for c in dict.fromkeys((1.0, -1.0, 2.0, 0.5, values[0] * vector[0], round(values[0] * vector[0]))):
                yield combine("/", number(c), e)
            for c in dict.fromkeys((1.0, -1.0, values[0] / vector[0])):
                yield combine("*", number(c), e)
            root = combine("sqrt", e) if min(vector) > 0 else None
            if root is not None:
                yield from (root, combine("/", number(1), root), combine("/", number(1.0), root))
                yield from (combine("pow", e, number(0.5)), combine("pow", e, number(-0.5)))
            yield from (combine("log", e + k) for k in (0, 1) if min(vector) + k > 0)
            for a, b in ((0, -1), (-1, 0), (0, 1), (1, 0)):
                yield combine("/", e + a, e + b)

    def _ratios(self, values: Vector) -> Iterator[Expression]:
        """One size divided by another, or steps along one by those along the other; what was met last comes first."""
        known = list(self.known.items())[: -_MAX_RATIOS - 1 : -1]
        for shift in (0, -1):
            for (above, a), (below, b) in itertools.permutations(known, 2):
                least = below[0] + shift
                if least and (above[0] + shift) / least == values[0]:
                    yield combine("/", a + shift, b + shift)


class Near:
    """What a number of a node may be made of: lengths of operands (by operand and axis) and other expressions."""

    def __init__(self, shapes: Iterable[Sequence[Any]], others: Iterable[Expression] = ()) -> None:
        self.shapes = [[as_expression(n) for n in shape] for shape in shapes]
        self.others = list(others)
        self._found: list[Expression] | None = None

    def sources(self, fitter: Fitter) -> list[Expression]:
        """Expressions to fit multiples of, the nearest first."""
        if self._found is None:
            lengths = [n for shape in self.shapes for n in shape if n.fn != "number"]
            singles = list(dict.fromkeys([*lengths, *self.others, *map(symbol, fitter.samples[0])]))
            products = [p for shape in self.shapes for p in _products(shape)]
            pairs = [f(a, b) for a, b in itertools.permutations(singles[:8], 2) for f in (_plus, _minus, _times)]
            whole = [e for e in fitter.known.values() if e.fn != "number"][:200]
            self._found = [e for e in dict.fromkeys([*singles, *products, *pairs, *whole]) if e.fn != "number"]
        return self._found


def _plus(a: Expression, b: Expression) -> Expression:
    return a + b


def _minus(a: Expression, b: Expression) -> Expression:
    return a - b


def _times(a: Expression, b: Expression) -> Expression:
    return a * b


def _products(shape: Sequence[Expression]) -> Iterator[Expression]:
    """Products of two and more axes, that of all first."""
    if len(shape) < 2:
        return
    yield _product(shape)
    if len(shape) <= _MAX_AXES:
        for count in range(len(shape) - 1, 1, -1):
            for chosen in itertools.combinations(shape, count):
                yield _product(chosen)


def _product(factors: Sequence[Expression]) -> Expression:
    made = factors[0]
    for f in factors[1:]:
        made = made * f
    return made


def _linear(values: Vector, e: Expression, vector: Vector) -> Iterator[Expression]:
    """`p*e + q`."""
    slope = _slope(values, vector)
    if slope is not None and slope.denominator == 1:
        p = int(slope)
        q = values[0] - p * vector[0]
        if all(v == p * a + q for v, a in zip(values, vector, strict=True)):
            yield e * p + q


def _slope(values: Vector, vector: Vector) -> Fraction | None:
    """How much faster the values grow than the vector, from its least to its greatest item."""
    low, high = (f(range(len(vector)), key=vector.__getitem__) for f in (min, max))
    if vector[low] == vector[high]:
        return None
    return Fraction(values[high] - values[low], vector[high] - vector[low]) or None


def _bounded(values: Vector, e: Expression, vector: Vector) -> Iterator[Expression]:
    """`min(e, c)` and `max(e, c)`."""
    for fn, bound in (("min", max(values)), ("max", min(values))):
        pick = min if fn == "min" else max
        if all(v == pick(a, bound) for v, a in zip(values, vector, strict=True)):
            yield combine(fn, e, number(bound))


def _quotient(values: Vector, e: Expression, vector: Vector) -> Iterator[Expression]:
    """`(p*e + q) // r`, with the least r; of the offsets that fit, 0 and r - 1 come first."""
    slope = _slope(values, vector)
    if slope is None:
        return
    for r in range(2, _MAX_DIVISOR + 1):
        p = round(slope * r)
        if p == 0 or math.gcd(p, r) != 1:
            continue
        least = max(r * v - p * a for v, a in zip(values, vector, strict=True))
        most = min(r * v - p * a + r - 1 for v, a in zip(values, vector, strict=True))
        if least <= most:
            q = next((x for x in (0, r - 1) if least <= x <= most), least)
            yield (e * p + q) // r
