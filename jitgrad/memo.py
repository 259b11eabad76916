"""`Memo`: a bounded table of things that are cheap to keep and slow to make again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Memo(Generic[V]):
    """Values by key; the oldest goes when `limit` is passed. Safe to use from several threads at once.

    >>> memo = Memo(limit=2)
    >>> [memo.add(k, v) for k, v in (("a", 1), ("b", 2), ("c", 3))]
    [1, 2, 3]
    >>> memo.get("a"), memo.get("c"), len(memo)
    (None, 3, 2)
    """

    __slots__ = ("_table", "get", "limit")

    def __init__(self, limit: int) -> None:
        self._table: dict[Hashable, V] = {}
        self.limit = limit
        self.get = self._table.get

    def add(self, key: Hashable, value: V) -> V:
        """Keep `value` under `key`; the value kept, which is an earlier one if another thread was first."""
        kept = self._table.setdefault(key, value)
        if len(self._table) > self.limit:
            oldest: Any = next(iter(self._table), None)
            self._table.pop(oldest, None)
        return kept

    def put(self, key: Hashable, value: V) -> V:
        """Keep `value` under `key` instead of what was there."""
        self._table[key] = value
        return value

    def __len__(self) -> int:
        return len(self._table)
