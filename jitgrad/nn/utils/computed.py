"""Attributes of a module that are computed from its parameters each time they are read.

Such a module is of a subclass with properties. Being read in `forward`, the computation is part of a trace, and
nothing is written to the module. A class of properties never changes: copies of a module share it.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

from ..module import Module

_CLASSES = 4096


class Computed(Protocol):
    """How an attribute is read and set."""

    def read(self, module: Any) -> Any:
        """The value, computed from the module's parameters."""

    def write(self, module: Any, value: Any) -> None:
        """Set what the value is computed from."""


def base_of(module: Module) -> type[Module]:
    """The module's class without computed attributes."""
    return getattr(type(module), "_computed_base", type(module))


def set_computed(module: Module, name: str, computed: Computed | None, prefix: str = "") -> None:
    """Make `module.name` computed, or with None an ordinary attribute again. `prefix` is for the name of the class."""
    table = dict(module.__dict__.get("_computed", {}))
    if computed is None:
        del table[name]
    else:
        table[name] = computed
    module._computed = table
    cls = base_of(module)
    module.__class__ = _with_properties(cls, tuple(sorted(table)), prefix) if table else cls
    module._count_change()


@functools.lru_cache(_CLASSES)
def _with_properties(base: type[Module], names: tuple[str, ...], prefix: str) -> type[Module]:
    def remade(self: Module, protocol: Any) -> Any:
        return _empty, (base, names, prefix), self.__getstate__()

    members = {"_computed_base": base, "__reduce_ex__": remade, "__module__": __name__, "__doc__": base.__doc__}
    made = type(base)(f"{prefix}{base.__name__}", (base,), {**members, **{name: _property(name) for name in names}})
    made.__qualname__ = made.__name__
    return made


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        return self.__dict__["_computed"][name].read(self)

    def write(self: Any, value: Any) -> None:
        self.__dict__["_computed"][name].write(self, value)

    return property(read, write)


def _empty(base: type[Module], names: tuple[str, ...], prefix: str) -> Module:
    """A module to be filled by `__setstate__`, for copies and pickles."""
    cls = _with_properties(base, names, prefix)
    return cls.__new__(cls)
