"""What a specialisation stands on, in terms of the user's source: `arg x: f32[8,16]`, `global SCALE == 2.0`.

Facts are tables of short texts by name. Two calls are compared by comparing their tables.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..epoch import Counted
from ..tensor import Tensor, tensor_type
from .fingerprint import Same
from .key import LEAVES
from .names import names_of_structure

Facts = dict[str, str]
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.CodeType, type)
_LONGEST = 60  # characters of a text
_TENSOR_PARTS = 6
_MODES = ("grad mode", "inference mode", "default dtype", "device of new tensors", "CUDA device", "autocast")


def facts_of_key(f: Callable[..., Any], key: tuple[Any, ...]) -> Facts:
    """What a call's key says: of each argument, of the modes, and of what the function reads."""
    found: Facts = {}
    for name, part in _arguments(f, key):
        found.update(_of_argument(name, part))
    names = argument_names_of(f, key)
    for i, first in enumerate(key[3]):
        if first != i:
            found[f"arg {names[i]} is"] = f"arg {names[first]}"
    for i, k in key[4]:
        found[f"arg {names[i]} shares memory with"] = f"arg {names[k]}"
    found.update({name: _mode(name, value) for name, value in zip(_MODES, key[1], strict=True)})
    found.update(_texts(_walk(key[2], "", frozenset())))
    return found


def argument_names_of(f: Callable[..., Any], key: tuple[Any, ...]) -> list[str]:
    """The names of the argument leaves of a call with this key."""
    return names_of_structure(_with_names(f, key[2]), key[0])


def _with_names(f: Callable[..., Any], found: Any) -> Callable[..., Any]:
    """What has the names of the arguments: for the call of a compiled module, its `forward`."""
    stack = [found]
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            stack.extend(x)
        elif isinstance(x, Same) and getattr(getattr(x.x, "_compiled_call", None), "_f", None) is f:
            return x.x.forward  # type: ignore[no-any-return]
    for cell in getattr(f, "__closure__", None) or ():
        if getattr(getattr(cell.cell_contents, "_compiled_call", None), "_f", None) is f:
            return cell.cell_contents.forward  # type: ignore[no-any-return]
    return f


