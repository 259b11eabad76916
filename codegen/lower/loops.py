"""Loops around statements: which are parallel, which become vectors, under which names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr

from ..loops.ir import Loop, LoopVar, Stmt, loop_var
from .kernel_builder import KernelBuilder
from .nest import Axis

PARALLEL: Final = "parallel"
VECTOR: Final = "vector"
SERIAL: Final = "serial"
TASK: Final = loop_var("t")  # the variable of parallel loops that have been put together


@dataclass(frozen=True, slots=True)
class Header:
    """A loop without its body."""

    var: LoopVar
    start: Expr
    stop: Expr
    kind: str

    def around(self, body: Sequence[Stmt]) -> Loop:
        """The loop."""
        return Loop(self.var, self.start, self.stop, tuple(body), self.kind)


def nest(headers: Sequence[Header], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """`body` inside all the loops, the first outermost."""
    stmts = tuple(body)
    for header in reversed(headers):
        stmts = (header.around(stmts),)
    return stmts


def counted(b: KernelBuilder, axes: Sequence[Axis], prefix: str, kind: str = SERIAL) -> list[Header]:
    """One loop per axis over its whole length; the last is of `kind`."""
    headers = []
    for n, axis in enumerate(axes):
        var = loop_var(f"{prefix}{n}")
        b.place[axis.var] = var
        last = n == len(axes) - 1
        headers.append(Header(var, scalar.const(0), b.extent(axis), kind if last else SERIAL))
    return headers


def parallel(b: KernelBuilder, axes: Sequence[Axis], inner: int, flat: bool) -> tuple[list[Header], int]:
    """Loops over `axes`, the outermost parallel, and its length. `inner` is how many loops will be inside.

    `flat` makes one loop of them all. Without it:

    Deep nests run their two outermost axes as one loop, so that there is enough to share out where the first is short;
    flatter ones don't, because finding the place of each iteration would cost too much.
    """
    if not axes:
        return [], 1
    if flat and len(axes) > 1:
        b.split(TASK, axes)
        b.flat = tuple(v for a in axes for v in a.variables), TASK
        kind = PARALLEL if inner else f"{PARALLEL}_{VECTOR}"
        return [Header(TASK, scalar.const(0), b.length(axes), kind)], math.prod(a.extent for a in axes)
    if len(axes) < 2 or len(axes) + inner < 3:
        first, rest = _first(b, axes[0], len(axes) + inner == 1), axes[1:]
        extent = axes[0].extent
    else:
        b.split(TASK, axes[:2])
        first, rest = Header(TASK, scalar.const(0), b.length(axes[:2]), PARALLEL), axes[2:]
        extent = math.prod(a.extent for a in axes[:2])
    return [first, *counted(b, rest, "i", SERIAL if inner else VECTOR)], extent


def _first(b: KernelBuilder, axis: Axis, alone: bool) -> Header:
    b.place[axis.var] = TASK
    return Header(TASK, scalar.const(0), b.extent(axis), f"{PARALLEL}_{VECTOR}" if alone else PARALLEL)


def stretch(b: KernelBuilder, axis: Axis, name: str, block: Expr, length: Expr, kind: str) -> Header:
    """A loop over block number `block` of an axis cut into blocks of `length`."""
    var = loop_var(name)
    b.place[axis.var] = var
    start = block * length
    return Header(var, start, scalar.minimum(start + length, b.extent(axis)), kind)
