"""What the first call of a function begins: made for real while it is traced, as if it had been there before.

An optimizer makes its state at its first step. A trace in which that happened would serve no later call. So the state
is made outside the trace, which then reads and updates it as any later trace would, and serves the calls that follow.
That is right only where nothing in the trace has gone by the state's not being there, and it is taken back where the
step does not come about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..epoch import Counted, with_containers
from ..mode import local

if TYPE_CHECKING:
    from .tracer import Tracer


class Begun:
    """What one trace has begun."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._seen: set[int] = set()
        self._made: list[tuple[int, Callable[[], None]]] = []  # after how many nodes, and what takes it back
        self._epochs: dict[int, tuple[Counted, int, int]] = {}  # before and after

    def look(self, owner: Counted) -> None:
        """Code has looked at what is begun by `owner`, and may go by its not being there."""
        self._seen.add(id(owner))

    def may_begin(self, owner: Counted) -> bool:
        """Whether the trace is to serve later calls, and has not gone by what there is of `owner` so far."""
        if not self._tracer.serves:
            return False
        guards = [cut.guards for cut in self._tracer.cuts.made if cut.guards is not None]
        return id(owner) not in self._seen and not any(thing is owner for g in guards for thing, _ in g.touched)

    @contextmanager
    def beginning(self, owner: Counted, undo: Callable[[], None]) -> Iterator[None]:
        """Inside, code runs eagerly and changes `owner`, which counts as having been so before the call."""
        things = [(thing, thing._epoch) for thing in with_containers(owner)]
        self._made.append((len(self._tracer.builder.nodes), undo))
        local.mode.tracer = None
        try:
            yield
        finally:
            local.mode.tracer = self._tracer
        touched = self._tracer.touched
        for thing, epoch in things:
            if touched.get(id(thing), (thing, None))[1] == epoch:
                touched[id(thing)] = thing, thing._epoch
            _, first, last = self._epochs.get(id(thing), (thing, epoch, epoch))
            if last == epoch:
                self._epochs[id(thing)] = thing, first, thing._epoch

    def key(self, key: Any) -> Any:
        """The key of a call as it would have been, had what is begun been there."""
        epochs = {first: last for _, first, last in self._epochs.values()}
        return _renumbered(key, epochs) if epochs else key

    def undo(self, after: int = -1) -> None:
        """Take back what was begun after that many nodes."""
        while self._made and self._made[-1][0] > after:
            self._made.pop()[1]()


def _renumbered(x: Any, epochs: dict[int, int]) -> Any:
    """A key with other epochs, which are numbers that nothing else in it is."""
    kind = type(x)
    if kind is int:
        return epochs.get(x, x)
    if kind is tuple:
        return tuple([_renumbered(part, epochs) for part in x])
    return frozenset([_renumbered(part, epochs) for part in x]) if kind is frozenset else x
