"""The fingerprint of a compiled function's last call, and what to look at to know that it is the same again.

Most calls find everything as the last one did. Where all that a fingerprint says follows from which objects cells and
globals hold, and from change counters, comparing these takes a fraction of what making a fingerprint takes.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import Any, Final

import numpy as np

from ..epoch import Counted
from ..object_layout import tag_offset, version_tag
from ..tensor import Tensor
from .code import Reads, global_names, is_library, is_standard
from .fingerprint import (
    EMPTY,
    HEAP,
    HIDDEN,
    SCALARS,
    StandsForFunction,
    has_state,
    held,
    named_of_class,
    open_values,
    rule_of,
    slots_of,
    users,
    uses_library,
)

MISSING: Final = object()
_ATTEMPTS: Final = 16  # in a row without use, after which a function is left alone
_MOST_ITEMS: Final = 16  # of a container


class Recollections:
    """What is remembered of a function, one fingerprint at a time."""

    def __init__(self, reads: Callable[[], Reads]) -> None:
        self._reads = reads
        self._last: Recollection | None = None
        self._left = _ATTEMPTS

    def recall(self) -> Hashable | None:
        """The last fingerprint, if it is this call's."""
        last = self._last
        if last is not None:
            if last.holds(self._reads()):
                self._left = _ATTEMPTS
                return last.fingerprint
            self._last = None
        return None

    def remember(self, f: Any, fingerprint: Hashable) -> None:
        """Keep a fingerprint that has just been made for `f`, if it can be known again."""
        if self._left and self._last is None:
            self._left -= 1
            found = Recollection(fingerprint, self._reads())
            if found.add(f):
                self._last = found


