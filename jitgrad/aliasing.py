"""Views and in-place writes: memory that several tensors share.

Eagerly a view is a NumPy view, and a write goes straight through. While tracing, a write makes a new value of
the storage's base (`WriteView`) and every live view is derived again. In both, the tape sees a write through a
view as a functional write to the base, so that gradients are those of the program as written.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from jitgrad.ir.errors import AutogradError, DTypeError, ShapeError
from jitgrad.ir.op import Op
from jitgrad.ir.ops.write import WriteView

from .dispatch import edge, infer, record
from .mode import local
from .tape import Storage
from .tensor import Tensor, ViewInfo, wrap


def storage_of(t: Tensor) -> Storage:
    """The storage of `t`, made now if nothing shared it before."""
    storage = t._storage
    if storage is None:
        storage = t._storage = Storage()
    return storage


def view(op: Op, t: Tensor) -> Tensor:
    """The view `op` of `t`: sharing memory where NumPy can, else a fresh tensor as PyTorch's `reshape` gives."""
    mode = local.mode
    tracer = mode.tracer
    infer(op, (t.type_,))
    if tracer is None:
        data = op.reference(t._data)
        shares = data.size == 0 or np.may_share_memory(data, t._data)
        out = wrap(data)
        operand = t._data
    else:
        operand = tracer.value(t)
        (data,) = tracer.emit(op, [operand])
        shares = layout(t, op) is not None
        out = wrap(data)
        tracer.note((out,))
    if shares:
        _share(out, t, (op,), True)
    if mode.grad and t._requires_grad and op.differentiable:
        record(op, (t,), (operand,), (out,))
    return out


def alias(t: Tensor) -> Tensor:
    """A tensor sharing the memory of `t` but not its history (`detach`)."""
    tracer = local.mode.tracer
    out = wrap(t._data if tracer is None else tracer.value(t))
    if tracer is not None:
        tracer.note((out,))
    _share(out, t, (), False)
    return out


def _share(out: Tensor, t: Tensor, ops: tuple[Op, ...], differentiable: bool) -> None:
    info = t._view
    base = t if info is None else info.base
    chain = ops if info is None else info.ops + ops
    out._view = ViewInfo(base, chain, differentiable and (info is None or info.differentiable))
    storage = out._storage = storage_of(base)
    t._storage = storage
    storage.views = [v for v in storage.views if v() is not None]
    storage.views.append(weakref.ref(out))


def layout(t: Tensor, op: Op | None = None) -> np.ndarray[Any, Any] | None:
    """An array with the strides `t` (seen through `op`) has when run eagerly; None if `op` would copy.

    Its elements must not be read: for a tensor being traced there is no memory behind it.
    """
    info = t._view
    base = t if info is None else info.base
    if isinstance(base._data, np.ndarray):
        array = base._data
    else:
        strides = np.cumprod((base._data.dtype.itemsize, *base._data.shape[:0:-1]))[::-1]
        array = np.lib.stride_tricks.as_strided(
            np.empty(1, base._data.dtype), base._data.shape, strides[: base.ndim]
        )
    chain = (() if info is None else info.ops) + (() if op is None else (op,))
    for step in chain:
        viewed = step.reference_view(array) if hasattr(step, "reference_view") else step.reference(array)
        if viewed is None:
            return None
        array = viewed
    return array


def check_writable(t: Tensor, what: str) -> None:
    """Raise what PyTorch raises before an in-place op that would break gradients."""
    if not local.mode.grad:
        return
    if t._requires_grad and t._node is None:
        raise AutogradError(
            f"a leaf Variable that requires grad is being used in an in-place operation: {what}"
        )
    info = t._view
    if info is not None and info.differentiable and info.base._requires_grad and info.base._node is None:
        raise AutogradError(
            f"a view of a leaf Variable that requires grad is being used in an in-place operation: {what}"
        )


def write(t: Tensor, value: Tensor, what: str) -> Tensor:
    """Replace the contents of `t` by `value` (same shape; same dtype after the caller's conversion).

    Nothing is written if a check fails.
    """
    check_writable(t, what)
    if value.shape != t.shape:
        raise ShapeError(
            f"{what}: result shape {tuple(value.shape)} does not fit the written {tuple(t.shape)}"
        )
    if value._data.dtype != t._data.dtype:
        raise DTypeError(f"{what}: result type {value.dtype.name} can't be cast to {t.dtype.name}")
    mode = local.mode
    if mode.tracer is None:
        if not t._data.flags.writeable or 0 in _strides_of_long_axes(t._data):
            raise AutogradError(
                f"{what}: unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location; clone() the tensor before performing the operation"
            )
        np.copyto(t._data, value._data)
    else:
        mode.tracer.write(t, value)
    storage_of(t)._version += 1
    if mode.grad and (value._requires_grad or t._requires_grad):
        _rebase(t, value)
    return t


def _strides_of_long_axes(array: np.ndarray[Any, Any]) -> list[int]:
    return [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]


def _rebase(t: Tensor, value: Tensor) -> None:
    """The history of `t` becomes that of `value`; its base and the other views follow."""
    info = t._view
    if info is None or not info.differentiable:
        _adopt(t, value)
        _refresh_views(t)
        return
    base = info.base
    op = WriteView(info.ops)
    result = wrap(base._data)
    data = (base._data, value._data)
    record(op, (base, value), data, (result,))
    _adopt(base, result)
    _refresh_views(base)


def _adopt(t: Tensor, other: Tensor) -> None:
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.rebased(t)
    t._node, t._index, t._requires_grad = other._node, other._index, other._requires_grad


def _refresh_views(base: Tensor) -> None:
    """Give every live differentiable view of `base` a history that starts from the new base."""
    for ref in storage_of(base).views:
        v = ref()
        if v is None or v._view is None or not v._view.differentiable:
            continue
        current = base
        for op in v._view.ops:
            step = wrap(op.reference(current._data) if isinstance(current._data, np.ndarray) else v._data)
            if base._requires_grad:
                record(op, (current,), (current._data,), (step,))
            current = step
        v._node, v._index, v._requires_grad = current._node, current._index, current._requires_grad


__all__ = ["alias", "check_writable", "edge", "layout", "storage_of", "view", "write"]
