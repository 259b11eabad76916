"""Where Python's objects hold what they hold: offsets of slots in bytes, found by looking, for native code to read.

Nothing is taken for granted of an interpreter: an object is made with a value nobody else has, which is then searched
for. Of classes, the version tag is known: a number of four bytes that becomes another one as soon as an attribute of
the class or of a class above it is set or deleted.
"""

from __future__ import annotations

import ctypes
import functools
import types
from typing import Any

from jitgrad.ir.errors import InternalError

_WORD = 8
CLASS = object.__basicsize__ - _WORD  # where an object's class is
TAG_MASK = (1 << 32) - 1
_TAG = 384  # in CPython from 3.8 on
_MANAGED_DICT = 1 << 4  # flag of classes whose instances have their dict in front of them, and where:
_DICT_IN_FRONT = -3 * _WORD
_DEFINITION = types.MemberDescriptorType.__basicsize__ - _WORD  # where a slot's descriptor has the slot's definition
DICT_LENGTH = object.__basicsize__  # where a dict holds the number of its entries


@functools.cache
def slot_offset(cls: type, name: str) -> int:
    """Where instances of a class with `__slots__` hold the slot `name`."""
    holder, value = object.__new__(cls), object()
    setattr(holder, name, value)
    return _offset_of(holder, value)


@functools.cache
def cell_offset() -> int:
    """Where a closure's cell holds its content."""
    value = object()
    return _offset_of(types.CellType(value), value)


@functools.cache
def class_above_offset() -> int:
    """Where a class holds the first of the classes that it is derived from."""

    class Above:
        pass

    class Below(Above):
        pass

    return _offset_of(Below, Above)


def dict_offset(x: Any) -> int | None:
    """Where an object holds the dict of its attributes, which it has from now on; None if that is not known here."""
    cls = type(x)
    offset = _DICT_IN_FRONT if cls.__flags__ & _MANAGED_DICT else cls.__dictoffset__
    if not offset or (offset < 0 and offset != _DICT_IN_FRONT):
        return None
    attributes = x.__dict__
    is_there = ctypes.c_size_t.from_address(id(x) + offset).value == id(attributes)
    return offset if type(attributes) is dict and is_there else None


def described_offset(slot: types.MemberDescriptorType, x: Any, address: int) -> int | None:
    """Where `x` holds the object at `address`, as this attribute of its class tells; None if it does not.

    The class may have code that runs when an object is made, set or deleted, so none is made to find it by looking.
    """
    definition = ctypes.c_size_t.from_address(id(slot) + _DEFINITION).value
    offset = ctypes.c_ssize_t.from_address(definition + 2 * _WORD).value
    if not 0 < offset <= type(x).__basicsize__ - _WORD:
        return None
    return offset if ctypes.c_size_t.from_address(id(x) + offset).value == address else None


@functools.cache
def function_offsets() -> tuple[int, ...]:
    """Where functions hold their code, defaults, defaults of keywords, and attributes."""

    def f(x: Any = (object(),), *, y: Any = object()) -> None:  # noqa: B008
        pass

    f.__dict__["z"] = None
    return tuple([_offset_of(f, x) for x in (f.__code__, f.__defaults__, f.__kwdefaults__, f.__dict__)])


def _offset_of(holder: Any, value: Any) -> int:
    """Where an object holds `value`."""
    count = type(holder).__basicsize__ // _WORD
    words = (ctypes.c_size_t * count).from_address(id(holder))
    found = [k for k in range(2, count) if words[k] == id(value)]
    if len(found) != 1:
        raise InternalError(f"this Python lays out {type(holder).__name__} objects in a way that is not known")
    return found[0] * _WORD


def tag_offset() -> int | None:
    """Where classes hold their version tag; None if that is not known here."""
    return _TAG if _tags_are_known() else None


def version_tag(cls: type) -> int:
    """The version tag of a class: 0 if it has none now."""
    getattr(cls, "__init__", None)  # which gives it one
    return _tag(cls)


def _tag(cls: type) -> int:
    return ctypes.c_uint32.from_address(id(cls) + _TAG).value


@functools.cache
def _tags_are_known() -> bool:
    """Whether classes have tags where they should be: numbers that change with the class and the one above it."""

    class Above:
        x = 1

    class Below(Above):
        pass

    seen: list[int] = []
    for change in (lambda: None, lambda: setattr(Below, "x", 1), lambda: setattr(Above, "x", 2)):
        change()
        if seen and _tag(Below) == seen[-1]:
            return False
        seen.append(version_tag(Below))
        if not seen[-1] or _tag(Below) != seen[-1] or version_tag(Above) == seen[-1]:
            return False
    return len(set(seen)) == len(seen)
