"""What is costly and needed in two phases of a row group: computed in the first, kept where a later one stores.

    for each row:
        sum += e(x), y = e(x)
        y = y / sum

The result's own memory holds it in between: no more is touched than would be anyway, and a row of it stays in cache.
Where that has another dtype, or is an operand's, a tile holds it, unless rows are long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from jitgrad.ir.scalar import MATH, Expr

from ..fuse.classify import cost
from ..fuse.element import walk
from ..fuse.roots import Root
from .group_lowering import GroupLowering
from .kernel_builder import Tile
from .phases import Phases

_COSTLY: Final = 12
HELD: Final = 4096  # elements of a row that a tile may hold: less than a core's first cache


@dataclass(frozen=True, slots=True)
class Kept:
    """`expr`, held by a tile or the memory of `root` until that is stored."""

    root: Root
    expr: Expr
    tile: Tile | None = None


Keeping: TypeAlias = Mapping[int, Sequence[Kept]]
"""What each phase keeps."""


def kept_values(lowering: GroupLowering, phases: Phases, *, tiles: bool) -> Keeping:
    """By phase, what is to be kept there, at most one expression by result; with `tiles`, in tiles too.

    The memory of a result that takes over an operand's keeps nothing: the operand may still be read.
    """
    computed: dict[Expr, int] = {}
    for root in sorted(lowering.reductions, key=phases.phase):
        for e in walk(lowering.expression(root)):
            computed.setdefault(e, phases.phase(root))
    found: defaultdict[int, list[Kept]] = defaultdict(list)
    for root in lowering.full_stores:
        last = phases.phase(root)
        shared = [e for e in walk(lowering.expression(root)) if computed.get(e, last) < last and _is_costly(e)]
        own = [] if root.value in lowering.in_place else [e for e in shared if e.dtype is root.value.type.dtype]
        if own:
            best = max(own, key=cost)
            found[computed[best]].append(Kept(root, best))
        elif shared and tiles:
            best = max(shared, key=cost)
            found[computed[best]].append(Kept(root, best, Tile(best.dtype, HELD)))
    return found


def _is_costly(e: Expr) -> bool:
    return e.fn is not None and cost(e) >= _COSTLY and any(p.fn in MATH for p in walk(e))
