"""How a shortcut gets at the leaves of its arguments: tuples, lists and dicts have to be what they were, in order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .. import pytree
from .shortcut_code import Code, Unsuited


def unpack(code: Code, args: tuple[Any, ...], named: dict[str, Any]) -> Sequence[Any]:
    """The leaves of a call's arguments; `code` gets the statements that name them `a0`, `a1`, ... in calls alike."""
    leaves = pytree.flatten((args, named))[0]
    code.miss_if(f"len(args) != {len(args)}")
    code.miss_if(f"[*named] != {code.name(list(named))}" if named else "named")
    unpacking = _Unpacking(code)
    between = unpacking.items("args", args, 0)
    unpacking.items("named.values()", named.values(), between)
    if named or len(leaves) != len(args) or any(a is not b for a, b in zip(args, leaves, strict=True)):
        code.leaves = "leaves"
        code.unpacked.append(f"leaves = ({''.join(f'a{i}, ' for i in range(len(leaves)))})")
    return leaves


class _Unpacking:
    """Statements of a `Code`; containers are `c0`, `c1`, ..."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self._containers = 0

    def items(self, expression: str, values: Collection[Any], start: int) -> int:
        """Name what an expression gives and what is inside it, from leaf `start` on; the number of the next leaf."""
        names, inner = "", []
        for value in values:
            found, structure = pytree.flatten(value)
            name = f"a{start}"
            if structure != pytree.LEAF:
                name = f"c{self._containers}"
                self._containers += 1
                inner.append((name, value, start))
            names += f"{name}, "
            start += len(found)
        if names:
            self.code.unpacked.append(f"{names}= {expression}")
        for name, value, first in inner:
            self._container(name, value, first)
        return start

    def _container(self, name: str, value: Any, start: int) -> None:
        kind = type(value)
        if kind in (tuple, list):
            self._miss_if(f"{name}.__class__ is not {kind.__name__} or len({name}) != {len(value)}")
            self.items(name, value, start)
        elif kind is dict and all(type(key) is str for key in value):
            self._miss_if(f"{name}.__class__ is not dict or [*{name}] != {self.code.name(list(value))}")
            self.items(f"{name}.values()", value.values(), start)
        else:
            raise Unsuited

    def _miss_if(self, condition: str) -> None:
        self.code.unpacked.append(f"if {condition}: return MISSED")
