"""Transposed values whose rows are gone through more than once: they are turned first, by a kernel of their own.

A row kernel that reads a transposed matrix along its rows goes from line to line of memory with every element, and does
so again in each phase. Turning is one pass in squares, after which rows are rows. Where a transposed value is only
folded, nothing is turned: the fold goes along memory (`lower/column.py`). The graph alone decides, never a length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import Pointwise, Reduction
from jitgrad.ir.ops.shape import Permute

from .classify import Kind

_LOOPS: Final = (Kind.INLINE, Kind.REDUCE, Kind.ALIAS)
_MOST: Final = 100  # nodes looked at: what is farther away has memory of its own


def is_turned(
    value: Value, kinds: Mapping[Node, Kind], users: Mapping[Value, Sequence[Node]], in_memory: Callable[[Node], bool]
) -> bool:
    """Whether a value is a transposition whose rows are folded in several phases, or folded and written.

    `in_memory` tells of maps whose results are not computed where they are used.
    """
    op = value.node.op if value.node is not None else None
    if value.node is None or not isinstance(op, Permute) or not op.perm or op.perm[-1] == len(op.perm) - 1:
        return False
    lies_last = op.perm.index(len(op.perm) - 1)
    readers = _reached([value], users)
    folds = [n for n in readers if _folds_rows(n, lies_last)]
    if not folds:
        return False
    maps = [n for n in readers if isinstance(n.op, Pointwise)]
    if any(in_memory(n) for n in (value.node, *maps)):
        return True
    after = _reached([n.result for n in folds], users, kinds)
    return any(n in after for n in folds)


def _folds_rows(node: Node, lies_last: int) -> bool:
    """Whether a node reduces the last axis and keeps the one that lies last in memory."""
    op = node.op
    return isinstance(op, Reduction) and len(node.operands[0].shape) - 1 in op.axes and lies_last not in op.axes


def _reached(
    values: Iterable[Value], users: Mapping[Value, Sequence[Node]], kinds: Mapping[Node, Kind] | None = None
) -> dict[Node, None]:
    """The nodes that come from `values`: through pointwise ops, or with `kinds`, through all that kernels compute."""
    found: dict[Node, None] = {}
    waiting = deque(values)
    while waiting and len(found) < _MOST:
        for node in users[waiting.popleft()]:
            if node not in found:
                found[node] = None
                if isinstance(node.op, Pointwise) if kinds is None else kinds[node] in _LOOPS:
                    waiting += node.results
    return found
