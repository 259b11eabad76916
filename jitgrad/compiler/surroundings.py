"""What a module or an optimizer depends on that its change counter does not see.

The counter follows attributes that are set. Beside it, the code of `forward` (or `step`) may read attributes of the
class, globals, and what is inside lists, dicts and objects that it holds. Which of these it can reach is read off
its code once, when it is traced; at each call only their values are compared.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from .code import DYNAMIC, attribute_names, is_library, is_standard, reached
from .fingerprint import fingerprint, is_fixed

_ENTRIES = ("forward", "step", "__call__")

Read = Callable[[], Hashable]
_ABSENT = object()


class Surroundings:
    """Values that a trace depends on, each with a name and what it was."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()
        self._kept: list[Any] = []
        self._probes: list[tuple[str, Read, Hashable]] = []
        self._methods: list[tuple[Mapping[str, Any], str, Any, str]] = []  # a class's attributes, one's name, it, label

    def add(self, thing: Any) -> None:
        """Depend on what `thing` depends on."""
        cls = type(thing)
        if id(cls) not in self._seen:
            self._seen.add(id(cls))
            self._kept.append(cls)
            for name, read in _of_class(cls):
                self._probes.append((name, read, read()))
            self._methods += _methods(cls)
        for name, value in _of_instance(thing):
            read = functools.partial(fingerprint, value)
            self._probes.append((f"{cls.__name__}.{name}", read, read()))

    def watch(self, owner: Any, name: str, read: Read) -> None:
        """Depend on one value, which `read` gives."""
        key = (id(owner), name)
        if key not in self._seen:
            self._seen.add(key)
            self._kept.append(owner)
            self._probes.append((name, read, read()))

    def classes(self) -> list[type]:
        """The classes whose methods and attributes are depended on."""
        return [x for x in self._kept if isinstance(x, type)]

    def probes(self) -> list[tuple[Read, Hashable]]:
        """What gives each value beside methods, and what it was."""
        return [(read, value) for _, read, value in self._probes]

    def copy(self) -> Surroundings:
        """What is depended on now, to be compared later."""
        other = Surroundings()
        other._kept, other._probes, other._methods = list(self._kept), list(self._probes), list(self._methods)
        return other

    def __len__(self) -> int:
        return len(self._probes) + len(self._methods)

    def changes(self) -> Iterator[tuple[str, Hashable, Hashable]]:
        """All that is not as it was: its name, what it was and what it is."""
        for attributes, name, value, label in self._methods:
            if (now := attributes.get(name, _ABSENT)) is not value:
                yield label, fingerprint(value), fingerprint(now)
        for name, read, before in self._probes:
            if (current := read()) != before:
                yield name, before, current

    def values(self) -> list[tuple[str, Hashable]]:
        """All values that are depended on, by name."""
        return [(name, value) for name, _, value in self._probes]

    def changed(self) -> str | None:
        """The name of something that is not as it was."""
        for attributes, name, value, label in self._methods:
            if attributes.get(name, _ABSENT) is not value:
                return label
        for name, read, value in self._probes:
            if read() != value:
                return name
        return None


def _of_class(cls: type) -> Iterator[tuple[str, Read]]:
    """The methods that the entry points reach, what those read by name, and class attributes they use."""
    for name in sorted(_reachable(cls)):
        label = f"{cls.__name__}.{name}"
        functions = _functions(cls, name)
        if not functions:
            yield label, functools.partial(_class_value, cls, name)
            continue
        for function in functions:
            if reached(function):
                yield f"a global that {label} reads", functools.partial(fingerprint, function)


def followed_by(read: Read) -> tuple[Any, ...]:
    """The object whose fingerprint a probe gives, while the classes are what they are; empty if it is another kind."""
    if not isinstance(read, functools.partial):
        return ()
    if read.func is _class_value:
        cls, name = read.args
        return (getattr(cls, name, None),)
    return read.args if read.func is fingerprint else ()


def _class_value(cls: type, name: str) -> Hashable:
    return fingerprint(getattr(cls, name, None))


def _methods(cls: type) -> Iterator[tuple[Mapping[str, Any], str, Any, str]]:
    """Where the names that are reached are defined, or might be, among the user's classes."""
    for name in sorted(_reachable(cls)):
        if _functions(cls, name):
            for base in cls.__mro__:
                if not _is_library_class(base):
                    yield base.__dict__, name, base.__dict__.get(name, _ABSENT), f"{cls.__name__}.{name}"


def _functions(cls: type, name: str) -> list[types.FunctionType]:
    """What the user's classes define under a name, which `super()` goes through."""
    owners = [base for base in cls.__mro__ if name in base.__dict__ and not _is_library_class(base)]
    found = [_function_of(base.__dict__[name]) for base in owners]
    return [f for f in found if f is not None]


def _is_library_class(cls: type) -> bool:
    return is_library(cls.__module__) or is_standard(cls.__module__)


def _function_of(value: Any) -> types.FunctionType | None:
    """The function behind a method, a property or a wrapped function."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def _owner(cls: type, name: str) -> type | None:
    """The user's class that defines `name`."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return None if _is_library_class(base) else base
    return None


def _reachable(cls: type) -> set[str]:
    """Names defined by the user's classes that the code of the entry points can get to."""
    found: set[str] = set()
    stack = [name for name in _ENTRIES if _owner(cls, name) is not None]
    while stack:
        name = stack.pop()
        if name in found or _owner(cls, name) is None:
            continue
        found.add(name)
        for function in _functions(cls, name):
            for code in _codes(function):
                stack.extend(attribute_names(code))
    return found


def _codes(function: Any) -> Iterator[types.CodeType]:
    """The code of a function, and of those that its decorators wrapped."""
    while isinstance(function, types.FunctionType):
        yield function.__code__
        function = getattr(function, "__wrapped__", None)


def _of_instance(thing: Any) -> Iterator[tuple[str, Any]]:
    """Attributes that can change inside without being set, if the code may read them; and hooks."""
    names = _read_of_instances(type(thing))
    for name, value in list(vars(thing).items()):
        if name.endswith("_hooks") and name.startswith("_"):
            if value:
                yield name, [getattr(hook, "function", hook) for hook in value.values()]
        elif not name.startswith("_") and (names is None or name in names) and not is_fixed(value):
            yield name, value


def _read_of_instances(cls: type) -> set[str] | None:
    """Attributes that the user's code reads of an instance; None for all."""
    names: set[str] = set()
    for name in _reachable(cls):
        for function in _functions(cls, name):
            for code in _codes(function):
                names |= attribute_names(code)
    return None if not names or names & DYNAMIC else names
