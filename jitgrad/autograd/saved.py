"""What tape nodes save, passed through hooks: packed when it is recorded, unpacked when a gradient uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentTypeError, AutogradError
from jitgrad.ir.graph import Value

from ..backend import DeviceArray
from ..dispatch import as_tensor, data_of
from ..errors import located
from ..mode import local
from ..tape import PackedData, PackedNode, TapeNode
from ..tensor import Tensor
from .grad_mode import no_grad

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


class SavedHooks:
    """A pair of hooks, which stay with what they have packed."""

    __slots__ = ("pack_hook", "unpack_hook")

    def __init__(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def pack_node(self, node: TapeNode) -> None:
        """Pack what a node has saved."""
        if not any(isinstance(x, _PACKABLE) for x in node.saved):
            return
        saved, owners = list(node.saved), list(node.owners)
        for i, data in enumerate(saved):
            if isinstance(data, _PACKABLE):
                e = node.edges[i] if i < len(node.edges) else None
                saved[i], owners[i] = self.pack(e if isinstance(e, Tensor) else as_tensor(data)), None
        node.saved, node.owners = saved, owners
        node.__class__ = PackedNode

    def pack(self, t: Tensor) -> PackedData:
        """A tensor, packed."""
        version = t._version
        with hooks_off():
            packed = self.pack_hook(t)
        if t._version != version:
            raise located(
                AutogradError(
                    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
                    "hook can not be modified by in-place operations as this can lead to unexpected side-effects."
                )
            )
        return PackedData(packed, t._data, lambda: data_of(self.unpack(packed)))

    def unpack(self, packed: Any) -> Tensor:
        """The tensor that the hook gives for what was packed."""
        with hooks_off():
            t = self.unpack_hook(packed)
        if isinstance(t, Tensor):
            return t
        raise located(
            ArgumentTypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(t).__name__}"
            )
        )


_PACKABLE = (np.ndarray, DeviceArray, Value)


@contextmanager
def saved_hooks(hooks: SavedHooks | None) -> Iterator[None]:
    """What is recorded inside is packed by `hooks`, or left alone."""
    mode = local.mode
    before = mode.watch(hooks)
    try:
        yield
    finally:
        mode.watch(before)


@contextmanager
def hooks_off() -> Iterator[None]:
    """Nothing is recorded or packed inside: what hooks do is not part of the program."""
    with saved_hooks(None), no_grad():
        yield
