"""A layered layout of a directed acyclic graph, from top to bottom, in time close to linear in its size.

Four steps (Sugiyama et al. 1981): layers by longest path; a chain of small boxes along every edge that passes layers,
so that it is led around others; fewer crossings by sorting each layer by the mean place of its neighbours; and
horizontal places by least squares under each layer's order (isotonic regression by pooling adjacent violators).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

Point = tuple[float, float]
GAP: Final = 14.0
LAYER_GAP: Final = 30.0
_SWEEPS: Final = 6
_LONGEST_CHAIN: Final = 12  # layers; longer edges go straight


@dataclass(slots=True, eq=False)
class Box:
    """A box of a given size; `x` and `y` are its centre."""

    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    place: int = 0  # in its layer
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is. `routes[k]` are the points of edge `k`."""

    boxes: tuple[Box, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Places for boxes of these (width, height), which `edges` lead from lower to higher numbers.

    >>> found = layered([(10, 5), (10, 5), (10, 5)], [(0, 1), (0, 2)])
    >>> [(box.x, box.y) for box in found.boxes]
    [(17.0, 2.5), (5.0, 37.5), (29.0, 37.5)]
    """
    boxes = [Box(w, h) for w, h in sizes]
    _assign_layers(boxes, edges)
    chains = [_chain(boxes[a], boxes[b]) for a, b in edges]
    layers: list[list[Box]] = [[] for _ in range(1 + max((b.layer for b in boxes), default=-1))]
    for box in (*boxes, *(c for chain in chains for c in chain)):
        box.place = len(layers[box.layer])
        layers[box.layer].append(box)
    _sort(layers)
    _place(layers)
    left = min((b.x - b.width / 2 for layer in layers for b in layer), default=0.0)
    y = 0.0
    for layer in layers:
        height = max(b.height for b in layer)
        for box in layer:
            box.x -= left
            box.y = y + height / 2
        y += height + LAYER_GAP
    routes = tuple(_route(boxes[a], chain, boxes[b]) for (a, b), chain in zip(edges, chains))
    width = max((b.x + b.width / 2 for b in boxes), default=0.0)
    return Layout(tuple(boxes), routes, width, max(0.0, y - LAYER_GAP))


def _assign_layers(boxes: list[Box], edges: Sequence[tuple[int, int]]) -> None:
    """Below all that leads to it; what nothing leads to stands right above its first user."""
    users: list[list[int]] = [[] for _ in boxes]
    has_source = [False] * len(boxes)
    for a, b in edges:
        users[a].append(b)
        has_source[b] = True
    for box, reached in zip(boxes, users):
        for b in reached:
            boxes[b].layer = max(boxes[b].layer, box.layer + 1)
    for n, box in enumerate(boxes):
        if users[n] and not has_source[n]:
            box.layer = min(boxes[b].layer for b in users[n]) - 1


def _chain(start: Box, end: Box) -> list[Box]:
    """The small boxes along an edge."""
    if end.layer - start.layer > _LONGEST_CHAIN:
        return []
    chain = [Box(2.0, 1.0, layer) for layer in range(start.layer + 1, end.layer)]
    for upper, lower in zip([start, *chain], [*chain, end]):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _sort(layers: list[list[Box]]) -> None:
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers[1:] if down else layers[-2::-1]:
            keys = {box: _mean_place(box.above if down else box.below, box.place) for box in layer}
            layer.sort(key=keys.__getitem__)
            for n, box in enumerate(layer):
                box.place = n


def _mean_place(neighbours: list[Box], otherwise: float) -> float:
    return sum(b.place for b in neighbours) / len(neighbours) if neighbours else otherwise


def _place(layers: list[list[Box]]) -> None:
    for layer in layers:
        x = 0.0
        for box in layer:
            box.x = x + box.width / 2
            x += box.width + GAP
    for sweep in range(_SWEEPS):
        last = sweep >= _SWEEPS - 2
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for box in layer:
                near = [*box.above, *box.below] if last else box.above if sweep % 2 == 0 else box.below
                wanted.append(sum(b.x for b in near) / len(near) if near else box.x)
            for box, x in zip(layer, _fitted(layer, wanted)):
                box.x = x


def _fitted(layer: list[Box], wanted: Sequence[float]) -> list[float]:
    """Centres as close to `wanted` as order and gaps allow, by least squares."""
    shifts = [0.0]
    for left, right in pairwise(layer):
        shifts.append(shifts[-1] + (left.width + right.width) / 2 + GAP)
    pools: list[tuple[float, int]] = []
    for x, shift in zip(wanted, shifts):
        total, count = x - shift, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, n = pools.pop()
            total, count = total + before, count + n
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + shift for mean, shift in zip(means, shifts)]


def _route(start: Box, chain: list[Box], end: Box) -> tuple[Point, ...]:
    first, last = (chain[0], chain[-1]) if chain else (end, start)
    out = start.x + _towards(start, first)
    into = end.x + _towards(end, last)
    middle = [(c.x, c.y) for c in chain]
    return ((out, start.y + start.height / 2), *middle, (into, end.y - end.height / 2))


def _towards(box: Box, other: Box) -> float:
    room = max(0.0, box.width / 2 - 8)
    return max(-room, min(room, (other.x - box.x) / 4))
