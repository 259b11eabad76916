"""`nn.modules.utils`: one number for all axes, as scripts with layers of their own have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes tuples: of what can be iterated over, or of `n` times the same."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single: Final = _ntuple(1, "_single")
_pair: Final = _ntuple(2, "_pair")
_triple: Final = _ntuple(3, "_triple")
_quadruple: Final = _ntuple(4, "_quadruple")

__all__ = ["_ntuple", "_pair", "_quadruple", "_single", "_triple"]
