"""Python objects as they were before an export, to which tracing does what calling does, again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from .naming import reach

_MAX_DEPTH: Final = 4
_MAX_ITEMS: Final = 10_000


class Snapshot:
    """Attributes and containers that `f` reaches. `restore` puts back those that are others since."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._saved: dict[int, tuple[Any, Any]] = {}
        for _, x in reach(f):
            self._save(x, 0)

    def _save(self, x: Any, depth: int) -> None:
        if id(x) in self._saved or depth > _MAX_DEPTH:
            return
        if isinstance(x, (dict, list)):
            if len(x) > _MAX_ITEMS:
                return
            self._saved[id(x)] = (x, x.copy() if type(x) in (dict, list) else _plain(x))
            inner = list(x.values()) if isinstance(x, dict) else x
        else:
            namespace = getattr(x, "__dict__", None)
            if not isinstance(namespace, dict) or isinstance(x, type):
                return
            self._saved[id(x)] = (namespace, dict(namespace))
            inner = list(namespace.values())
        for value in inner:
            if isinstance(value, (dict, list)):
                self._save(value, depth + 1)

    def restore(self) -> None:
        """Put everything back; what has not changed is left alone."""
        for container, saved in self._saved.values():
            if isinstance(container, list):
                if len(container) != len(saved) or any(a is not b for a, b in zip(container, saved, strict=True)):
                    list.__setitem__(container, slice(None), saved)
            elif _differs(container, saved):
                kind = OrderedDict if isinstance(container, OrderedDict) else dict
                kind.clear(container)  # past the methods that count changes: nothing has changed in the end
                kind.update(container, saved)


def _plain(x: Any) -> Any:
    return list(x) if isinstance(x, list) else dict(x)


def _differs(container: dict[Any, Any], saved: dict[Any, Any]) -> bool:
    if len(container) != len(saved):
        return True
    pairs = zip(container.items(), saved.items(), strict=True)
    return any(k is not j or v is not w for (k, v), (j, w) in pairs)
