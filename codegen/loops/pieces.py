"""Where the conditions of a loop change, and what is one plain load between two such places.

A roll, a padding or a concatenation asks each element's index which part it falls into. Such a condition compares the
loop's variable with a number that stays, and so it changes at one place: between two of these places, in a *piece* of
the loop, it is a constant, and what is chosen by it is the same for the whole piece. Where all alternatives of a choice
are elements that follow each other in memory, the choice is one of addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn

from . import walk
from .analysis import Dependencies, changes, stride
from .ir import Load, Loop, LoopVar

_COMPLEMENT: Final = {Fn.LT: Fn.GE, Fn.GE: Fn.LT, Fn.GT: Fn.LE, Fn.LE: Fn.GT, Fn.EQ: Fn.NE, Fn.NE: Fn.EQ}
_MIRRORED: Final = {Fn.LT: Fn.GT, Fn.GT: Fn.LT, Fn.LE: Fn.GE, Fn.GE: Fn.LE, Fn.EQ: Fn.EQ, Fn.NE: Fn.NE}


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives that all are elements next to each other in memory, or one value for all.

    `order` has the choice's own expressions, operands first; the last is the choice. `total` says that always one of
    the elements is meant, never a value.
    """

    order: tuple[Expr, ...]
    stride: int
    total: bool

    @property
    def root(self) -> Expr:
        """What is chosen."""
        return self.order[-1]


@dataclass(frozen=True, slots=True)
class Pieces:
    """How a loop falls into pieces.

    A piece ends at the latest where one of `borders` is, which are in terms of the loop's variable and the same
    wherever they are computed. `constant` are the outermost expressions that depend on the variable and are the same
    throughout a piece.
    """

    borders: tuple[Expr, ...]
    constant: tuple[Expr, ...]
    choices: tuple[Choice, ...]


def pieces_of(loop: Loop, deps: Dependencies) -> Pieces | None:
    """The pieces of an innermost loop; `None` where there is nothing to gain."""
    if any(isinstance(s, Loop) for s in loop.body):
        return None
    found = _Finder(loop, deps).pieces()
    return found if found.constant or found.choices else None


class _Finder:
    def __init__(self, loop: Loop, deps: Dependencies) -> None:
        self.var = loop.var
        roots = [e for s in loop.body for e in walk.expressions(s)]
        moving, itself, self.roots = changes(loop), {("loop", loop.var.name)}, roots
        self.steady: set[Expr] = set()  # the same in the whole loop
        self.constant: set[Expr] = set()  # the same in a piece
        self.strides: dict[Expr, int] = {}  # of choices
        self.known: dict[Expr, int | None] = {}  # how far indices move
        self.borders: dict[Expr, None] = {}
        for e in walk.postorder(roots):
            moved_by = deps.of(e) & moving
            if not moved_by:
                self.steady.add(e)
            elif moved_by == itself and (borders := _borders(e, self.var, self.known)):
                self.borders.update(dict.fromkeys(borders))
                self.constant.add(e)
            elif moved_by == itself and e.args and all(self.is_constant(a) for a in e.args):
                self.constant.add(e)
            elif step := self.stride(e):
                self.strides[e] = step

    def is_constant(self, e: Expr) -> bool:
        return e in self.steady or e in self.constant

    def stride(self, e: Expr) -> int | None:
        """1 or -1 for a choice, and for an element that may be part of one."""
        if isinstance(e, Load):
            step = stride(e.args[0], self.var, self.known) if all(self.is_constant(a) for a in e.args[1:]) else None
            return step if step in (1, -1) else None
        if e.fn is not Fn.SELECT or not self.is_constant(e.args[0]):
            return None
        steps = {self.strides.get(a) for a in e.args[1:] if not self.is_constant(a)}
        return steps.pop() if len(steps) == 1 else None

    def pieces(self) -> Pieces:
        constant: dict[Expr, None] = {}
        choices: dict[Expr, None] = {}
        seen: set[Expr] = set()
        stack = self.roots[::-1]
        while stack:
            e = stack.pop()
            if e in seen or e in self.steady:
                continue
            seen.add(e)
            if e in self.constant:
                constant[e] = None
            elif e in self.strides and len(e.args) > 1:
                choices[e] = None
            else:
                stack += e.args[::-1]
        return Pieces(tuple(self.borders), tuple(constant), tuple(map(self.choice, choices)))

    def choice(self, root: Expr) -> Choice:
        """The choice at `root`, with what remains to be asked once all its own conditions have been followed."""
        order = [e for e in walk.postorder([root]) if e in self.strides]
        own, stack = {root}, [root]
        while stack:
            e = stack.pop()
            if e.fn is Fn.SELECT:
                more = [a for a in e.args[1:] if a in self.strides and a not in own]
                own.update(more)
                stack += more
        order = [e for e in order if e in own]
        asked: dict[Expr, frozenset[Expr] | None] = {}
        for e in order:
            asked[e] = _asked(e, asked)
        return Choice(tuple(order), self.strides[root], asked[root] == frozenset())


def _asked(e: Expr, asked: dict[Expr, frozenset[Expr] | None]) -> frozenset[Expr] | None:
    """Conditions under which surely an element is meant; `None` where there are none such."""
    if isinstance(e, Load):
        return _all_of(e.args[1]) if len(e.args) == 3 else frozenset()
    first, second = asked.get(e.args[1]), asked.get(e.args[2])
    if first is None or second is None:
        return None
    return (first - _all_of(e.args[0])) | (second - _all_of_not(e.args[0]))


def _all_of(condition: Expr) -> frozenset[Expr]:
    """Conditions that all hold where `condition` does."""
    found, stack = {condition}, [condition]
    while stack:
        e = stack.pop()
        if e.fn is Fn.AND:
            stack += [a for a in e.args if a not in found]
            found.update(e.args)
    return frozenset([e for e in found if e.fn is not Fn.AND])


def _all_of_not(condition: Expr) -> frozenset[Expr]:
    """Conditions that all hold where `condition` does not."""
    if condition.fn in _COMPLEMENT and condition.args[0].dtype is dtypes.int64:
        return frozenset({scalar.apply(_COMPLEMENT[condition.fn], *condition.args)})
    return frozenset()


def _borders(condition: Expr, var: LoopVar, known: dict[Expr, int | None]) -> Sequence[Expr]:
    """The values of `var` from which on a comparison is another one, if there are one or two such places."""
    fn = condition.fn
    if fn not in _COMPLEMENT or condition.args[0].dtype is not dtypes.int64:
        return ()
    left, right = condition.args
    steps = stride(left, var, known), stride(right, var, known)
    if None in steps:
        return ()
    step = (steps[0] or 0) - (steps[1] or 0)
    if step not in (1, -1):
        return ()
    if step == -1:
        left, right, fn = right, left, _MIRRORED[fn]
    equal = var - (left - right)  # where both sides are equal
    if fn in (Fn.LT, Fn.GE):
        return (equal,)
    return (equal + 1,) if fn in (Fn.GT, Fn.LE) else (equal, equal + 1)


__all__ = ["Choice", "Pieces", "pieces_of"]
