"""A specialisation's guards, as `explain` shows them: `arg x: f32[8,16]`, `self.training is True`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .facts import Facts, facts_of_fingerprint, facts_of_key
from .guards import Guards
from .misses import States, name_of_thing, source_name

_USUAL = {
    "grad mode": "True", "inference mode": "False", "default dtype": "jitgrad.float32", "device of new tensors": "cpu",
    "CUDA device": "0", "autocast": "off",
}  # fmt: skip


def conditions(f: Callable[..., Any], key: Any, spec: Any, states: States, names: dict[int, str]) -> list[str]:
    """What must hold for `spec` to serve a call: arguments first, then state, then modes."""
    facts = facts_of_key(f, key)
    modes = {name: facts.pop(name) for name in _USUAL}
    found = dict.fromkeys(_shown(facts))
    for guards in [cut.guards for cut in spec.cuts] + [spec.guards]:
        if guards is not None:
            found.update(dict.fromkeys(_of_guards(guards, f, states, names)))
    told = [f"{name} is {text}" for name, text in modes.items() if text != _USUAL[name] or name == "grad mode"]
    return [*found, *told]


_USUAL_OF_ARGUMENTS = {".requires_grad": "False", " device": "cpu", " strides": "contiguous", " is read-only": "False"}


def _shown(facts: Facts) -> Iterator[str]:
    for name, text in facts.items():
        if "(tensor 0x" in text:
            yield f"{name}: {text.split(' (tensor')[0]}, the same tensor"
        elif (
            " (0x" in text
            or name.endswith((" state", " content"))
            or "default defaults" in name
            or any(name.endswith(end) and text == usual for end, usual in _USUAL_OF_ARGUMENTS.items())
        ):
            continue
        elif name.startswith("arg ") and "[" in text and text[0].isalpha():
            yield f"{name}: {text}"
        else:
            yield f"{name} {'is' if text in ('True', 'False', 'None') else '=='} {text}"


def _of_guards(guards: Guards, f: Callable[..., Any], states: States, names: dict[int, str]) -> Iterable[str]:
    for thing, epoch in guards.touched:
        if not (hasattr(thing, "named_modules") or hasattr(thing, "param_groups")):
            continue  # the hooks of all modules together
        name = name_of_thing(thing, f)
        known = states.known(thing, epoch)
        if f"{name}.training" in known:
            yield f"{name}.training is {known[f'{name}.training']}"
        count = sum(1 for fact in known if fact.startswith("class of "))
        yield f"{name}: {f'attributes and hooks of {count} modules' if count > 1 else 'attributes'} unchanged"
    for label, value in guards.surroundings.values():
        yield from _shown(facts_of_fingerprint(value, label.removeprefix("a global that ").removesuffix(" reads")))
    for source, is_there in guards.grads():
        yield f"{source_name(source, names)}.grad {'is a tensor' if is_there else 'is None'}"
