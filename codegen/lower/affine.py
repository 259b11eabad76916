"""Addresses as affine forms: sums of coefficient times variable, where coefficients are structure or run-time numbers.

A coefficient is either a literal of the kernel's structure (0, 1, ...) or a run-time number with a key that says
where it comes from. Two run-time numbers with the same key are equal at every shape; keys never depend on values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.scalar import Const, Expr, Fn
from jitgrad.ir.tracked import Tracked

from ..loops.ir import LoopVar


@dataclass(frozen=True, slots=True)
class Coefficient:
    """An int64. `key` is `None` for a literal, which is part of the kernel's text."""

    value: int
    key: Hashable = None

    def is_literal(self, number: int) -> bool:
        """Whether it is `number` in the kernel's text."""
        return self.key is None and self.value == number

    def __add__(self, other: Coefficient) -> Coefficient:
        if self.key is None and other.key is None:
            return Coefficient(self.value + other.value)
        if self.is_literal(0):
            return other
        if other.is_literal(0):
            return self
        return Coefficient(self.value + other.value, ("+", _name(self), _name(other)))

    def __mul__(self, other: Coefficient) -> Coefficient:
        if self.key is None and other.key is None:
            return Coefficient(self.value * other.value)
        if self.is_literal(0) or other.is_literal(0):
            return Coefficient(0)
        if self.is_literal(1):
            return other
        if other.is_literal(1):
            return self
        return Coefficient(self.value * other.value, ("*", _name(self), _name(other)))


def _name(c: Coefficient) -> Hashable:
    return ("literal", c.value) if c.key is None else c.key


LITERAL_ZERO = Coefficient(0)
LITERAL_ONE = Coefficient(1)
LITERAL_MINUS_ONE = Coefficient(-1)


@dataclass(slots=True)
class Affine:
    """`constant + sum(coefficient * term)`. Terms are loop variables, or expressions that are not affine."""

    terms: dict[Expr, Coefficient] = field(default_factory=dict)
    constant: Coefficient = LITERAL_ZERO

    def add(self, other: Affine, factor: Coefficient = LITERAL_ONE) -> None:
        """Add `factor * other`."""
        for term, c in other.terms.items():
            self.terms[term] = self.terms.get(term, LITERAL_ZERO) + c * factor
        self.constant = self.constant + other.constant * factor

    @property
    def is_constant(self) -> bool:
        """Whether there is no term."""
        return not self.terms


def affine_of(expr: Expr, opaque: Callable[[Expr], Expr]) -> Affine:
    """The affine form of an int64 expression; `opaque` finishes the parts that are not affine."""
    if isinstance(expr, Const):
        value: Any = expr.value if isinstance(expr.value, Tracked) else int(expr.value)
        return Affine({}, Coefficient(value, ("number", value) if expr.runtime else None))
    if isinstance(expr, LoopVar):
        return Affine({expr: LITERAL_ONE})
    if expr.dtype is dtypes.int64 and expr.fn in (Fn.ADD, Fn.SUB, Fn.MUL, Fn.NEG):
        parts = [affine_of(a, opaque) for a in expr.args]
        found = _combine(expr.fn, parts)
        if found is not None:
            return found
    return Affine({opaque(expr): LITERAL_ONE})


def _combine(fn: Fn, parts: Sequence[Affine]) -> Affine | None:
    total = Affine()
    if fn is Fn.MUL:
        a, b = parts
        if a.is_constant:
            a, b = b, a
        if not b.is_constant:
            return None
        total.add(a, b.constant)
        return total
    total.add(parts[0], LITERAL_MINUS_ONE if fn is Fn.NEG else LITERAL_ONE)
    if len(parts) > 1:
        total.add(parts[1], LITERAL_MINUS_ONE if fn is Fn.SUB else LITERAL_ONE)
    return total
