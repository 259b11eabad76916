"""Copies that tape nodes keep of memory that is about to be written.

A gradient rule uses values as they were. Mostly a later write to them is noticed by the count of writes, and backward
refuses, as PyTorch's does. Nodes get copies instead where PyTorch, which keeps something else, takes the program: of
the old contents in in-place forms, and of what ops with `copies_on_write` have saved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import owned
from .backend import DeviceArray
from .levels import LevelData
from .mode import local
from .tape import PackedData, Storage, TapeNode
from .tensor import Tensor


def protect(t: Tensor, value: Tensor, since: int) -> None:
    """Let the tape nodes that made `value` and are younger than number `since` keep copies of the memory of `t`.

    For in-place forms like `x.mul_(y)`, whose gradient uses the values that are about to be overwritten.
    """
    stack = [value._node]
    storage = t._storage = t._storage or Storage()
    while stack:
        node = stack.pop()
        if node is None or node.seq < since or node.saved is None:
            continue
        for i, owner in enumerate(node.owners):
            if owner is t or _is_of(owner, storage):
                _keep_copy(node, i)
        stack.extend(e if isinstance(e, TapeNode) else e[0] if isinstance(e, tuple) else None for e in node.edges)


def copy_for_keepers(t: Tensor) -> None:
    """Before a write to `t`: give copies to the nodes that are to have them (`tape.let_write`).

    What was already written, is packed or belongs to a leaf stays as it is, and backward will refuse it.
    """
    storage = t._storage
    if storage is None or storage.keepers is None:
        return
    keepers, storage.keepers = storage.keepers, None
    for ref in keepers:
        node = ref()
        if node is None or node.saved is None:
            continue
        for i, owner in enumerate(node.owners):
            is_of_leaf = i < len(node.edges) and isinstance(node.edges[i], Tensor)
            if not _is_of(owner, storage) or is_of_leaf or node.saved[i].__class__ is PackedData:
                continue
            if storage._version == (0 if node.versions is None else node.versions[i]):
                _keep_copy(node, i)


def _is_of(owner: Any, storage: Storage) -> bool:
    return owner is storage or (isinstance(owner, Tensor) and owner._storage is storage)


def _keep_copy(node: TapeNode, slot: int) -> None:
    """Let a node keep a copy of what it has saved at `slot`."""
    node.kept = None
    node.owners = (*node.owners[:slot], None, *node.owners[slot + 1 :])
    saved = node.saved[slot]
    is_written = isinstance(saved, (np.ndarray, DeviceArray, LevelData))  # in place: a value of a trace is not
    if local.mode.tracer is None or is_written:
        node.saved = (*node.saved[:slot], owned(saved), *node.saved[slot + 1 :])
