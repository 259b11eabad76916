"""Choices and loops on a device: the host goes through the iterations and launches the inner plans' steps.

A scan needs nothing from the device on its way, so that all its launches may become part of one CUDA graph. Where a
condition decides, the host waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jitgrad.ir.control import Scan, WhileLoop

from ..control import CarriedOut, Inside, Layout, Track, layout_of
from ..fuse.program import ControlStep
from ..lower import nbytes_of
from ..plan import Plan
from .library import RunInLibrary
from .runtime.gpu import Gpu
from .steps import Pointers, Regions, RunOnHost, Spot, Step

StepsOf = Callable[[Plan], Sequence[Step]]
Spots = tuple[Spot, Spot, Spot, int]  # of a track: at first, at odd and at even distances, bytes to go on by


@dataclass(frozen=True, slots=True)
class InnerSteps:
    """An inner plan's steps, and where its regions are."""

    steps: tuple[Step, ...]
    tracks: tuple[Spots, ...]

    @classmethod
    def of(cls, inside: Inside, regions: Regions, steps_of: StepsOf) -> InnerSteps:
        """Those of one inner plan."""
        return cls(tuple(steps_of(inside.plan)), tuple(_spots(t, regions) for t in inside.tracks))

    @property
    def waits(self) -> bool:
        """Whether the host takes part."""
        return any(map(waits, self.steps))

    def run(self, g: Gpu, pointers: Pointers, stream: int, t: int = 0, length: int = 0) -> None:
        """All steps of iteration `t`."""
        inner = tuple(self.at(k, pointers, t, length) for k in range(len(self.tracks)))
        for step in self.steps:
            step.run(g, inner, stream)

    def at(self, k: int, pointers: Pointers, t: int, length: int) -> int:
        """Where region `k` is in iteration `t`."""
        first, odd, even, stride = self.tracks[k]
        region, offset = first if t == 0 else odd if (length - t) % 2 else even
        return pointers[region] + offset + t * stride


def _spots(track: Track, regions: Regions) -> Spots:
    first, odd, even = (regions.spot_of(p) for p in (track.first, track.odd, track.even))
    return first, odd, even, track.stride


def waits(step: Step) -> bool:
    """Whether the host has to wait for the device in a step, which then can't be part of a CUDA graph."""
    return isinstance(step, RunOnHost | RunInLibrary) or bool(getattr(step, "waits", False))


@dataclass(frozen=True, slots=True)
class ScannedSteps:
    """A scan: `length` iterations, or `copies` (target, source, bytes) in place of none."""

    inner: InnerSteps
    length: int
    copies: tuple[tuple[Spot, Spot, int], ...]
    waits: bool

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """One iteration after another."""
        for t in range(self.length):
            self.inner.run(g, pointers, stream, t, self.length)
        for target, source, nbytes in () if self.length else self.copies:
            _copy(g, _at(pointers, target), _at(pointers, source), nbytes, stream)


@dataclass(frozen=True, slots=True)
class RepeatedSteps:
    """A loop that goes on while a condition, which the host fetches, holds."""

    condition: InnerSteps
    body: InnerSteps
    outcome: int
    carried: tuple[tuple[Spot, int], ...]
    waits: bool = True

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """One iteration after another; then carries are brought to where the results are expected."""
        t = 0
        while True:
            self.condition.run(g, pointers, stream, t)
            if not _fetch(g, self.condition.at(self.outcome, pointers, t, 0), stream):
                break
            self.body.run(g, pointers, stream, t)
            t += 1
        for k, (target, nbytes) in enumerate(self.carried):
            source = self.condition.at(k, pointers, t, 0)
            if source != _at(pointers, target):
                _copy(g, _at(pointers, target), source, nbytes, stream)


@dataclass(frozen=True, slots=True)
class ChosenSteps:
    """One of two inner plans, by a predicate that the host fetches."""

    predicate: Spot
    branches: tuple[InnerSteps, ...]
    waits: bool = True

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """The branch that is taken."""
        self.branches[0 if _fetch(g, _at(pointers, self.predicate), stream) else 1].run(g, pointers, stream)


def control_step(plan: Plan, step: ControlStep, steps_of: StepsOf) -> Step:
    """A choice or a loop of `plan`, ready to run."""
    layout, regions = layout_of(plan, step), Regions.of(plan)
    inner = tuple(InnerSteps.of(x, regions, steps_of) for x in layout.inside)
    match step.node.op:
        case Scan():
            return ScannedSteps(inner[0], layout.length, _copies(layout, regions), inner[0].waits)
        case WhileLoop():
            carried = tuple(_carried(x, regions) for x in layout.carried)
            return RepeatedSteps(inner[0], inner[1], len(step.node.operands), carried)
    return ChosenSteps(regions.spot(step.node.operands[0]), inner)


def _copies(layout: Layout, regions: Regions) -> tuple[tuple[Spot, Spot, int], ...]:
    return tuple((regions.spot_of(p), regions.spot(v), nbytes_of(v)) for v, p in layout.copies)


def _carried(x: CarriedOut, regions: Regions) -> tuple[Spot, int]:
    return regions.spot_of(x.place), x.nbytes


def _at(pointers: Pointers, spot: Spot) -> int:
    return pointers[spot[0]] + spot[1]


def _copy(g: Gpu, target: int, source: int, nbytes: int, stream: int) -> None:
    if nbytes:
        g.runtime.on_device(target, source, nbytes, stream)


def _fetch(g: Gpu, address: int, stream: int) -> bool:
    """A bool on the device."""
    found = np.empty((), np.bool_)
    g.runtime.to_host(found, address, stream, True)
    return bool(found)
