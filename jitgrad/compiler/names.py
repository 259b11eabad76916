"""Names of a trace's inputs, for people to read: `x`, `Sequential.0.weight`, `Adam.exp_avg.Sequential.0.weight`, `lr`.

Names have no meaning to what is computed; graphs print with them, and exported programs and dumps show them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from .. import pytree
from ..tensor import Tensor
from .sources import ArgumentSource, CapturedSource, GradSource, Source
from .tracer import Tracer


def name_inputs(tracer: Tracer, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Name the inputs of the captured graph, as far as their names are known."""
    arguments = argument_names(_named_alike(tracer, f), args, kwargs)
    tensors = tensor_names(tracer)
    for source, value in zip(tracer.sources, tracer.builder.inputs, strict=True):
        value.name = _name(source, arguments, tensors)


def _named_alike(tracer: Tracer, f: Callable[..., Any]) -> Callable[..., Any]:
    """What has names for the arguments of `f`: for the call of a compiled module, its `forward`."""
    for thing, _ in tracer.touched.values():
        if getattr(getattr(thing, "_compiled_call", None), "_f", None) is f:
            return thing.forward  # type: ignore[no-any-return]
    return f


def _name(source: Source, arguments: list[str], tensors: dict[int, str]) -> str:
    match source:
        case ArgumentSource(index=index):
            return arguments[index] if 0 <= index < len(arguments) else ""
        case CapturedSource(captured=captured):
            return tensors.get(id(captured), "")
        case GradSource(of=of):
            name = _name(of, arguments, tensors)
            return name and f"{name}.grad"
    return source.name


def tensor_names(tracer: Tracer) -> dict[int, str]:
    """By identity, the parameters and buffers of the modules met so far, outermost first, and optimizers' state."""
    found: dict[int, str] = {}
    seen: set[int] = set()
    things = [thing for thing, _ in tracer.touched.values()]
    for module in (t for t in things if hasattr(t, "named_parameters")):
        if id(module) in seen:
            continue
        seen.update(map(id, module.modules()))
        for name, t in (*module.named_parameters(), *module.named_buffers()):
            found.setdefault(id(t), f"{type(module).__name__}.{name}")
    for optimizer in (t for t in things if hasattr(t, "param_groups")):
        for number, p in enumerate(p for group in optimizer.param_groups for p in group["params"]):
            owner = found.get(id(p), str(number))
            for key, t in optimizer.__dict__["state"].get(p, {}).items():
                if isinstance(t, Tensor):
                    found.setdefault(id(t), f"{type(optimizer).__name__}.{key}.{owner}")
    return found


def argument_names(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The names of a call's argument leaves, in order.

    >>> argument_names(lambda x, *rest, scale: None, (1, (2, {"a": 3}), 4), {"scale": 5})
    ['x', 'rest.0.0', 'rest.0.1.a', 'rest.1', 'scale']
    """
    return names_of_structure(f, pytree.flatten((args, kwargs))[1])


def names_of_structure(f: Callable[..., Any], structure: Any) -> list[str]:
    """The same from the arguments' structure; a number stands for that many tensors."""
    if isinstance(structure, int):
        return _positional_names(f, structure)
    positional, named = structure[1]
    names = _positional_names(f, len(positional[1]))
    found = [path for name, inner in zip(names, positional[1], strict=True) for path in _paths(inner, name)]
    return found + [path for key, inner in zip(named[1], named[2], strict=True) for path in _paths(inner, str(key))]


def _positional_names(f: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}.{k}" for k in range(count - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return [*names, *(f"argument.{k}" for k in range(len(names), count))][:count]


def _paths(structure: Any, name: str) -> Iterator[str]:
    """The names of a structure's leaves, below `name`."""
    if structure == pytree.LEAF:
        yield name
        return
    keys = structure[-2] if len(structure) > 2 else range(len(structure[-1]))
    for key, inner in zip(keys, structure[-1], strict=True):
        yield from _paths(inner, f"{name}.{key}")
