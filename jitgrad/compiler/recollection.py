"""The fingerprint of a compiled function's last call, and what to look at to know that it is the same again.

Most calls find everything as the last one did. Where all that a fingerprint says follows from which objects cells and
globals hold, and from change counters, comparing these takes a fraction of what making a fingerprint takes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from ..epoch import Counted
from ..object_layout import tag_offset, version_tag
from ..tensor import Tensor
from .code import Reads, global_names, is_library, is_standard
from .fingerprint import SCALARS, StandsForFunction, named_of_class, open_values, rule_of, users

MISSING: Final = object()
_ATTEMPTS: Final = 16  # in a row without use, after which a function is left alone


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
        "cells", "classes", "counted", "fingerprint", "functions", "known", "names", "reads", "seen", "stand_ins",
        "tensors",
    )  # fmt: skip

    def __init__(self, fingerprint: Hashable, reads: Reads) -> None:
        self.fingerprint = fingerprint
        self.reads = reads
        self.known = len(reads.codes)  # how much code had been read
        self.seen: set[int] = set()
        self.functions: list[tuple[types.FunctionType, Any, Any, Any]] = []
        self.cells: list[tuple[types.CellType, Any]] = []
        self.names: list[tuple[dict[str, Any], str, Any]] = []
        self.counted: list[tuple[Counted, int]] = []
        self.tensors: list[Tensor] = []
        self.classes: list[tuple[type, int]] = []  # with their version tags
        self.stand_ins: list[tuple[StandsForFunction, Any]] = []

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
        for f, code, defaults, named in self.functions:
            if f.__code__ is not code or f.__defaults__ is not defaults or f.__kwdefaults__ is not named or f.__dict__:
                return False
        for cls, tag in self.classes:
            if version_tag(cls) != tag:
                return False
        for t in self.tensors:
            if t.__dict__:
                return False
        return all(x._f is f for x, f in self.stand_ins)

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
        if f.__dict__ or f.__kwdefaults__:
            return False
        self.functions.append((f, f.__code__, f.__defaults__, f.__kwdefaults__))
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
        return m is not np and is_library(m.__name__)

    def _builtin(self, f: types.BuiltinFunctionType) -> bool:
        return f.__self__ is None or isinstance(f.__self__, types.ModuleType)

    def _sequence(self, items: Any) -> bool:
        return type(items) is tuple and all(map(self.add, items))

    def _cls(self, c: type) -> bool:
        """A user's class, if it has a version tag: it is another one as soon as an attribute is set."""
        if not users(c):
            return True
        tag = version_tag(c) if tag_offset() is not None else 0
        self.classes.append((c, tag))
        return bool(tag) and all(self.add(v) for _, v in named_of_class(c, self.reads))

    def _same(self, x: Any) -> bool:
        return True


_RULES: Final[dict[str, Callable[[Recollection, Any], bool]]] = {
    "function": Recollection._function, "method": Recollection._method, "counted": Recollection._counted,
    "tensor": Recollection._tensor, "stand_in": Recollection._stand_in, "python_module": Recollection._module,
    "builtin": Recollection._builtin, "sequence": Recollection._sequence, "same": Recollection._same,
    "cls": Recollection._cls,
}  # fmt: skip