class Recollection:
    """What a fingerprint follows from: `add(x)` notes what is looked at, and says whether that is enough."""

    __slots__ = (
        "absent", "cells", "classes", "counted", "dicts", "empty", "fingerprint", "functions", "known", "lengths",
        "lists", "names", "objects", "reads", "seen", "slots", "stand_ins", "tensors",
    )  # fmt: skip

    def __init__(self, fingerprint: Hashable, reads: Reads) -> None:
        self.fingerprint = fingerprint
        self.reads = reads
        self.known = len(reads.codes)  # how much code had been read
        self.seen: set[int] = set()
        self.functions: list[tuple[types.FunctionType, Any, Any, Any, Any]] = []  # the last: attributes, if there are
        self.cells: list[tuple[types.CellType, Any]] = []
        self.names: list[tuple[dict[str, Any], str, Any]] = []
        self.counted: list[tuple[Counted, int]] = []
        self.tensors: list[Tensor] = []
        self.classes: list[tuple[type, int]] = []  # with their version tags
        self.stand_ins: list[tuple[StandsForFunction, Any]] = []
        self.objects: list[tuple[Any, type, dict[str, Any] | None]] = []  # with class and attributes
        self.slots: list[tuple[Any, types.MemberDescriptorType, Any]] = []
        self.absent: list[tuple[Callable[[Iterable[str]], bool], Set[str]]] = []  # whether a dict has none of these
        self.lengths: list[tuple[dict[str, Any], int]] = []
        self.dicts: list[tuple[dict[str, Any], list[str]]] = []  # with their keys in order
        self.lists: list[tuple[list[Any], list[Any]]] = []
        self.empty: list[Any] = []

    def holds(self, reads: Reads) -> bool:
        """Whether all is as it was."""
        if len(reads.codes) != self.known:
            return False
        for thing, epoch in self.counted:
            if thing._epoch != epoch:
                return False
        try:
            for cell, value in self.cells:
                if cell.cell_contents is not value:
                    return False
        except ValueError:  # it is empty now
            return False
        for namespace, name, value in self.names:
            if namespace.get(name, MISSING) is not value:
                return False
        for f, code, defaults, named, attributes in self.functions:
            if f.__code__ is not code or f.__defaults__ is not defaults or f.__kwdefaults__ is not named:
                return False
            if f.__dict__ if attributes is None else f.__dict__ is not attributes:
                return False
        for cls, tag in self.classes:
            if version_tag(cls) != tag:
                return False
        for t in self.tensors:
            if t.__dict__:
                return False
        return all(x._f is f for x, f in self.stand_ins) and self._objects_hold() and self._containers_hold()

    def _objects_hold(self) -> bool:
        for x, cls, attributes in self.objects:
            if type(x) is not cls or (attributes is not None and x.__dict__ is not attributes):
                return False
        for x, slot, value in self.slots:
            if held(slot, x) is not value:
                return False
        return all(has_none(names) for has_none, names in self.absent)

    def _containers_hold(self) -> bool:
        for items, count in self.lengths:
            if len(items) != count:
                return False
        for items, keys in self.dicts:
            if [*items] != keys:
                return False
        for values, known in self.lists:
            if len(values) != len(known) or any(a is not b for a, b in zip(values, known, strict=False)):
                return False
        return not any(self.empty)

    def add(self, x: Any) -> bool:
        """Note what the fingerprint of `x` follows from; whether it can be told."""
        kind = type(x)
        if kind in SCALARS or id(x) in self.seen:
            return True
        self.seen.add(id(x))
        rule = _RULES.get(rule_of(kind))
        return rule is not None and rule(self, x)

    def _function(self, f: types.FunctionType) -> bool:
        if is_library(f.__module__) or is_standard(f.__module__):
            return True
        attributes = f.__dict__ or None
        self.functions.append((f, f.__code__, f.__defaults__, f.__kwdefaults__, attributes))
        if attributes is not None and not self._entries(attributes, [n for n in attributes if n not in HIDDEN]):
            return False
        if f.__kwdefaults__ and not self.add(f.__kwdefaults__):
            return False
        names, imported = global_names(f.__code__)
        if imported:
            return False
        namespace = f.__globals__
        found = [(namespace, n, namespace.get(n, MISSING)) for n in names]
        self.names += found
        try:
            cells = [(cell, cell.cell_contents) for cell in f.__closure__ or ()]
        except ValueError:
            return False
        self.cells += cells
        values = [*(f.__defaults__ or ()), *(v for _, _, v in found if v is not MISSING), *(v for _, v in cells)]
        return all(map(self.add, values))

    def _method(self, m: types.MethodType) -> bool:
        return self.add(m.__func__) and self.add(m.__self__)

    def _counted(self, x: Counted) -> bool:
        """Its epoch, what its code reads of what can change inside without being set, and its class."""
        self.counted.append((x, x._epoch))
        return all(self.add(v) for n, v in open_values(x) if self.reads.has(n)) and self.add(type(x))

    def _tensor(self, t: Tensor) -> bool:
        self.tensors.append(t)
        return not t.__dict__

    def _stand_in(self, x: StandsForFunction) -> bool:
        self.stand_ins.append((x, x._f))
        return self.add(x._f)

    def _module(self, m: types.ModuleType) -> bool:
        """Of the standard library's, objects with state count alone."""
        if m is np:
            return not self.reads.has("random")
        if m is sys or is_library(m.__name__):
            return True
        return self._named(vars(m), has_state if is_standard(m.__name__) else None)

    def _named(self, namespace: dict[str, Any], counts: Callable[[Any], bool] | None = None) -> bool:
        """The entries of a namespace that code names, those that may come included; `counts` says which do."""
        names = self.reads.names
        found = {n: namespace[n] for n in names if n in namespace}
        self.names += [(namespace, n, v) for n, v in found.items()]
        self.absent.append((namespace.keys().isdisjoint, names - found.keys()))
        return all(self.add(v) for v in found.values() if counts is None or counts(v))

    def _all(self, namespace: dict[str, Any]) -> bool:
        return self._entries(namespace, namespace)

    def _entries(self, namespace: dict[str, Any], chosen: Iterable[str]) -> bool:
        """All entries of a namespace, and what the chosen ones are."""
        if len(namespace) > _MOST_ITEMS or not all(type(n) is str for n in namespace):
            return False
        self.names += [(namespace, n, v) for n, v in namespace.items()]
        self.lengths.append((namespace, len(namespace)))
        return all(self.add(namespace[n]) for n in chosen)

    def _builtin(self, f: types.BuiltinFunctionType) -> bool:
        return f.__self__ is None or isinstance(f.__self__, types.ModuleType)

    def _sequence(self, items: Any) -> bool:
        if type(items) is list and len(items) <= _MOST_ITEMS:
            self.lists.append((items, list(items)))
        elif type(items) is not tuple:
            return False
        return all(map(self.add, items))

    def _mapping(self, items: dict[Any, Any]) -> bool:
        if type(items) is not dict or not self._all(items):
            return False
        self.dicts.append((items, list(items)))
        return True

    def _set(self, items: Any) -> bool:
        """One without items."""
        self.empty.append(items)
        return not items and type(items) in (set, frozenset)

    def _cls(self, c: type) -> bool:
        """A user's class, if it has a version tag: it is another one as soon as an attribute is set."""
        if not users(c):
            return True
        tag = version_tag(c) if tag_offset() is not None else 0
        self.classes.append((c, tag))
        return bool(tag) and all(self.add(v) for _, v in named_of_class(c, self.reads))

    def _same(self, x: Any) -> bool:
        return True

    def _object(self, x: Any) -> bool:
        """Attributes and slots that code names, and its class."""
        cls = type(x)
        is_map = is_standard(cls.__module__) and isinstance(x, Mapping)
        if is_map or is_library(cls.__module__) or uses_library(cls) or hasattr(cls, "__next__"):
            return False
        finds: Any = cls.__getattribute__
        if cls.__flags__ & HEAP and finds is not object.__getattribute__:
            return False
        attributes = getattr(x, "__dict__", None)
        read = self._all if self.reads.all_names else self._named
        self.objects.append((x, cls, attributes))
        if attributes is not None and (type(attributes) is not dict or not read(attributes)):
            return False
        slots = [(x, slot, held(slot, x)) for slot in slots_of(cls, self.reads)] if cls.__flags__ & HEAP else []
        self.slots += slots
        return self.add(cls) and all(self.add(value) for _, _, value in slots if value is not EMPTY)


_RULES: Final[dict[str, Callable[[Recollection, Any], bool]]] = {
    "function": Recollection._function, "method": Recollection._method, "counted": Recollection._counted,
    "tensor": Recollection._tensor, "stand_in": Recollection._stand_in, "python_module": Recollection._module,
    "builtin": Recollection._builtin, "sequence": Recollection._sequence, "same": Recollection._same,
    "cls": Recollection._cls, "mapping": Recollection._mapping, "set": Recollection._set,
    "object": Recollection._object,
}  # fmt: skip
