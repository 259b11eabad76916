"""What a compiled function remembers of its calls: why they missed, what could not be kept, and what it tells of it."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, CompileError
from jitgrad.ir.location import Location, user_location

from ..counters import Event, counters, log, tell
from .conditions import conditions
from .cuts import Cut
from .explain import Explanation
from .misses import Miss, States, broken_guards, differences_of_keys
from .retrace import Rerun
from .sources import ArgumentSource, CapturedSource
from .tracer import Tracer
from .tree import Tree, Unknown, ends

_MOST_MISSES = 128
_COMPARED = 8  # keys, the newest ones
_ON_RECOMPILE = ("ignore", "warn", "error")


class Record:
    """The notes of one compiled function."""

    def __init__(self, f: Callable[..., Any], name: str, on_recompile: str, numerics: str = "default") -> None:
        if on_recompile not in _ON_RECOMPILE:
            raise ArgumentError(f"compile: on_recompile is one of {', '.join(_ON_RECOMPILE)}, not {on_recompile!r}")
        self.f = f
        self.name = name
        self.on_recompile = on_recompile
        self.numerics = numerics
        self.calls = 0
        self.refused = 0
        self.misses: deque[Miss] = deque(maxlen=_MOST_MISSES)
        self.not_kept: Counter[str] = Counter()
        self.states = States()
        self._unknown: Cut | None = None  # where the last miss met another answer

    def miss(
        self, key: Any, entries: Mapping[Any, Sequence[Tree | Rerun]], leaves: Sequence[Any], unknown: Unknown | None
    ) -> None:
        """A call that no specialisation serves, though there are some: note why, and warn or fail if that was asked."""
        trees = [e for e in entries.get(key, ()) if not isinstance(e, Rerun)]
        self._unknown = None if unknown is None else unknown.cut
        if unknown is not None:
            found = [str(unknown)]
        elif trees:
            found = min((self._why(tree, leaves) for tree in trees), key=len)
        else:
            keys = [k for k in reversed(list(entries)) if k != key][:_COMPARED]
            found = differences_of_keys(self.f, keys, key, self.states)
        miss = Miss(tuple(dict.fromkeys(found)), user_location())
        self.misses.append(miss)
        log("guards", "%s is traced anew: %s (call at %s)", self.name, miss, miss.location)
        if self.on_recompile == "ignore":
            return
        message = f"{self.name}: compile(on_recompile={self.on_recompile!r}): this call is traced anew: {miss}"
        if self.on_recompile == "error":
            error = CompileError(message)
            error.attach_location(str(miss.location) if miss.location else None)
            raise error
        warn(message, miss.location)

    def _why(self, tree: Tree, leaves: Sequence[Any]) -> list[str]:
        names = names_of_inputs(next(iter(ends([tree])), None))
        return broken_guards(tree.guards, leaves, self.f, self.states, names) if tree.guards is not None else []

    def traced(self, tracer: Tracer, ms: float) -> None:
        """A trace has ended."""
        counters.traces += 1
        tell(Event("trace", self.name, location=user_location()))
        log("compile", "%s was traced: %d nodes in %.1f ms", self.name, len(tracer.builder.nodes), ms)

    def kept(self, tracer: Tracer) -> None:
        """A trace is to be replayed."""
        counters.specialisations += 1
        self.states.note(tracer.touched.values(), self.f)
        old, self._unknown = self._unknown, None
        for new in tracer.cuts.made if old is not None and self.misses else ():
            if old is not None and (new.location, new.question) == (old.location, old.question):
                if new.answer != old.answer:
                    where = f" at {old.location}" if old.location else ""
                    self.misses[-1].differences = (f"{old.why}{where}: {old.told} -> {new.told}",)
                return

    def lost(self, reason: str) -> None:
        """A trace can't be replayed."""
        self.not_kept[reason] += 1
        log("fallbacks", "%s: this call is not kept: %s", self.name, reason)

    def python_runs(self, reason: str, location: str | None) -> None:
        """From now on, with these arguments, Python runs at each call."""
        where = f" at {location}" if location else ""
        message = f"{self.name}: Python runs at each call with these arguments, instead of a replay: {reason}{where}"
        log("fallbacks", "%s", message)
        warn(message, user_location())

    def refuses(self) -> None:
        """An op refused a value: Python runs this call."""
        self.refused += 1
        counters.fallbacks += 1
        log("fallbacks", "%s: an op refused a value; Python runs this call", self.name, debug=True)

    def explain(
        self, entries: Mapping[Any, Sequence[Tree | Rerun]], always: Rerun | None, measure: bool
    ) -> Explanation:
        """See `Explanation`."""
        found: list[Any] = []
        guards: list[list[str]] = []
        reruns: list[Any] = []
        for key, of_key in list(entries.items()):
            reruns += [e for e in of_key if isinstance(e, Rerun)]
            for end in ends([e for e in of_key if not isinstance(e, Rerun)]):
                found.append(end)
                guards.append(conditions(self.f, key, end, self.states, names_of_inputs(end)))
        reruns += [] if always is None or always in reruns else [always]
        misses, not_kept = list(self.misses), dict(self.not_kept)
        return Explanation(
            self.name, self.calls, [*found, *reruns], misses, not_kept, guards, self.refused, measure,
            self.numerics,
        )  # fmt: skip


def warn(message: str, location: Location | None) -> None:
    """Warn at the user's line."""
    if location is None:
        warnings.warn(message, stacklevel=3)
    else:
        warnings.warn_explicit(message, UserWarning, location.code.co_filename, location.line)


def names_of_inputs(spec: Any) -> dict[int, str]:
    """The names of a specialisation's captured tensors, by identity, and of its arguments, by -1 - number."""
    names: dict[int, str] = {}
    for source, value in zip(spec.sources, spec.graph.inputs, strict=True) if spec is not None else ():
        match source:
            case ArgumentSource(index=index):
                names[-1 - index] = value.name or ""
            case CapturedSource(captured=captured):
                names[id(captured)] = value.name or ""
    return names
