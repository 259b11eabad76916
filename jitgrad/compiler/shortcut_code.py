"""A Python function under construction, with the objects that it names."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

_FIRST: Final = 16  # the call at length after which a shortcut is made; again whenever there were twice as many
_MOST: Final = 4
_MOST_COUNTED: Final = 128  # specialisations
Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
MISSED: Final = object()  # what a shortcut gives where it can't serve a call


class Unsuited(Exception):
    """A specialisation whose calls have to go the long way."""


class Code:
    """Collects conditions and statements of `shortcut(args, named)`. Objects have names, one each.

    What is in the arguments is unpacked between the conditions of what is around and those of `a0`, `a1`, ..., which
    are the leaves of the arguments; all of them are `leaves`.
    """

    def __init__(self) -> None:
        self.conditions: dict[str, None] = {}  # expressions that are true where the call has to go the long way
        self.unpacked: list[str] = []  # statements after which there is `a0`, `a1`, ...
        self.leaves = "args"
        self.arguments: dict[str, None] = {}  # the same, of arguments `a0`, `a1`, ...
        self._names: dict[int, str] = {}
        self._space: dict[str, Any] = {"MISSED": MISSED}

    def name(self, x: Any) -> str:
        """The name of an object."""
        found = self._names.get(id(x))
        return self.define(f"k{len(self._names)}", x) if found is None else found

    def define(self, name: str, x: Any) -> str:
        """Give an object this name."""
        self._names[id(x)] = name
        self._space[name] = x
        return name

    def miss_if(self, condition: str) -> None:
        """Go the long way where this is true."""
        self.conditions[condition] = None

    def miss_if_argument(self, condition: str) -> None:
        """The same; looked at once there is `a0`, `a1`, ..."""
        self.arguments[condition] = None

    def function(self, statements: Sequence[str]) -> Call:
        """The function that goes on with these statements where no condition holds."""
        checks = [f"if {c}: return MISSED" for c in self.conditions]
        checks += self.unpacked
        checks += [f"if {c}: return MISSED" for c in self.arguments]
        body = [f"    {x}" for x in (*checks, *statements)]
        space = dict(self._space)
        exec(_compiled("\n".join(["def shortcut(args, named):", *body, ""])), space)
        made: Call = space["shortcut"]
        return made


@functools.lru_cache(512)
def _compiled(text: str) -> types.CodeType:
    """Functions that differ in their objects alone share their code."""
    return compile(text, "<jitgrad shortcut>", "exec")


class Shortcuts:
    """Those of one function; `calls` are tried in order, with the arguments of a call, and those given by name."""

    __slots__ = ("_made", "_served", "calls")

    def __init__(self) -> None:
        self.calls: tuple[Call, ...] = ()
        self._made: dict[Any, Any] = {}  # by specialisation: a shortcut, and one that only checks
        self._served: dict[Any, int] = {}

    def forget(self, specs: Iterable[Any]) -> None:
        """Let go of these specialisations, as another one may serve their calls now."""
        for spec in list(specs):
            self._made.pop(spec, None)
            self._served.pop(spec, None)
        self._list()

    def _list(self) -> None:
        self.calls = tuple([call for call, _ in self._made.values()])

    def served(self, spec: Any, make: Callable[[], Any]) -> None:
        """A specialisation has served a call at length; `make` gives its shortcut, or None."""
        if len(self._served) > _MOST_COUNTED:
            self._served.clear()
        count = self._served[spec] = self._served.get(spec, 0) + 1
        if count < _FIRST or count & (count - 1):
            return
        self._made.pop(spec, None)
        made = make()
        if made is not None:
            self._made[spec] = made
        while len(self._made) > _MOST:
            self._made.pop(next(iter(self._made)))
        self._list()

    def checks(self) -> list[Call]:
        """Functions that tell whether a shortcut serves a call, and do nothing else."""
        return [check for _, check in self._made.values()]
