"""Numbers and lists that only become part of what a call returns: made when the call is over, without a cut."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from jitgrad.ir.graph import Value

from ..arrays import on_host
from ..runtime_float import RuntimeFloat

Convert = Callable[[Any], Any]


class Later:
    """Stands for a number or a list in a result; nothing but the result ever has it."""

    __slots__ = ()


class Deferred:
    """What stands in results of one trace, by identity: of which value it is made, and how."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, Value, Convert]] = {}
        self._made: dict[int, Any] = {}

    def add(self, value: Value, convert: Convert, is_float: bool) -> Any:
        """A new stand-in. `float()` has to give a float, which then is one that no other is."""
        made: Any = float("nan") if is_float else Later()
        self._kept[id(made)] = made, value, convert
        return made

    def of(self, x: Any) -> tuple[Value, Convert] | None:
        """What `x` stands for, if it is a stand-in."""
        found = self._kept.get(id(x))
        return None if found is None else found[1:]

    def values(self) -> list[Value]:
        """The values that are needed."""
        return [value for _, value, _ in self._kept.values()]

    def settle(self, array: Callable[[Value], Any]) -> None:
        """Make all that is stood for, of these arrays."""
        for key, (_, value, convert) in self._kept.items():
            self._made[key] = convert(on_host(array(value)))

    def filled(self, result: Any) -> Any:
        """A result with what belongs there. Only new containers hold stand-ins; others stay as they are."""
        if id(result) in self._made:
            return self._made[id(result)]
        if type(result) is RuntimeFloat:
            return result._now
        if type(result) not in (tuple, list, dict):
            return result
        if type(result) is tuple:
            items = [self.filled(x) for x in result]
            return result if all(map(operator.is_, items, result)) else tuple(items)
        for key, x in list(enumerate(result) if type(result) is list else result.items()):
            made = self.filled(x)
            if made is not x:
                result[key] = made
        return result
