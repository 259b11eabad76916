"""Loops over an index space, with neighbouring axes merged where every access lets them.

Two axes merge if each element read or written moves along both as along one, or along neither. Lengths play no part but
for telling a whole axis from a piece of it, so that the loops of a kernel stay the same from shape to shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from jitgrad.ir.scalar import Expr
from jitgrad.ir.tracked import always_equal
from jitgrad.ir.types import Shape

from ..fuse.element import Element
from ..loops.ir import LoopVar

ShapeOf = Callable[[int], Shape]


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: it runs through `extent` values of `var`, the last of the merged `variables`."""

    variables: tuple[LoopVar, ...]
    extent: int

    @property
    def var(self) -> LoopVar:
        """The variable that counts; the others are part of it."""
        return self.variables[-1]

    @property
    def merged(self) -> tuple[LoopVar, ...]:
        """The variables that have no loop of their own."""
        return self.variables[:-1]


@dataclass(slots=True)
class Uses:
    """How variables occur: `plain` are entries of indices as (variable -> position), `bound` occur otherwise."""

    plain: list[tuple[dict[LoopVar, int], Shape]] = field(default_factory=list)
    bound: set[LoopVar] = field(default_factory=set)


def uses_of(expressions: Iterable[Expr], shape_of: ShapeOf) -> Uses:
    """The uses of loop variables in all of `expressions`."""
    uses, seen = Uses(), set[Expr]()
    stack = list(expressions)
    while stack:
        expr = stack.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, LoopVar):
            uses.bound.add(expr)
        elif isinstance(expr, Element):
            stack.extend(_entries(expr, uses, shape_of(expr.number)))
        else:
            stack.extend(expr.args)
    return uses


def _entries(expr: Element, uses: Uses, shape: Shape) -> list[Expr]:
    """Note the plain entries of an index; what is left to look at."""
    positions: dict[LoopVar, int] = {}
    rest: list[Expr] = list(expr.args[len(expr.index) :])
    for place, entry in enumerate(expr.index):
        if isinstance(entry, LoopVar) and entry not in positions:
            positions[entry] = place
        else:
            rest.append(entry)
    uses.plain.append((positions, shape))
    return rest


def merge_axes(axes: Sequence[tuple[LoopVar, int]], uses: Uses) -> list[Axis]:
    """The loops over `axes` (variable and length, outermost first), merged where possible."""
    loops: list[Axis] = []
    for var, extent in axes:
        if loops and _may_merge(loops[-1].var, var, extent, uses):
            last = loops.pop()
            loops.append(Axis((*last.variables, var), last.extent * extent))
        else:
            loops.append(Axis((var,), extent))
    return loops


def _may_merge(outer: LoopVar, inner: LoopVar, extent: int, uses: Uses) -> bool:
    if outer in uses.bound or inner in uses.bound:
        return False
    for positions, shape in uses.plain:
        p, q = positions.get(outer), positions.get(inner)
        if p is None and q is None:
            continue
        if p is None or q is None or q != p + 1 or not always_equal(shape[q], extent):
            return False
    return True
