"""Dims of arguments and results: prefixes of containers spread to their leaves, and axes moved."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.ops.shape import Permute, moved_axis_permutation

from .. import pytree
from ..aliasing import view
from ..tensor import Tensor


def spread(prefix: Any, tree: Any) -> list[Any] | None:
    """What `prefix` says for each leaf of `tree`: an element of it holds for all below; None if the two don't fit.

    >>> spread((0, None), ([1, 2], 3))
    [0, 0, None]
    """
    if not isinstance(prefix, (tuple, list, dict)):
        return [prefix] * len(pytree.flatten(tree)[0])
    if isinstance(prefix, dict):
        if not isinstance(tree, dict) or set(prefix) != set(tree):
            return None
        pairs = [(prefix[k], tree[k]) for k in tree]
    elif isinstance(tree, (tuple, list)) and type(prefix) is type(tree) and len(prefix) == len(tree):
        pairs = list(zip(prefix, tree, strict=True))
    else:
        return None
    out: list[Any] = []
    for p, t in pairs:
        found = spread(p, t)
        if found is None:
            return None
        out += found
    return out


def moved_axis(t: Tensor, source: int, destination: int) -> Tensor:
    """A view of `t` with axis `source` at `destination`."""
    if source == destination:
        return t
    return view(Permute(moved_axis_permutation(t.ndim, source, destination)), t)
