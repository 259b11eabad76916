"""Where the memory of a choice's or a loop's inner plans is, step by step, in terms of the outer plan's places.

Inputs, outputs and the arena of an inner plan are its regions, in this order (it has no constants: `prepare` hands them
in). At iteration `t` of `n` a region starts at

    first                     if t is 0
    odd or even               as n - t is
    + t * stride              bytes further

so that slices of sequences move on, and a carry, which is written where the next iteration reads it, changes between
two places, of which the last iteration uses that of the result. A loop of unknown length counts as of length 0: its
results may have to be copied at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jitgrad.ir.control import Cond, Scan, WhileLoop
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Value

from .fuse.program import ControlStep
from .lower import Operand, nbytes_of
from .plan import Place, Plan


@dataclass(frozen=True, slots=True)
class Track:
    """Where a region of an inner plan is in each iteration."""

    first: Place
    odd: Place
    even: Place
    stride: int = 0

    def at(self, t: int, length: int) -> tuple[Place, int]:
        """Its place in iteration `t`, and the bytes to add."""
        place = self.first if t == 0 else self.odd if (length - t) % 2 else self.even
        return place, t * self.stride


@dataclass(frozen=True, slots=True)
class Inside:
    """An inner plan and the tracks of its regions."""

    plan: Plan
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """A result of a loop of unknown length: `track` is where the iteration after the last would read it."""

    track: Track
    place: Place
    nbytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What runs in a control step: for a scan, `length` iterations; `copies` are done in place of none."""

    inside: tuple[Inside, ...]
    length: int = 0
    copies: tuple[tuple[Operand, Place], ...] = ()
    carried: tuple[CarriedOut, ...] = ()


def layout_of(plan: Plan, step: ControlStep) -> Layout:
    """The layout of one step of `plan`."""
    made = _Layouts(plan, step)
    match step.node.op:
        case Scan() as op:
            return made.scan(op)
        case WhileLoop() as op:
            return made.while_loop(op)
        case Cond():
            return made.cond()
    raise InternalError(f"{step.node.op.name} is no control flow")


class _Layouts:
    def __init__(self, plan: Plan, step: ControlStep) -> None:
        self.plan = plan
        self.node = step.node
        self.inner = plan.inner[step]
        self.arena = self.fixed([self.inner.arena])

    def fixed(self, operands: Iterable[Operand]) -> list[Track]:
        """Regions that stay where they are."""
        return [Track(p, p, p) for p in map(self.plan.place, operands)]

    def cond(self) -> Layout:
        """Both branches read the operands behind the first, and write the results."""
        tracks = (*self.fixed(self.node.operands[1:]), *self.fixed(self.node.results), *self.arena)
        return Layout(tuple(Inside(p, tracks) for p in self.inner.plans))

    def scan(self, op: Scan) -> Layout:
        """Carries change places, slices move."""
        operands, results = self.node.operands, self.node.results
        first = op.carries + op.sequences
        length = operands[op.carries].type.shape[0]
        before, after = self.carries(operands[: op.carries], length)
        slices = [self.slices(v, length, op.reverse) for v in operands[op.carries : first]]
        stacks = [self.slices(v, length, op.reverse) for v in results[op.carries :]]
        tracks = (*before, *slices, *self.fixed(operands[first:]), *after, *stacks, *self.arena)
        copies = zip(operands[: op.carries], map(self.plan.place, results[: op.carries]))
        return Layout((Inside(self.inner.plans[0], tracks),), length, tuple(copies))

    def while_loop(self, op: WhileLoop) -> Layout:
        """The condition reads what the body reads."""
        operands, results = self.node.operands, self.node.results
        before, after = self.carries(operands[: op.carries], 0)
        seen = (*before, *self.fixed(operands[op.carries :]))
        condition = Inside(self.inner.plans[0], (*seen, *self.fixed([self.inner.outcome]), *self.arena))
        body = Inside(self.inner.plans[1], (*seen, *after, *self.arena))
        carried = [CarriedOut(t, self.plan.place(v), nbytes_of(v)) for t, v in zip(before, results)]
        return Layout((condition, body), 0, (), tuple(carried))

    def carries(self, operands: Sequence[Value], length: int) -> tuple[list[Track], list[Track]]:
        """Where carries are read, and where they are written: in the result's place if `length - t` is odd."""
        before, after = [], []
        for operand, result, other in zip(operands, self.node.results, self.inner.others):
            start, last = self.plan.place(operand), self.plan.place(result)
            between = self.plan.place(other)
            before.append(Track(start, between, last))
            after.append(Track(last if length % 2 else between, last, between))
        return before, after

    def slices(self, value: Value, length: int, reverse: bool) -> Track:
        """A sequence or a stack, from the first slice on or from the last one back."""
        place = self.plan.place(value)
        nbytes = nbytes_of(value) // max(1, length)
        if reverse:
            place = Place(place.region, place.index, place.offset + nbytes * max(0, length - 1))
        return Track(place, place, place, -nbytes if reverse else nbytes)
