"""What is costly and needed in two phases of a row group: computed in the first, kept where a later one stores.

    for each row:
        sum += e(x), y = e(x)
        y = y / sum

The result's own memory holds it in between: no more is touched than would be anyway, and a row of it stays in cache.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from jitgrad.ir.scalar import MATH, Expr

from ..fuse.classify import cost
from ..fuse.element import walk
from ..fuse.roots import Root
from .group_lowering import GroupLowering
from .phases import Phases

_COSTLY: Final = 12


@dataclass(frozen=True, slots=True)
class Kept:
    """`expr`, held by the memory of `root` until that is stored."""

    root: Root
    expr: Expr


def kept_values(lowering: GroupLowering, phases: Phases) -> dict[int, list[Kept]]:
    """By phase, what is to be kept there; at most one expression by result.

    A result that takes over an operand's memory keeps nothing: the operand may still be read.
    """
    computed: dict[Expr, int] = {}
    for root in sorted(lowering.reductions, key=phases.phase):
        for e in walk(lowering.expression(root)):
            computed.setdefault(e, phases.phase(root))
    found: defaultdict[int, list[Kept]] = defaultdict(list)
    for root in lowering.full_stores:
        if root.value in lowering.in_place:
            continue
        dtype, last = root.value.type.dtype, phases.phase(root)
        shared = [e for e in walk(lowering.expression(root)) if e.dtype is dtype and computed.get(e, last) < last]
        costly = [e for e in shared if e.fn is not None and cost(e) >= _COSTLY and any(p.fn in MATH for p in walk(e))]
        if costly:
            best = max(costly, key=cost)
            found[computed[best]].append(Kept(root, best))
    return found
