"""The short way backward: a plain tape in host memory whose structure was seen before, gone through once.

One pass from the roots checks what was saved, writes down the structure and numbers the leaves; a table then says
which saved arrays the plan takes and whose its results are. What it can't take, and every first time, is left to
`engine` and `whole`, which mean the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..backend import native_form
from ..fast_path import NOTHING
from ..memo import Memo
from ..tape import TapeNode
from ..tensor import Tensor
from . import whole

_ndarray = np.ndarray
_NUMBERS = (float, int, bool)
_SMALL = 16384  # elements that come and go; above, threads may help
_UNWRITTEN = itertools.repeat(0)


class _Route:
    """Where a plan's inputs are on a tape, as (node, slot, dtype, shape), and the numbers of its results' leaves."""

    __slots__ = ("entry", "inputs", "is_small", "leaves", "native")

    def __init__(self, entry: whole.Entry, tape: _Tape, edges: Sequence[Any]) -> None:
        last = len(tape.nodes) - 1  # `whole` has the oldest node first
        plan = entry.plan
        self.entry = entry
        self.inputs = tuple(
            [
                (last - i, slot, v.type.dtype.np, v.type.shape)
                for (i, slot), v in zip(plan.residuals, plan.graph.inputs, strict=False)
            ]
        )
        self.is_small = sum([v.type.numel for v in (*plan.graph.inputs, *plan.graph.outputs)]) <= _SMALL
        self.native: Any = None  # the executable of a small plan, called the shortest way
        numbers = {id(leaf): k for k, leaf in enumerate(tape.leaves)}
        self.leaves = tuple([numbers[id(e)] for e, flows in zip(edges, plan.flows, strict=True) if flows])


_routes: Memo[_Route] = Memo(limit=512)


class _Tape:
    """What is behind some roots: nodes from the youngest on, leaves in the order met, and the structure as a key."""

    __slots__ = ("key", "leaves", "nodes", "written")

    def __init__(self) -> None:
        self.nodes: list[TapeNode] = []
        self.leaves: list[Tensor] = []
        self.written = False  # whether what two nodes saved of one value may differ
        self.key: tuple[Any, ...] = ()


def _is_current(node: TapeNode, tape: _Tape) -> bool:
    """Whether nothing that a node has saved was written to since."""
    for owner, version in zip(node.owners, node.versions or _UNWRITTEN, strict=False):
        if owner is not None:
            if owner._version != version:
                return False
            if version:
                tape.written = True
    return True


def _outside(node: TapeNode, i: int) -> Any:
    """What tells the type of an operand that has no edge."""
    data = node.saved[i]
    if data is None or data.__class__ in _NUMBERS:
        return None if node.types is None else node.types[i]
    return data.shape, data.dtype


def _scan(roots: Sequence[Any]) -> _Tape | None:
    """The tape behind `roots`, which are edges of nodes; None where it is not plain."""
    tape = _Tape()
    nodes = tape.nodes
    numbers: dict[Any, int] = {}  # nodes, and leaves by their identity
    parts: list[Any] = []
    add = parts.append
    heap = _start(roots, numbers, parts)
    while heap:
        _, number, node = heappop(heap)
        nodes.append(node)
        add(number)  # nodes come by age, not in the order they were met in
        saved = node.saved
        if saved is None or node.hooks is not None or (saved is not NOTHING and not _is_current(node, tape)):
            return None
        add(node.op)
        kept = node.kept
        if kept is None:
            tape.written = True
            kept = tuple([x is not None for x in saved])
        add(kept)
        for i, e in enumerate(node.edges):
            if e is None:
                add(_outside(node, i))
                continue
            made_by = e
            if e.__class__ is tuple:
                made_by, index = e
                add(-1 - index)  # no number of a node
            if made_by.__class__ is not TapeNode:
                if not _add_leaf(e, saved[i], numbers, tape, parts):
                    return None
                continue
            found = numbers.get(made_by)
            if found is None:
                found = numbers[made_by] = len(numbers)
                heappush(heap, (-made_by.seq, found, made_by))
            add(found)
    tape.key = tuple(parts)
    return tape if nodes else None


def _start(roots: Sequence[Any], numbers: dict[Any, int], parts: list[Any]) -> list[tuple[int, int, TapeNode]]:
    """The heap with the roots' nodes; empty if some root is a leaf."""
    heap: list[tuple[int, int, TapeNode]] = []
    for e in roots:
        node, index = e if e.__class__ is tuple else (e, 0)
        if node.__class__ is not TapeNode:
            return []
        if node not in numbers:
            numbers[node] = number = len(numbers)
            heappush(heap, (-node.seq, number, node))
        parts.append((numbers[node], index))
    return heap


def _add_leaf(leaf: Any, saved: Any, numbers: dict[Any, int], tape: _Tape, parts: list[Any]) -> bool:
    """Write down an edge to a leaf, of which `saved` was kept; False if it is none in host memory, or has hooks."""
    if not isinstance(leaf, Tensor) or leaf._hooks:  # type: ignore[attr-defined]
        return False
    if saved is not None and saved is not leaf._data:
        tape.written = True  # the leaf has got other memory since
    number = numbers.get(id(leaf))
    if number is None:
        data = leaf._data
        if data.__class__ is not _ndarray:
            return False
        numbers[id(leaf)] = number = len(numbers)
        tape.leaves.append(leaf)
        parts.append((data.shape, data.dtype))
    parts.append(number)
    return True


def _inputs(route: _Route, nodes: Sequence[TapeNode]) -> list[Any] | None:
    """What was saved and a plan takes; None if some of it is of another kind."""
    inputs = []
    for i, slot, dtype, shape in route.inputs:
        x = nodes[i].saved[slot]
        if x.__class__ is not _ndarray:
            if x.__class__ not in _NUMBERS:
                return None
            x = np.asarray(x, dtype)
        if x.shape != shape or x.dtype is not dtype:  # a leaf's type is another than it was when it was used
            return None
        inputs.append(x)
    return inputs


def run(roots: Sequence[Any], cotangents: Sequence[Any], retain: bool) -> list[tuple[Tensor, Any]] | None:
    """Leaves and their gradients, given the cotangents of the edges `roots`; None where the long way must be gone."""
    tape = _scan(roots)
    if tape is None or (tape.written and not whole.one_value_each(tape.nodes)):
        return None
    nodes, leaves = tape.nodes, tape.leaves
    route = _routes.get(tape.key)
    if route is None:
        oldest_first = nodes[::-1]
        if not whole.is_on_host(oldest_first, cotangents):
            return None
        entry, edges, is_new = whole.find(oldest_first, roots, None, cotangents)
        route = _routes.add(tape.key, _Route(entry, tape, edges))
    else:
        is_new = False
    inputs = _inputs(route, nodes)
    if inputs is None:
        return None
    for g in cotangents:
        if g.__class__ is not _ndarray:
            return None
    inputs += cotangents
    grads = None if route.native is None else route.native([*inputs])
    if grads is None:
        grads = whole.run_entry(route.entry, inputs, nodes, cotangents, is_new)
        if route.is_small and route.native is None and route.entry.executable is not None:
            route.native = native_form(route.entry.executable)
    else:
        whole.stats.replayed += 1
    if not retain:
        for node in nodes:
            if node.saved is not NOTHING:
                node.release()
    return list(zip([leaves[k] for k in route.leaves], grads, strict=True))