def _arguments(f: Callable[..., Any], key: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Each argument's name with its part of the key; attributes of a tensor are under its name as well."""
    names = iter(argument_names_of(f, key))
    name = ""
    for part in key[LEAVES:]:
        if name and _is_attributes(part):
            yield f"{name} (attributes)", part
            name = ""
        else:
            name = next(names, "?")
            yield name, part
            name = name if _is_tensor(part) else ""


def _is_tensor(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == _TENSOR_PARTS and isinstance(part[0], tuple)


def _is_attributes(part: Any) -> bool:
    return isinstance(part, tuple) and bool(part) and part[0] is dict


def _of_argument(name: str, part: Any) -> Facts:
    if not _is_tensor(part):
        if part == ("a float",):
            return {f"arg {name}": "any float"}
        return _texts(_walk(part, f"arg {name}", frozenset()))
    shape, dtype, requires_grad, layout, same, hooks = part
    found = {f"arg {name}": str(tensor_type(shape, dtype))}
    found[f"arg {name}.requires_grad"] = str(requires_grad)
    found.update(_of_layout(f"arg {name}", layout))
    if same is not None:
        found[f"arg {name} object"] = _identity(same.x)
    if hooks is not None:
        found[f"arg {name} gradient hooks"] = short(hooks)
    return found


def _of_layout(name: str, layout: Any) -> Facts:
    """What `memory.layout` says: the device, the strides, whether the array can be written."""
    parts = [True] if layout is True else list(layout)
    device = parts.pop(0) if hasattr(parts[0], "type") else "cpu"
    strides = f"{tuple(parts[:-1])} bytes" if parts[:-1] else "contiguous"
    return {f"{name} device": str(device), f"{name} strides": strides, f"{name} is read-only": str(not parts[-1])}


def _mode(name: str, value: Any) -> str:
    if name == "device of new tensors":
        return str(value or "cpu")
    if name == "autocast":
        return "off" if value is None else short(value)
    return str(value)


# fingerprints ---------------------------------------------------------------------------------------------


def facts_of_fingerprint(found: Any, name: str) -> Facts:
    """The named values in a fingerprint of something called `name`."""
    return _texts(_walk(found, name, frozenset()))


def _texts(found: Iterator[tuple[str, str]]) -> Facts:
    table: Facts = {}
    for name, text in found:
        table.setdefault(name, text)
    return table


def _walk(part: Any, name: str, free: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The named values of a fingerprint (see `fingerprint`)."""
    if isinstance(part, Same):
        yield name, _identity(part.x)
    elif not isinstance(part, tuple) or not part:
        if not isinstance(part, int):  # what was met before is told by its number
            yield name, short(part)
    elif len(part) == 2 and part[0] in _SCALARS and not isinstance(part[1], tuple):
        yield name, short(float.fromhex(part[1]) if part[0] is float else part[1])
    elif isinstance(part[0], Same):
        yield from _of_object(part[0].x, part, name)
    elif isinstance(part[0], type):
        yield from _of_container(part, name)
    else:
        for k, inner in enumerate(part):
            yield from _walk(inner, name if k == 0 else f"{name}[{k}]", free)


def _of_object(x: Any, part: tuple[Any, ...], name: str) -> Iterator[tuple[str, str]]:
    if isinstance(x, types.FunctionType):
        yield (name or "function"), _identity(x)
        free = frozenset(x.__code__.co_freevars)
        for label, inner in _pairs_in(part):
            kind = "closure" if label in free else "default" if label == "defaults" else "global"
            yield from _walk(inner, _below(name, f"{kind} {label}"), free)
        return
    yield name, _identity(x)
    if isinstance(x, Counted) and len(part) > 1:
        yield f"{name} state", str(part[1])
    elif isinstance(x, np.ndarray):
        yield f"{name} content", str(part[1:])
    for label, inner in _pairs_in(part):
        yield from _walk(inner, f"{name}.{label}", frozenset())
    for rest in part[1:]:
        if isinstance(rest, tuple) and rest and isinstance(rest[0], Same):
            yield from _of_object(rest[0].x, rest, f"class of {name}")
        elif isinstance(rest, int) and not isinstance(x, Counted):
            yield f"{name} content", str(rest)


def _of_container(part: tuple[Any, ...], name: str) -> Iterator[tuple[str, str]]:
    kind, content = part[0], part[2] if len(part) > 2 else part[1:]
    if not isinstance(content, tuple):
        yield name, f"{kind.__name__} of {part[1]}, content {content}"
        return
    if len(part) > 2:
        yield f"len({name})", str(part[1])
    for k, item in enumerate(content):
        if issubclass(kind, dict) and isinstance(item, tuple) and len(item) == 2:
            yield from _walk(item[1], f"{name}[{short(item[0])}]", frozenset())
        else:
            yield from _walk(item, f"{name}[{k}]", frozenset())


def _pairs_in(part: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for rest in part[1:]:
        if isinstance(rest, tuple):
            yield from (x for x in rest if isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str))


def _below(name: str, inner: str) -> str:
    """A global of a function that the compiled one calls is told with that function's name."""
    return f"{name.split(' ')[-1]}: {inner}" if name else inner


def _identity(x: Any) -> str:
    """An object by its kind and where it is, so that another one is another text."""
    if isinstance(x, Tensor):
        return f"{x.type_} (tensor {id(x):#x})"
    if isinstance(x, _CODE):
        return f"{getattr(x, '__qualname__', type(x).__name__)} ({id(x):#x})"
    return f"{type(x).__name__} ({id(x):#x})"


def short(value: Any) -> str:
    """A value as written, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


# modules and optimizers -----------------------------------------------------------------------------------


def facts_of_thing(thing: Any, name: str) -> Facts:
    """The state of a module or an optimizer that its change counter stands for."""
    found: Facts = {}
    if hasattr(thing, "named_modules"):
        for path, module in thing.named_modules():
            found.update(_of_module(module, f"{name}.{path}" if path else name))
    for k, group in enumerate(getattr(thing, "param_groups", ())):
        for option, value in group.items():
            text = f"{len(value)} tensors" if option == "params" else short(value)
            found[f"{name}.param_groups[{k}][{option!r}]"] = text
    return found


def _of_module(module: Any, name: str) -> Iterator[tuple[str, str]]:
    yield f"class of {name}", type(module).__qualname__
    for attribute, value in vars(module).items():
        if attribute.endswith("_hooks"):
            yield f"{name}.{attribute}", str(len(value))
        elif not attribute.startswith("_"):
            yield f"{name}.{attribute}", short(value) if isinstance(value, _SCALARS) else _identity(value)
    for registry in ("_parameters", "_buffers"):
        for attribute, t in vars(module)[registry].items():
            if t is None:
                yield f"{name}.{attribute}", "None"
            else:
                yield f"{name}.{attribute}", _identity(t)
                yield f"{name}.{attribute}.requires_grad", str(t.requires_grad)


# differences ----------------------------------------------------------------------------------------------


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What differs: `arg x: dim 0 8 -> 9`."""
    found = []
    for name in dict.fromkeys([*new, *old]):
        a, b = old.get(name), new.get(name)
        if a != b:
            found.append(f"{name.strip()}: {_change(a, b)}")
    return found


def _change(a: str | None, b: str | None) -> str:
    if a is None or b is None:
        return f"{'not given' if a is None else a} -> {'not given' if b is None else b}"
    if "[" in a and "[" in b and (dims := _dims(a, b)) is not None:
        return dims
    if _without_place(a) == _without_place(b):
        return f"another {_without_place(a)} of the same kind" if "(" in a else "changed"
    return f"{_without_place(a)} -> {_without_place(b)}"


def _without_place(text: str) -> str:
    return text.split(" (0x")[0].split(" (tensor 0x")[0]


def _dims(a: str, b: str) -> str | None:
    """The sizes that differ between two tensor types that are alike otherwise."""
    (kind, _, left), (other, _, right) = a.partition("["), b.partition("[")
    old, new = left.partition("]"), right.partition("]")
    sizes = [part[0].split(",") for part in (old, new)]
    if kind != other or old[2] != new[2] or len(sizes[0]) != len(sizes[1]):
        return None
    if not all(s.isdigit() for s in (*sizes[0], *sizes[1])):
        return None
    changed = [f"dim {d} {x} -> {y}" for d, (x, y) in enumerate(zip(*sizes, strict=True)) if x != y]
    return ", ".join(changed) or None
