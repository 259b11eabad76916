"""Tensors that become others in place: views of themselves, of other memory, of another size, without history."""

from __future__ import annotations

import math
import weakref

from jitgrad.ir.errors import AutogradError
from jitgrad.ir.graph import Value
from jitgrad.ir.op import View

from .aliasing import check_writable, storage_of, view
from .arrays import assign, filled_beside, owned, reshaped
from .errors import located
from .levels import LevelData
from .mode import local
from .tape import Storage
from .tensor import Tensor, end_trace, note_rebinding, wrap


def view_in_place(t: Tensor, op: View, what: str) -> Tensor:
    """Make `t` the view `op` of itself (`unsqueeze_`); other tensors of its memory stay as they are."""
    check_writable(t, what)
    tracer = None if isinstance(t._data, LevelData) else local.mode.tracer
    if tracer is not None:
        tracer.rebased(t)
    old = _stand_in(t)
    if tracer is not None and local.mode.tracer is not None:
        local.mode.tracer.note((old, t))
    out = view(op, old)
    t._data, t._view, t._storage = out._data, out._view, out._storage
    t._node, t._index, t._requires_grad = out._node, out._index, out._requires_grad
    storage_of(t).views.append(weakref.ref(t))
    note_rebinding()
    return t


def _stand_in(t: Tensor) -> Tensor:
    """A tensor that is what `t` was, for the views of `t`, so that `t` may become another."""
    old = wrap(t._data)
    old._node, old._index, old._requires_grad = t._node, t._index, t._requires_grad
    old._view, old._storage = t._view, storage_of(t)
    for ref in old._storage.views:
        v = ref()
        info = None if v is None else v._view
        if info is not None and info.base is t:
            info.base = old
        if info is not None and info.origin is t:
            info.origin = old
    return old


def forget_history(t: Tensor) -> None:
    """Make `t` a tensor without history that needs no gradient (`detach_`)."""
    if isinstance(t._data, LevelData):
        t._data = t._data.detached()
    tracer = None if isinstance(t._data, LevelData) else local.mode.tracer
    if tracer is not None and t._requires_grad:
        tracer.rebased(t)
    if t._data.__class__ is Value and local.mode.tracer is not None and t._requires_grad:
        t._data = local.mode.tracer.detached(t._data)
    if t._requires_grad and t._node is None:
        note_rebinding()
    t._node, t._index, t._requires_grad = None, 0, False


def replace_data(t: Tensor, other: Tensor) -> None:
    """Let `t` be a tensor of the memory of `other` (`t.data = other`); views of `t` keep the memory they had.

    While tracing, this ends the traced segment first.
    """
    end_trace()
    data = other._data
    version = t._version
    _stand_in(t)
    t._storage = Storage()
    t._storage._version = version
    t._data, t._view = data, None
    note_rebinding()


def resize(t: Tensor, shape: tuple[int, ...]) -> None:
    """Give `t` another shape, contiguous: of the memory it has if that is enough, else of more, copied to.

    Elements that are new have no particular value. While tracing, this ends the traced segment first.
    """
    if t.shape == shape:
        return
    if local.mode.grad and t._requires_grad:
        raise located(AutogradError("cannot resize variables that require grad"))
    end_trace()
    old, count = t._data, math.prod(shape)
    if count <= old.size and old.flags.c_contiguous:
        storage = storage_of(t)
        data = reshaped(old, shape)
    else:
        storage = Storage()
        storage._version = t._version
        data = filled_beside(old, shape, 0)
        kept = (min(count, old.size),)
        assign(reshaped(data, kept), reshaped(owned(old, "C"), kept))
    _stand_in(t)
    t._data, t._view, t._storage = data, None, storage
    note_rebinding()


def share_memory(t: Tensor, other: Tensor) -> None:
    """Let `t` be a tensor of the memory of `other`, whose writes it sees; views of `t` keep the memory they had.

    While tracing, this ends the traced segment first.
    """
    end_trace()
    data = other._data.view()
    _stand_in(t)
    t._data, t._view, t._storage = data, None, storage_of(other)
    note_rebinding()
