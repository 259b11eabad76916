"""What the annotations of an op class say about its fields."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any

from .graph import Graph
from .op import Op


@functools.cache
def field_types(cls: type[Op]) -> dict[str, Any]:
    """The types that the fields of an op class are annotated with, by name."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}  # type: ignore[arg-type]


@functools.cache
def may_hold_graphs(cls: type[Op]) -> bool:
    """Whether fields of `cls` may be graphs, or hold some in tuples or in ops."""
    return any(map(_admits_graphs, field_types(cls).values()))


def _admits_graphs(hint: Any) -> bool:
    if args := typing.get_args(hint):
        return any(map(_admits_graphs, args))
    return hint is Any or hint is object or (isinstance(hint, type) and issubclass(hint, Graph | Op))


def conforms(value: Any, hint: Any) -> bool:
    """Whether `value` is of the annotated type `hint`. An int may stand for a float, a bool for neither.

    >>> conforms((1, 2), tuple[int, ...]), conforms((1, 2.0), tuple[int, ...]), conforms(None, int | None)
    (True, False, True)
    """
    if hint is Any:
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, a) for a in args)
    if origin is tuple:
        return isinstance(value, tuple) and _all_conform(value, args)
    if origin is typing.Literal:
        return value in args
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, types.NoneType if hint is None else hint)


def _all_conform(items: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return all(conforms(x, hints[0]) for x in items)
    return len(items) == len(hints) and all(map(conforms, items, hints))


def describe(hint: Any) -> str:
    """The annotation as one would write it.

    >>> describe(int), describe(tuple[int, ...])
    ('int', 'tuple[int, ...]')
    """
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
