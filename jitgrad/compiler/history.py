"""What a replay leaves on the tape, so that gradients flow through its results as through eager ones.

The captured graph is divided into *stages*: results that come from one another, or that share nothing, are results
of different tape nodes, so that a gradient can be asked at each result, and freeing one leaves the others.
Each stage is one op, `Call(graph)`, of inputs of the call and results of earlier stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.autodiff import differentiable_values, free_values, pullback
from jitgrad.ir.builder import Builder
from jitgrad.ir.call import Call
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import View
from jitgrad.ir.ops.creation import Full, Iota
from jitgrad.ir.types import TensorType

from ..dispatch import edge
from ..mode import local
from ..tape import Storage, TapeNode, let_write, residual_mask, watch
from ..tensor import Tensor
from .materialise import tape_nodes


@dataclass(frozen=True, eq=False)
class Stage:
    """A tape node to be: `op` of `operands` (sources by slot, outputs as -1 - index) gives the outputs `results`.

    The first `count` of these are results that tensors have; the others are residuals. `overwritten` are the sources
    that the call writes in place.
    """

    op: Call
    operands: tuple[int, ...]
    types: tuple[TensorType, ...]
    results: tuple[int, ...]
    count: int
    overwritten: frozenset[int]


class Histories:
    """Of one replay: where each output stands on the tape, and the storages that count writes to saved ones."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[TapeNode, int]] = {}
        self.storages: dict[int, Storage] = {}

    def add(self, stage: Stage, tensors: Sequence[Tensor | None], arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Make the node of a stage, if one of its operands requires a gradient.

        It goes by the write counters before the call, because it keeps what operands were before it.
        """
        edges = tuple([self._edge(at, tensors) for at in stage.operands])
        needs = tuple([e is not None for e in edges])
        if not any(needs):
            return
        keep, keep_results = residual_mask(stage.op, stage.types, needs)
        saved: list[Any] = []
        owners: list[Any] = []
        versions: list[int] = []
        for at, kept in zip(
            (*stage.operands, *[-1 - out for out in stage.results]), (*keep, *keep_results), strict=True
        ):
            owner = None if not kept else tensors[at] if at >= 0 else self._storage(-1 - at)
            saved.append(None if not kept else arrays[at] if at >= 0 else outs[-1 - at])
            owners.append(owner)
            versions.append(0 if owner is None else owner._version - (at in stage.overwritten))
        node = TapeNode(stage.op, edges, saved, owners, versions, stage.types)
        if stage.op.copies_on_write:
            let_write(node)
        mode = local.mode
        if mode.watches:
            watch(mode, node)
        for k, out in enumerate(stage.results[: stage.count]):
            self.places[out] = (node, k)

    def _edge(self, at: int, tensors: Sequence[Tensor | None]) -> Any:
        if at < 0:
            node, index = self.places.get(-1 - at, (None, 0))
            return node if index == 0 else (node, index)
        t = tensors[at]
        return None if t is None or not t.dtype.is_differentiable else edge(t)

    def _storage(self, out: int) -> Storage:
        return self.storages.setdefault(out, Storage())


def plan_stages(
    nodes: Sequence[Node], inputs: Sequence[Value], wrt: Sequence[Value], results: Sequence[Value],
    overwritten: frozenset[int], output: Callable[[Value], int], strict: bool = False,
) -> tuple[Stage, ...]:  # fmt: skip
    """The stages behind `results`; `output` makes a value an output of the executable and gives its index.

    `strict` gradients round each operation by itself.
    """
    active = differentiable_values(nodes, wrt)
    made = [v for v in results if v in active]
    cuts = {v for v in made if v.node is not None}
    position = {v: i for i, v in enumerate(inputs)}
    given = cuts.union(wrt)
    groups = _groups(nodes, active, made, cuts)
    return tuple(
        [
            _stage(values, _between(nodes, values, cuts), position, given, overwritten, output, strict)
            for values in groups
        ]
    )


def _groups(nodes: Sequence[Node], active: set[Value], made: Sequence[Value], cuts: set[Value]) -> list[list[Value]]:
    """Results by stage, in an order to make them in. Those of one stage share active nodes."""
    levels: dict[Value, int] = {}  # how many results a value comes from, one after the other
    for node in nodes:
        level = max([levels.get(v, 0) + (v in cuts) for v in node.operands], default=0)
        levels.update(dict.fromkeys(node.results, level))
    owners: dict[tuple[int, Node], Value] = {}
    group_of: dict[Value, list[Value]] = {}
    for v in made:
        level = levels.get(v, 0)
        group_of[v] = [v]
        for owner in _claim(v, level, active, cuts, owners):
            if group_of[owner] is not group_of[v]:
                joined = group_of[owner] + group_of[v]
                group_of.update(dict.fromkeys(joined, joined))
    distinct = {id(group): group for group in group_of.values()}.values()
    return sorted(distinct, key=lambda group: levels.get(group[0], 0))


def _claim(
    v: Value, level: int, active: set[Value], cuts: set[Value], owners: dict[tuple[int, Node], Value]
) -> list[Value]:
    """Mark the active nodes behind `v` as its own; the results that had some of them before."""
    met: dict[Value, None] = {}
    stack = [v.node]
    while stack:
        node = stack.pop()
        if node is None or active.isdisjoint(node.results):
            continue
        owner = owners.get((level, node))
        if owner is None:
            owners[level, node] = v
            stack.extend(x.node for x in node.operands if x not in cuts)
        elif owner is not v:
            met[owner] = None
    return list(met)


def _between(nodes: Sequence[Node], values: Iterable[Value], made: set[Value]) -> list[Node]:
    """The nodes that `values` are computed by from inputs and other results."""
    wanted = set(values)
    found = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.results):
            found.append(node)
            wanted.update(v for v in node.operands if v not in made)
    return found[::-1]


def _stage(
    values: Sequence[Value],
    nodes: Sequence[Node],
    position: Mapping[Value, int],
    given: set[Value],
    overwritten: frozenset[int],
    output: Callable[[Value], int],
    strict: bool,
) -> Stage:
    defined = {r for node in nodes for r in node.results}
    used = [v for node in nodes for v in node.operands]
    sources = list(dict.fromkeys(v for v in (*used, *values) if v not in defined))
    extra = [v for v in _residual_values(nodes, [v for v in sources if v in given], values) if v not in values]
    b = Builder()
    env = {v: b.input(v.type, v.name) for v in sources}
    for node in nodes:
        b.copy(node, env)
    results = [*values, *extra]
    op = Call(b.build([env[v] for v in results]), strict)
    operands = tuple([position[v] if v in position else -1 - output(v) for v in sources])
    types = tuple([v.type for v in sources])
    return Stage(op, operands, types, tuple(map(output, results)), len(values), overwritten)


def _residual_values(nodes: Sequence[Node], wrt: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    """Values the gradient of `results` needs, less those cheaply made again from others (views, constants)."""
    b = Builder()
    seeds = {v: b.input(v.type) for v in results}
    grads = pullback(b, nodes, wrt, seeds)
    defined = {r for node in nodes for r in node.results}
    stack = list(reversed(free_values(b.build([g for g in grads if g is not None]))))
    kept: dict[Value, None] = {}
    seen = set()
    while stack:
        v = stack.pop()
        if v in seen or v not in defined or v.node is None:
            continue
        seen.add(v)
        if isinstance(v.node.op, (View, Full, Iota)):
            stack.extend(v.node.operands)
        else:
            kept[v] = None
    return list(kept)


def is_freed(node: TapeNode) -> bool:
    """Whether the gradient through `node` has been taken, so that what it saved is gone."""
    return any(n.saved is None for n in tape_nodes([node]))
