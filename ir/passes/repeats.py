"""Where a list of nodes repeats itself: stretches that are the same again and again, as loops of Python leave them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..graph import Node
from ..op import Array
from ..ops.creation import Full
from ..ops.slicing import Slice
from ..ops.write import WriteView

_KEYS: Final = 8  # kinds of nodes whose distances are looked at
_OCCURRENCES: Final = 4  # in one turn, of such a kind


class Repeat(NamedTuple):
    """`turns` stretches of `period` nodes each, from node `start` on."""

    start: int
    period: int
    turns: int


def find_repeats(nodes: Sequence[Node], least_turns: int) -> list[Repeat]:
    """Candidates, what covers most first; whether their turns are wired alike is not looked at."""
    numbers: dict[Hashable, int] = {}
    kinds = np.array([numbers.setdefault(kind_of(n), len(numbers)) for n in nodes])
    found: dict[Repeat, None] = {}
    for period in _periods(kinds, least_turns):
        same = kinds[:-period] == kinds[period:]
        for start, length in _runs(same):
            turns = length // period + 1
            if turns >= least_turns:
                found[Repeat(start, period, turns)] = None
    return sorted(found, key=lambda r: (-r.period * r.turns, r.period))


def kind_of(node: Node) -> Hashable:
    """What the nodes of all turns have in common: all but where slices start, and what fills a value."""
    op = node.op
    what: Hashable = op
    if isinstance(op, Slice):
        what = (Slice, op.sizes, op.steps)
    elif isinstance(op, Full):
        what = (Full, op.shape, op.dtype)
    elif isinstance(op, WriteView) and len(op.views) == 1 and isinstance(op.views[0], Slice):
        what = (WriteView, op.views[0].sizes, op.views[0].steps)
    return what, tuple(v.type for v in node.operands), tuple(r.type for r in node.results)


def _periods(kinds: Array, least_turns: int) -> Iterator[int]:
    """Distances at which rare kinds come again and again."""
    places: dict[int, list[int]] = defaultdict(list)
    for i, kind in enumerate(kinds.tolist()):
        places[kind].append(i)
    often = sorted((p for p in places.values() if len(p) >= least_turns), key=len)
    seen = set()
    for at in often[:_KEYS]:
        for m in range(1, _OCCURRENCES + 1):
            gaps = Counter((np.array(at[m:]) - np.array(at[:-m])).tolist()).most_common(2)
            for gap, count in gaps:
                if count >= least_turns - 1 and gap * least_turns <= len(kinds) and gap not in seen:
                    seen.add(gap)
                    yield gap


def _runs(same: Array) -> list[tuple[int, int]]:
    """Starts and lengths of the longest stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    pairs = [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return sorted(pairs, key=lambda p: -p[1])[:3]
