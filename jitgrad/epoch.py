"""Change counters: what a compiled function compares instead of looking into modules and optimizers.

Every `Counted` object has a number, `_epoch`, that is another one after each change that may alter what the object
does. A change counts for the objects that contain this one too, as soon as it is made, so that comparing one
number of the outermost object is enough. A switch that can be put back (a module's training mode) puts the old
number back with it.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_BITS = 64
_next_change = itertools.count(1).__next__
_next_hook = itertools.count().__next__
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


class Counted:
    """An object whose changes are counted, in it and in all that contain it."""

    _epoch: int
    _switch: int
    _containers: dict[int, weakref.ref[Any]]

    def _start_counting(self) -> None:
        """Set up the counter; comes before any change."""
        state = self.__dict__
        state["_epoch"] = _next_change() << _BITS
        state["_switch"] = int.from_bytes(os.urandom(_BITS // 8), "little")
        state["_containers"] = {}

    def _count_change(self) -> None:
        """A number never used before, here and in what contains this."""
        for thing in with_containers(self):
            thing.__dict__["_epoch"] = _next_change() << _BITS

    def _count_switch(self) -> None:
        """Another number; the one before after a second call."""
        switch = self._switch
        for thing in with_containers(self):
            thing.__dict__["_epoch"] ^= switch

    def _contained_by(self, container: Counted) -> None:
        self._containers[id(container)] = weakref.ref(container)

    def _no_longer_contained_by(self, container: Counted) -> None:
        self._containers.pop(id(container), None)


@contextmanager
def changed_for_a_while(things: Iterable[Counted]) -> Iterator[None]:
    """Inside, `things` and all that contain them have other numbers; then the old ones, if nothing else has changed."""
    found = {id(x): x for thing in things for x in with_containers(thing)}.values()
    before = [(x, x._epoch, _next_change() << _BITS) for x in found]
    for x, _, number in before:
        x.__dict__["_epoch"] = number
    try:
        yield
    finally:
        for x, old, number in before:
            if x._epoch == number:
                x.__dict__["_epoch"] = old


COUNTER_FIELDS = frozenset({"_epoch", "_switch", "_containers", "_open_values"})


def with_containers(thing: Counted) -> Iterator[Counted]:
    """`thing` and all that contain it, each once."""
    seen = {id(thing)}
    found = [thing]
    for current in found:
        containers = current._containers
        for key, ref in list(containers.items()):
            container = ref()
            if container is None:
                del containers[key]
            elif key not in seen:
                seen.add(key)
                found.append(container)
    return iter(found)


def unchanged(old: Any, new: Any) -> bool:
    """Whether putting `new` in the place of `old` changes nothing: the same object, or an equal number or string."""
    if old is new:
        return True
    kind = type(new)
    if kind is not type(old):
        return False
    if kind is tuple:
        return len(old) == len(new) and all(map(unchanged, old, new))
    return kind in _SCALARS and old == new


_MISSING = object()


class WatchedDict(dict[Any, Any]):
    """A dict whose changes count as its owner's. It is copied and pickled as a plain dict.

    `matters(key, old, new)` says whether a change counts; by default all but those of `unchanged` do.
    """

    __slots__ = ("__weakref__", "_matters", "_owner")

    def __init__(
        self, owner: Counted, content: Any = (), matters: Callable[[Any, Any, Any], bool] | None = None
    ) -> None:
        super().__init__(content)
        self._owner = weakref.ref(owner)
        self._matters = matters

    def _replaced(self, key: Any, old: Any, new: Any) -> None:
        if unchanged(old, new) or (self._matters is not None and not self._matters(key, old, new)):
            return
        owner = self._owner()
        if owner is not None:
            owner._count_change()

    def __setitem__(self, key: Any, value: Any) -> None:
        old = dict.get(self, key, _MISSING)
        super().__setitem__(key, value)
        self._replaced(key, old, value)

    def __delitem__(self, key: Any) -> None:
        old = dict.get(self, key, _MISSING)
        super().__delitem__(key)
        self._replaced(key, old, _MISSING)

    def pop(self, key: Any, *default: Any) -> Any:
        """As in a dict."""
        present = key in self
        value = super().pop(key, *default)
        if present:
            self._replaced(key, value, _MISSING)
        return value

    def popitem(self) -> tuple[Any, Any]:
        """As in a dict."""
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """As in a dict."""
        for key in list(self):
            del self[key]

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """As in a dict."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As in a dict."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Mapping[Any, Any]) -> WatchedDict:  # type: ignore[override, misc]
        self.update(other)
        return self

    def copy(self) -> dict[Any, Any]:
        """The content as a plain dict."""
        return dict(self)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class HookTable(WatchedDict):
    """Hooks in the order they are called in."""

    __slots__ = ()

    def add(self, hook: Any, prepend: bool = False) -> int:
        """Put a hook at the end, or at the front; the key to remove it with."""
        key = next(k for k in iter(_next_hook, None) if k not in self)
        rest = list(self.items()) if prepend else []
        if prepend:
            dict.clear(self)
        self[key] = hook
        dict.update(self, rest)
        return key


class WatchedList(list[Any]):
    """A list whose changes count as its owner's. It is copied and pickled as a plain list."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Counted, content: Any = ()) -> None:
        super().__init__(content)
        self._owner = weakref.ref(owner)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


def _counting(name: str) -> Any:
    method = getattr(list, name)

    def counted(self: WatchedList, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        owner = self._owner()
        if owner is not None:
            owner._count_change()
        return result

    counted.__name__ = counted.__qualname__ = name
    counted.__doc__ = "As in a list."
    return counted


for _name in ("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert", "pop",
              "remove", "reverse", "sort"):  # fmt: skip
    setattr(WatchedList, _name, _counting(_name))
