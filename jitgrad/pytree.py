"""Nested containers as a flat list of leaves and a hashable structure."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

Structure = Hashable
LEAF = "*"


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Leaves in order, and the structure that `unflatten` takes.

    Containers: tuples (named ones too), lists, dicts (in insertion order), dataclass instances.

        >>> flatten({"a": 1, "b": [2, 3]})[0]
        [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves.append)


def _flatten(tree: Any, add: Callable[[Any], None]) -> Structure:
    kind = type(tree)
    if kind in (tuple, list) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return (kind, tuple([_flatten(x, add) for x in tree]))
    if kind in (dict, OrderedDict):
        return (kind, tuple(tree), tuple([_flatten(x, add) for x in tree.values()]))
    if kind is defaultdict:
        return (kind, tree.default_factory, tuple(tree), tuple([_flatten(x, add) for x in tree.values()]))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(f.name for f in dataclasses.fields(tree) if f.init)
        return (kind, names, tuple([_flatten(getattr(tree, n), add) for n in names]))
    add(tree)
    return LEAF


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree with these leaves."""
    it = iter(leaves)
    return _unflatten(structure, it.__next__)


def _unflatten(structure: Any, take: Callable[[], Any]) -> Any:
    if structure == LEAF:
        return take()
    kind = structure[0]
    children = [_unflatten(s, take) for s in structure[-1]]
    if kind in (tuple, list):
        return kind(children)
    if issubclass(kind, tuple):
        return kind(*children)
    if kind is defaultdict:
        return defaultdict(structure[1], zip(structure[2], children, strict=True))
    if issubclass(kind, dict):
        return kind(zip(structure[1], children, strict=True))
    return kind(**dict(zip(structure[1], children, strict=True)))


def map_leaves(f: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `f` applied to each leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [f(x) for x in leaves])
