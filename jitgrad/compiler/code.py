"""What code reads by name: globals, cells, attributes."""

from __future__ import annotations

import dis
import functools
import sys
import types
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..memo import Memo

_LIBRARIES = frozenset({"jitgrad", "numpy"})  # code of these is taken to depend on its arguments alone
_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})  # what is written counts, too:
_IMPORTS = frozenset({"IMPORT_NAME"})
_ATTRIBUTES = frozenset({  # a replay would not write it
    "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "STORE_ATTR", "DELETE_ATTR",
})  # fmt: skip
_BY_PATTERN = "__match_args__"  # names of attributes in `case Point(x=0)`
DYNAMIC = frozenset({
    "getattr", "vars", "hasattr", "__dict__", "__getattribute__", "attrgetter", "methodcaller", "asdict", "astuple",
    "copy", "deepcopy", _BY_PATTERN,
})  # fmt: skip


@functools.lru_cache(4096)
def is_library(module: str | None) -> bool:
    """Whether code of this module is taken to depend on its arguments alone."""
    return module is not None and module.partition(".")[0] in _LIBRARIES


@functools.lru_cache(4096)
def is_standard(module: str | None) -> bool:
    """Whether this is a module of Python's standard library, or an installed one: of their state, only data counts."""
    if module is None or module == "__main__":
        return False
    if module.partition(".")[0] in sys.stdlib_module_names:
        return True
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path


class Reads:
    """The attribute names that some code objects read."""

    __slots__ = ("all_names", "codes", "mentioned", "names", "tensors")

    def __init__(self, all_names: bool = False) -> None:
        self.codes: dict[int, types.CodeType] = {}
        self.names: set[str] = set()
        self.mentioned: set[str] = set()  # these, and globals
        self.all_names = all_names
        self.tensors: dict[int, weakref.ref[Any]] = {}  # arrays that become tensors in calls, by identity

    def add(self, code: types.CodeType) -> None:
        """Count in what `code` reads."""
        if id(code) not in self.codes:
            self.codes[id(code)] = code
            names = attribute_names(code)
            self.names |= names
            self.mentioned.update(*[inner.co_names for inner in _with_inner(code)])
            self.all_names = self.all_names or not names.isdisjoint(DYNAMIC)

    def is_data(self, array: Any) -> bool:
        """Whether an array becomes a tensor in calls."""
        found = self.tensors.get(id(array))
        return found is not None and found() is array

    def has(self, name: str) -> bool:
        """Whether one of them may read an attribute of this name."""
        return self.all_names or name in self.names

    def among(self, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Those of `values` that they may read, by name."""
        if self.all_names:
            return [(n, v) for n, v in values.items() if not n.startswith("__")]
        names = self.names
        if len(values) > len(names):
            return [(n, values[n]) for n in names if n in values]
        return [(n, v) for n, v in values.items() if n in names]


_reads: Memo[tuple[Any, Reads]] = Memo(limit=4096)


def reads_of(root: Any) -> Reads:
    """What is known of the code that `root` reaches; kept from call to call, and only ever more."""
    at = getattr(getattr(root, "_f", root), "__code__", root)
    found = _reads.get(id(at))
    return _reads.add(id(at), (at, Reads()))[1] if found is None else found[1]


@functools.lru_cache(4096)
def attribute_names(code: types.CodeType) -> frozenset[str]:
    """The attributes that a code object and those inside it read."""
    names: set[str] = set()
    for current in _with_inner(code):
        for i in dis.get_instructions(current):
            kind = i.opname
            if kind in _ATTRIBUTES:
                names.add(i.argval)
            elif kind == "MATCH_CLASS":
                names.add(_BY_PATTERN)
        names.update(DYNAMIC.intersection(current.co_names))
    return frozenset(names)


def _with_inner(code: types.CodeType) -> list[types.CodeType]:
    found = [code]
    for current in found:
        found.extend(c for c in current.co_consts if isinstance(c, types.CodeType))
    return found


def reached(f: types.FunctionType) -> list[tuple[str, Any]]:
    """Closure cells and named globals of `f` and of the code objects inside it, with their values."""
    code, namespace = f.__code__, f.__globals__
    names, imported = global_names(code)
    found = [(n, v) for n in names if n in namespace and not _is_library_module(v := namespace[n])]
    if f.__closure__:
        found += zip(code.co_freevars, map(_content, f.__closure__), strict=True)
    if imported:
        found += [(n, sys.modules[n]) for n in imported if n in sys.modules]
    return found


def _is_library_module(value: Any) -> bool:
    return value.__class__ is types.ModuleType and value is not np and is_library(value.__name__)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


@functools.lru_cache(4096)
def global_names(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals that `code` and the code objects inside it read, and the modules that they import."""
    names: dict[str, None] = {}
    imported: dict[str, None] = {}
    for current in _with_inner(code):
        for i in dis.get_instructions(current):
            if i.opname in _GLOBALS:
                names[i.argval] = None
            elif i.opname in _IMPORTS:
                imported[i.argval] = None
    return tuple(names), tuple(imported)
