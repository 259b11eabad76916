"""Why a call found no specialisation: the differences to the nearest one, in terms of the user's source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.location import Location

from ..tensor import tensor_type
from .facts import Facts, differences, facts_of_fingerprint, facts_of_key, facts_of_thing
from .guards import Guards
from .sources import ArgumentSource, CapturedSource, GradSource

_MOST_STATES = 512
_PARTS = (
    "argument structure", "modes", "values the function reads", "which arguments are the same tensor",
    "which arguments share memory",
)  # fmt: skip


@dataclass(eq=False)
class Miss:
    """Why a call found no specialisation: differences to the nearest one, `arg x: dim 0 8 -> 9`, and the call's line.

    `differences` is empty where nothing is known but that guards on captured state failed.
    """

    differences: tuple[str, ...]
    location: Location | None = None

    def __str__(self) -> str:
        return "; ".join(self.differences) or "guards on captured state failed"


class States:
    """What modules and optimizers looked like when they were traced, by their change counters."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Facts] = {}

    def note(self, things: Iterable[tuple[Any, int]], f: Callable[..., Any]) -> None:
        """Remember how these are now."""
        for thing, epoch in things:
            if thing._epoch == epoch and (id(thing), epoch) not in self._known:
                self._known[id(thing), epoch] = facts_of_thing(thing, name_of_thing(thing, f))
        while len(self._known) > _MOST_STATES:
            self._known.pop(next(iter(list(self._known))), None)

    def known(self, thing: Any, epoch: int) -> Facts:
        """What is remembered of a thing at an epoch."""
        return self._known.get((id(thing), epoch), {})

    def changes(self, thing: Any, epoch: int, f: Callable[..., Any]) -> list[str]:
        """How a thing differs from what it was at an epoch."""
        name = name_of_thing(thing, f)
        known = self.known(thing, epoch)
        found = differences(known, facts_of_thing(thing, name)) if known else []
        return _collapsed(found) or [f"{name}: changed since it was traced"]


def _collapsed(found: list[str]) -> list[str]:
    """A switch of many modules at once, as `train()` does, in one line."""
    switched = [text for text in found if text.partition(": ")[0].endswith(".training")]
    if len(switched) < 2:
        return found
    return [f"{switched[0]} (and {len(switched) - 1} inside)", *(text for text in found if text not in switched)]


def name_of_thing(thing: Any, f: Callable[..., Any]) -> str:
    """`self` for the compiled module, the class's name for others."""
    return "self" if getattr(getattr(thing, "_compiled_call", None), "_f", None) is f else type(thing).__name__


def differences_of_keys(f: Callable[..., Any], keys: Iterable[Any], new: tuple[Any, ...], states: States) -> list[str]:
    """The differences to the nearest of `keys`."""
    facts = facts_of_key(f, new)
    best: list[str] | None = None
    for old in keys:
        found = differences(_shown(facts_of_key(f, old)), _shown(facts))
        for thing, epoch in _counted_that_differ(old[2], new[2]):
            found += states.changes(thing, epoch, f)
        if not found:
            found = [f"{part} changed" for part, a, b in zip(_PARTS, old, new, strict=False) if a != b]
        if best is None or len(found) < len(best):
            best = found
    return best or []


def _shown(facts: Facts) -> Facts:
    return {name: text for name, text in facts.items() if not name.endswith(" state")}


def _counted_that_differ(old: Any, new: Any) -> Iterator[tuple[Any, int]]:
    """Modules and optimizers whose counters differ between two fingerprints, with the old counter."""
    before = {id(x): (x, epoch) for x, epoch in _counted(old)}
    for x, epoch in _counted(new):
        if id(x) in before and before[id(x)][1] != epoch:
            yield before[id(x)]


def _counted(found: Any) -> Iterator[tuple[Any, int]]:
    stack = [found]
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            if len(x) > 1 and hasattr(x[0], "x") and hasattr(x[0].x, "_epoch"):
                yield x[0].x, x[1]
            stack.extend(reversed(x))


def broken_guards(
    guards: Guards, leaves: Sequence[Any], f: Callable[..., Any], states: States, names: Mapping[int, str]
) -> list[str]:
    """What of a specialisation's guards does not hold for a call with these arguments."""
    found = [
        change for thing, epoch in guards.touched if thing._epoch != epoch for change in states.changes(thing, epoch, f)
    ]
    for name, old, new in guards.surroundings.changes():
        name = name.removeprefix("a global that ").removesuffix(" reads")
        found += differences(facts_of_fingerprint(old, name), facts_of_fingerprint(new, name)) or [f"{name}: changed"]
    for source, was, now in guards.changed_grads(leaves):
        found.append(f"{source_name(source, names)}.grad: {was} -> {now}")
    for t, old, new in guards.changed_facts():
        found += differences(_of_captured(t, old, names), _of_captured(t, new, names))
    if not found and guards.has_other_memory(leaves):
        found.append("which tensors are the same or share memory: changed")
    return found


def _of_captured(t: Any, fact: tuple[Any, ...], names: Mapping[int, str]) -> Facts:
    shape, dtype, layout, requires_grad, hooks = fact
    name = names.get(id(t)) or "a captured tensor"
    return {
        name: str(tensor_type(shape, dtype)), f"{name} layout": str(layout),
        f"{name}.requires_grad": str(requires_grad), f"{name} has gradient hooks": str(hooks),
    }  # fmt: skip


def source_name(source: Any, names: Mapping[int, str]) -> str:
    """A tensor's name, by where it comes from; arguments are under their negative numbers less one."""
    match source:
        case ArgumentSource(index=index):
            return names.get(-1 - index) or f"argument {index}"
        case CapturedSource(captured=captured):
            return names.get(id(captured)) or "a captured tensor"
        case GradSource(of=of):
            return f"{source_name(of, names)}.grad"
    return str(source)
