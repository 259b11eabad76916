"""Names for the tensors that a function reaches: those of modules and optimizers, variables and attributes."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..compiler.code import reached
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from ..tensor import Tensor

_MAX_DEPTH = 6
_MAX_ITEMS = 10_000  # of a container; those of larger ones are data
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)


def named_tensors(f: Callable[..., Any]) -> dict[int, tuple[str, str, Tensor]]:
    """Name, kind and tensor, by id, of the tensors that `f` reaches, in a fixed order; the first name counts."""
    found: dict[int, tuple[str, str, Tensor]] = {}
    names: dict[int, str] = {}
    for path, x in reach(f):
        if isinstance(x, Module):
            _add_module(path, x, found)
        elif isinstance(x, Optimizer):
            _add_optimizer(path, x, found)
        elif isinstance(x, Tensor):
            found.setdefault(id(x), (path or "tensor", "parameter" if isinstance(x, Parameter) else "tensor", x))
        names.setdefault(id(x), path)
    return found


def _add_module(path: str, module: Module, found: dict[int, tuple[str, str, Tensor]]) -> None:
    prefix = f"{path}." if path else ""
    for name, p in module.named_parameters():
        found.setdefault(id(p), (f"{prefix}{name}", "parameter", p))
    for name, b in module.named_buffers():
        found.setdefault(id(b), (f"{prefix}{name}", "buffer", b))


def _add_optimizer(path: str, optimizer: Optimizer, found: dict[int, tuple[str, str, Tensor]]) -> None:
    """State as `optimizer.exp_avg.0`, by the number of the parameter as in its `state_dict`."""
    numbers: dict[int, int] = {}
    for group in optimizer.param_groups:
        for p in dict.__getitem__(group, "params"):
            numbers.setdefault(id(p), len(numbers))
    for p, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                name = f"{path or 'optimizer'}.{key}.{numbers.get(id(p), 'other')}"
                found.setdefault(id(value), (name, "optimizer", value))


def reach(f: Any) -> Iterator[tuple[str, Any]]:
    """Objects that `f` reaches, with how they are reached, nearest first."""
    queue: deque[tuple[str, Any, int]] = deque([("", f, 0)])
    seen: set[int] = set()
    while queue:
        path, x, depth = queue.popleft()
        if id(x) in seen or isinstance(x, _PLAIN):
            continue
        seen.add(id(x))
        yield path, x
        if depth < _MAX_DEPTH:
            queue.extend((_join(path, name), v, depth + 1) for name, v in _inside(x))


def _inside(x: Any) -> list[tuple[str, Any]]:
    if isinstance(x, types.MethodType):
        return [("", x.__self__), ("", x.__func__)]
    if isinstance(x, types.FunctionType):
        return [*reached(x), *[("", v) for v in x.__defaults__ or ()]]
    if isinstance(x, (Mapping, list, tuple)) and len(x) > _MAX_ITEMS:
        return []
    if isinstance(x, Mapping):
        return [(str(k), v) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(x)]
    if isinstance(x, Tensor):
        return []
    if hasattr(x, "_f"):  # a compiled function
        return [("", x._f)]
    wrapped = [("", x.func), *[("", a) for a in x.args]] if hasattr(x, "func") and hasattr(x, "args") else []
    attributes = [(n, v) for n, v in getattr(x, "__dict__", {}).items() if not n.startswith("_")]
    code = None if isinstance(x, (Module, Optimizer)) else vars(type(x)).get("__call__")
    return [*wrapped, *attributes, *([("", code)] if isinstance(code, types.FunctionType) else [])]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
