"""Transforms of compiled functions: they are compiled functions too, of the transform of what was compiled."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ..compiler.function import CompiledFunction

_MOST = 32  # transforms of one function that are kept


def of_compiled(func: Any, transform: Callable[[Any], Any], *options: Any) -> CompiledFunction | None:
    """If `func` is compiled, the compiled `transform` of what it was made from; the same one for the same options.

    The first of `options` names the transform.

    >>> of_compiled(len, lambda f: f, "none") is None
    True
    """
    if not isinstance(func, CompiledFunction):
        return None
    if not _is_hashable(options):
        return _made(func, transform)
    kept: dict[Any, CompiledFunction] = func.__dict__.setdefault("_transforms", {})
    found = kept.get(options)
    if found is None:
        found = kept[options] = _made(func, transform)
        while len(kept) > _MOST:
            kept.pop(next(iter(kept)))
    return found


def _made(func: CompiledFunction, transform: Callable[[Any], Any]) -> CompiledFunction:
    return CompiledFunction(
        transform(func._f), fullgraph=func._fullgraph, dump=func._dump, numerics=func._numerics
    )  # fmt: skip


def _is_hashable(options: tuple[Any, ...]) -> bool:
    if not isinstance(options, Hashable):
        return False
    try:
        hash(options)
    except TypeError:
        return False
    return True
