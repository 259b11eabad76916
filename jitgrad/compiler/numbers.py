"""Which floats among a function's arguments are numbers that each call gives, and not part of the key.

A float counts as one from the second value on, if it is an argument of its own. If the trace finds that the function
needs to know the number itself, the float is part of the key again; so it is if the trace fails, with nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import pytree
from .code import Reads
from .key import varying_floats
from .tracer import Tracer

_MOST_STRUCTURES = 64
_NONE: frozenset[int] = frozenset()
_BY_TYPE = frozenset({"type", "sleep"})  # to these a stand-in is no float; where else that is so, an error tells


class VaryingNumbers:
    """Of one function: by argument structure, the leaves whose numbers may be any."""

    def __init__(self) -> None:
        self._varying: dict[Any, frozenset[int]] = {}
        self._fixed: dict[Any, frozenset[int]] = {}
        self._seen: dict[Any, Any] = {}  # the newest key that missed

    def of(self, structure: Any) -> frozenset[int]:
        """Those of a call with this structure."""
        return self._varying.get(structure, _NONE) if self._varying else _NONE

    def learn(self, reads: Reads, key: Any, leaves: Sequence[Any], args: Any, kwargs: Any) -> bool:
        """Whether a call that missed differs from an earlier one in floats alone, which may be any from now on."""
        structure = key[0]
        old, self._seen[structure] = self._seen.get(structure), key
        if len(self._seen) > _MOST_STRUCTURES:
            self._seen.clear()
        found = varying_floats(old, key, leaves) - self._fixed.get(structure, _NONE)
        found &= {i for i, _ in _own_arguments(args, kwargs)}
        if not found or not reads.mentioned.isdisjoint(_BY_TYPE):
            return False
        self._varying[structure] = self.of(structure) | found
        return True

    def fix(self, structure: Any, leaves: frozenset[int]) -> None:
        """The numbers of these leaves are part of the key from now on."""
        self._fixed[structure] = self._fixed.get(structure, _NONE) | leaves
        self._varying[structure] = self.of(structure) - leaves

    def standing_in(self, tracer: Tracer, structure: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments to trace with."""
        varying = self.of(structure)
        if not varying:
            return args, kwargs
        positional, named = list(args), dict(kwargs)
        for i, place in _own_arguments(args, kwargs):
            if i in varying and type(tracer.leaves[i]) is float:
                target: Any = positional if isinstance(place, int) else named
                target[place] = tracer.number(i)
        return tuple(positional), named


def _own_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[int, int | str]]:
    """The leaves that are arguments by themselves, with their position or name."""
    at = 0
    for place, x in (*enumerate(args), *kwargs.items()):
        leaves, structure = pytree.flatten(x)
        if structure == pytree.LEAF:
            yield at, place
        at += len(leaves)
