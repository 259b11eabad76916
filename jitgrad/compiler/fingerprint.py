"""What a compiled function's Python surroundings looked like: compared at each call, never assumed.

A fingerprint covers what the function can reach through its closure, the globals it names, the functions those
name in turn, and the objects it is given: numbers and strings by value, tensors and other objects by identity,
modules and optimizers by their change counter, containers and plain objects by content, some levels deep.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from ..tensor import Tensor

_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_DEPTH = 4
_LONG = 64
_HASHED_BYTES = 65_536  # numbers of larger arrays are data, not settings; as tensors they are read anew at each call


class StandsForFunction:
    """Base of objects that run a function `_f` and keep notes of their own, which are no part of a fingerprint."""

    _f: Callable[..., Any]


def fingerprint(x: Any, depth: int = _DEPTH) -> Hashable:
    """A hashable that changes when `x` does; it holds references, so that identities stay valid."""
    kind = type(x)
    if kind is types.FunctionType and depth > 0:
        return (Same(x), _function(x, depth - 1))
    if kind in _SCALARS:
        return (kind, x) if kind is not float else (kind, x.hex())
    if isinstance(x, Tensor):
        return Same(x)
    if isinstance(x, np.ndarray):
        return (Same(x), x.shape, x.dtype, hash(x.tobytes()) if x.nbytes <= _HASHED_BYTES else None)
    epoch = getattr(x, "_epoch", None)
    if epoch.__class__ is int:
        return (Same(x), epoch)
    if depth == 0:
        return Same(x)
    if kind in (list, tuple, set, frozenset):
        items = list(x) if kind in (list, tuple) else sorted(map(repr, x))
        return (kind, len(items), tuple([fingerprint(v, depth - 1) for v in items[:_LONG]]))
    if kind is dict:
        pairs = list(x.items())[:_LONG]
        return (kind, len(x), tuple([(_name(k), fingerprint(v, depth - 1)) for k, v in pairs]))
    if isinstance(x, StandsForFunction):
        return (Same(x), fingerprint(x._f, depth))
    if isinstance(x, types.MethodType):
        return (Same(x.__func__), fingerprint(x.__self__, depth), _function(x.__func__, depth - 1))
    if isinstance(x, (type, types.ModuleType)) or not hasattr(x, "__dict__"):
        return Same(x)
    return (Same(x), fingerprint(vars(x), depth - 1))


def _name(key: Any) -> Hashable:
    return key if isinstance(key, _SCALARS) else Same(key)


class Same:
    """Compares by identity and keeps its object alive."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.x is other.x

    def __hash__(self) -> int:
        return id(self.x)

    def __repr__(self) -> str:
        return f"{type(self.x).__name__} object"


def tensors_in(found: Any) -> Iterator[Tensor]:
    """The tensors that a fingerprint names."""
    stack = [found]
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            stack.extend(x)
        elif isinstance(x, Same) and isinstance(x.x, Tensor):
            yield x.x


def _function(f: types.FunctionType, depth: int) -> Hashable:
    """What a function's code can reach by name."""
    if depth <= 0 or is_library(f.__module__):
        return None
    return tuple([(name, fingerprint(value, depth)) for name, value in reached(f)])


def is_library(module: str | None) -> bool:
    """Whether code of this module is taken to depend on its arguments alone."""
    return module is None or module.partition(".")[0] in _LIBRARIES


_LIBRARIES = frozenset({"jitgrad", "numpy", "builtins", "math", "functools", "itertools"})


def reached(f: types.FunctionType) -> list[tuple[str, Any]]:
    """Closure cells and named globals of `f` and of the code objects inside it, with their values."""
    code, namespace = f.__code__, f.__globals__
    found = [(n, namespace[n]) for n in _global_names(code) if n in namespace]
    if f.__closure__:
        found += zip(code.co_freevars, map(_content, f.__closure__), strict=True)
    if f.__defaults__:
        found.append(("<defaults>", f.__defaults__))
    return [pair for pair in found if pair[1].__class__ is not types.ModuleType]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


@functools.lru_cache(4096)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """The globals that `code` and the code objects inside it read; names of attributes are not among them."""
    names: dict[str, None] = {}
    stack = [code]
    while stack:
        current = stack.pop()
        names.update((i.argval, None) for i in dis.get_instructions(current) if i.opname in _READS)
        stack.extend(c for c in current.co_consts if isinstance(c, types.CodeType))
    return tuple(names)


_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
