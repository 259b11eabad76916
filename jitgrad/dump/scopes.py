"""Scopes of nodes as paths, below the part of a training step they belong to: forward, backward, update."""

from __future__ import annotations

from collections.abc import Iterable

Path = tuple[str, ...]


class Phases:
    """Puts "forward", "backward" or "update" in front of scopes, if the graph has more than one of them.

    >>> phases = Phases([("MLP", "0"), ("backward", "MLP", "0"), ("SGD.step", "MLP.0.weight")])
    >>> phases.path(("MLP", "0")), phases.path(("backward", "MLP", "0"))
    (('forward', 'MLP', '0'), ('backward', 'MLP', '0'))
    >>> phases.path(("SGD.step", "MLP.0.weight"))
    ('update', 'SGD.step', 'MLP.0.weight')
    """

    def __init__(self, scopes: Iterable[Path]) -> None:
        self.has_parts = len({_phase(scope) for scope in set(scopes)}) > 1

    def path(self, scope: Path) -> Path:
        """The scope's place."""
        phase = _phase(scope)
        if phase == "backward":
            return scope
        return (phase, *scope) if self.has_parts else scope


def _phase(scope: Path) -> str:
    if scope and scope[0] == "backward":
        return "backward"
    return "update" if scope and scope[0].endswith(".step") else "forward"
