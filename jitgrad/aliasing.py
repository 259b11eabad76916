"""Views and in-place writes: memory that several tensors share.

Eagerly a view is a NumPy view, and a write goes straight through. While tracing, a write makes a new value of
the storage's base (`WriteView`) and every live view is derived again. In both, the tape sees a write through a
view as a functional write to the base, so that gradients are those of the program as written.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jitgrad.ir.errors import AutogradError, DTypeError, ShapeError
from jitgrad.ir.op import View
from jitgrad.ir.ops.indexing import IndexPut
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.write import WriteView

from .arrays import assign, contiguous_strides, may_share_memory, owned, strides_only
from .backend import DeviceArray
from .dispatch import apply, data_op, edge, infer, lift, record
from .errors import located
from .keeping import copy_for_keepers
from .levels import LevelData, innermost
from .mode import local
from .tape import FIXED, Storage
from .tensor import Tensor, ViewInfo, wrap

_ndarray = np.ndarray
_FITS = 1 << 62  # below, numbers are finite in float32 and have their own int64


def storage_of(t: Tensor) -> Storage:
    """The storage of `t`, made now if nothing shared it before."""
    storage = t._storage
    if storage is None or storage is FIXED:
        storage = t._storage = Storage()
    return storage


def view(op: View, t: Tensor) -> Tensor:
    """The view `op` of `t`: sharing memory where NumPy can, else a fresh tensor as PyTorch's `reshape` gives.

    Eagerly, that `op` fits `t` is the caller's word, but for what NumPy finds.
    """
    mode = local.mode
    tracer = mode.tracer
    operand = t._data
    if isinstance(operand, LevelData):
        data, shares = operand.level.view(op, operand)
        out = wrap(data)
        operand.level.note((out,))
    elif tracer is None or tracer.ends_before((t,)):
        tracer = None
        data = _seen_through(op, t, operand)
        out = wrap(data)
        base = data.base
        shares = base is operand or (base is not None and base is operand.base) or _overlap(data, operand)
    else:
        infer(op, (t.type_,))
        operand = tracer.value(t)
        (data,) = tracer.emit(op, [operand])
        if t._requires_grad and not mode.grad:
            data = tracer.detached(data)
        out = wrap(data)
        shares = layout(t, op) is not None
        tracer.note((out,))
    if shares:
        _share(out, t, (op,), True)
    if mode.grad and t._requires_grad:
        record(op, (t,), (operand,), (out,))
    return out


def views(ops: tuple[View, ...], t: Tensor) -> Tensor:
    """The views `ops` of `t`, one after the other; eagerly, none of them may be one that would copy."""
    mode = local.mode
    if mode.tracer is not None or isinstance(t._data, LevelData):
        for op in ops:
            t = view(op, t)
        return t
    if not ops:
        return t
    recorded = mode.grad and t._requires_grad
    data, out = t._data, t
    for op in ops:
        operand, data = data, _seen_through(op, out, data)
        if recorded:
            source, out = out, wrap(data)
            record(op, (source,), (operand,), (out,))
    if not recorded:
        out = wrap(data)
    _share(out, t, ops, True)
    return out


def _shown(op: View, t: Tensor, data: Any) -> Any:
    """What the view `op` shows of `t`, for a history."""
    if isinstance(data, LevelData):
        return data.level.view(op, data)[0]
    tracer = local.mode.tracer
    return _seen_through(op, t, data) if tracer is None else tracer.emit(op, [data])[0]


def _overlap(data: Any, operand: Any) -> bool:
    return data.size == 0 or may_share_memory(data, operand)


def _seen_through(op: View, t: Tensor, operand: Any) -> Any:
    """The NumPy view; as writeable as its source, even if NumPy has marked it read-only for repeating elements."""
    if operand.__class__ is DeviceArray:
        return data_op(op, operand)
    try:
        data: np.ndarray[Any, Any] = op.reference(operand)
    except ValueError:
        infer(op, (t.type_,))  # says what is wrong
        raise
    if not data.flags.writeable and operand.flags.writeable:
        data.flags.writeable = True
    return data


def alias(t: Tensor) -> Tensor:
    """A tensor sharing the memory of `t` but not its history (`detach`).

    Eagerly it does not know `t`, which would keep the whole history alive; a trace needs to know, and is short.
    """
    tracer = local.mode.tracer
    if isinstance(t._data, LevelData):
        out = wrap(t._data.detached())
        out._storage = storage_of(t)
        return out
    if tracer is None or tracer.ends_before((t,)):
        out = wrap(t._data.view())  # an array of its own, whose base says that it shares memory
        out._storage = storage_of(t)
        return out
    value = tracer.value(t)
    out = wrap(tracer.detached(value) if t._requires_grad else value)
    tracer.note((out,))
    _share(out, t, (), False)
    return out


def copy(t: Tensor, order: Literal["K", "C"] = "K") -> Tensor:
    """A tensor of the same values in memory of its own, differentiable; strides kept ("K") or contiguous ("C")."""
    mode = local.mode
    op = Convert(t.dtype)
    if isinstance(t._data, LevelData):
        out = wrap(t._data.copied())
        t._data.level.note((out,))
    elif (tracer := mode.tracer) is not None and not tracer.ends_before((t,), op):
        here = layout(t)
        out = apply(op, t)
        if order == "C" or here is None or 0 in _strides_of_long_axes(here):
            tracer.layout.row_major(tracer.value(out))
        return out
    else:
        out = wrap(owned(t._data, "C" if 0 in _strides_of_long_axes(t._data) else order))
    if mode.grad and t._requires_grad:
        record(op, (t,), (t._data,), (out,))
    return out


def copied(op: View, t: Tensor) -> Tensor:
    """The view `op` of `t` in memory of its own, for functions that PyTorch defines to copy."""
    mode = local.mode
    if isinstance(t._data, LevelData):
        return copy(view(op, t))
    if (tracer := mode.tracer) is not None and not tracer.ends_before((t,), op):
        out = apply(op, t)
        tracer.layout.row_major(tracer.value(out))
        return out
    infer(op, (t.type_,))
    out = wrap(owned(_seen_through(op, t, t._data), "C"))
    if mode.grad and t._requires_grad:
        record(op, (t,), (t._data,), (out,))
    return out


def _share(out: Tensor, t: Tensor, ops: tuple[View, ...], differentiable: bool) -> None:
    tracer = local.mode.tracer
    info = t._view if tracer is None or isinstance(t._data, LevelData) else tracer.view_info(t)
    if info is None:
        base, chain, origin, origin_chain = t, ops, t, ops
    else:
        base, chain = info.base, info.ops + ops
        origin, origin_chain = (t, ops) if info.origin is None else (info.origin, info.origin_ops + ops)
    out._view = ViewInfo(base, chain, *((origin, origin_chain) if differentiable else (None, ())))
    storage = out._storage = storage_of(base)
    t._storage = storage
    views = storage.views
    count = len(views)
    if count > 7 and count & (count - 1) == 0:  # now and then, so that keeping the list costs constant time
        views = storage.views = [v for v in views if v() is not None]
    views.append(weakref.ref(out))


def layout(t: Tensor, op: View | None = None) -> np.ndarray[Any, Any] | None:
    """An array with the strides `t` (seen through `op`) has when run eagerly; None if `op` would copy.

    Its elements must not be read: for a tensor being traced there is no memory behind it.
    """
    steps: tuple[View, ...] = () if op is None else (op,)
    array = _one_sample(t) if isinstance(t._data, LevelData) else t._data
    if array.__class__ is DeviceArray:
        array = strides_only(array)
    if not isinstance(array, np.ndarray):
        info = t._view
        if info is not None:
            array, steps = info.base._data, info.ops + steps
            if array.__class__ is DeviceArray:
                array = strides_only(array)
        if not isinstance(array, np.ndarray):
            array = _traced_layout(array)
    for step in steps:
        if isinstance(step, Reshape):
            try:
                array = array.reshape(step.shape, copy=False)
            except ValueError:
                return None
        else:
            array = step.reference(array)
    return array  # type: ignore[no-any-return]


def _one_sample(t: Tensor) -> np.ndarray[Any, Any]:
    """An array with the strides that one sample has of what a tensor of a level holds."""
    whole = layout(t._data.outer())
    if whole is None or whole.ndim == t._data.ndim:
        return whole if whole is not None else _contiguous_layout(t._data.shape, t._data.dtype)
    return whole[0, ...] if len(whole) else _contiguous_layout(t._data.shape, t._data.dtype)


def _traced_layout(value: Any) -> np.ndarray[Any, Any]:
    """An array with the strides that a value of a trace would have."""
    tracer = local.mode.tracer
    strides = None if tracer is None else tracer.layout.of(value)
    if strides is None:
        return _contiguous_layout(value.shape, value.dtype)
    return np.lib.stride_tricks.as_strided(np.empty(1, value.dtype), value.shape, strides)


def _contiguous_layout(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, contiguous_strides(shape, dtype.itemsize))


def is_view(op: View, t: Tensor) -> bool:
    """Whether `op` can show `t` without copying."""
    return layout(t, op) is not None


def check_writable(t: Tensor, what: str) -> None:
    """Raise what PyTorch raises before an in-place op that would break gradients."""
    if not local.mode.grad:
        return
    if t._requires_grad and (t._node is None or t._node.edges == (None,)):  # the latter begins a functional gradient
        raise located(
            AutogradError(f"a leaf Variable that requires grad is being used in an in-place operation: {what}")
        )
    origin = None if t._view is None else t._view.origin
    if origin is not None and origin._requires_grad and origin._node is None:
        raise located(
            AutogradError(
                f"a view of a leaf Variable that requires grad is being used in an in-place operation: {what}"
            )
        )


def plainly_writable(t: Tensor) -> Any:
    """The array of `t`, if a write to it is one to contiguous host memory and a count, without a history; else None."""
    mode = local.mode
    data = t._data
    if data.__class__ is not np.ndarray or mode.tracer is not None:
        return None
    if mode.grad:
        info = t._view
        if t._requires_grad or (info is not None and info.origin is not None and info.origin._requires_grad):
            return None
    storage = t._storage
    if storage is not None and storage.keepers is not None:
        return None
    flags = data.flags
    return data if flags.c_contiguous and flags.writeable else None


def plain_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """What NumPy writes to elements of `dtype` as `write` does: an array of it, or a number that fits; else None."""
    kind = value.__class__
    if kind is float or kind is int:
        fits = dtype.char in "fd" or (dtype.char == "l" and kind is int)
        return value if fits and -_FITS < value < _FITS else None
    if not isinstance(value, Tensor) or value._data.__class__ is not np.ndarray or value._data.dtype != dtype:
        return None
    return None if value._requires_grad and local.mode.grad else value._data


def put_plainly(t: Tensor, value: Any, at: Any = ...) -> bool:
    """Write `value` to the places `at` (NumPy's index) of `t`, where that is all; False, with nothing done, else."""
    data = plainly_writable(t)
    new = None if data is None else plain_value(value, data.dtype)
    if new is None or (at is ... and new.__class__ is np.ndarray and new.shape != data.shape):
        return False
    try:
        data[at] = new
    except (IndexError, ValueError):
        return False
    storage_of(t)._version += 1
    return True


def replace_plainly(t: Tensor, value: Tensor) -> bool:
    """The same for all of `t` and a tensor of its shape and type, with less Python, as in-place forms come often."""
    data, new, storage, info, mode = t._data, value._data, t._storage, t._view, local.mode
    if data.__class__ is not _ndarray or new.__class__ is not _ndarray or mode.tracer is not None:
        return False
    if mode.grad and (t._requires_grad or value._requires_grad or (info is not None and info.origin is not None)):
        return False
    if storage is None or storage is FIXED:
        storage = t._storage = Storage()
    elif storage.keepers is not None:
        return False
    flags = data.flags
    if data.dtype != new.dtype or data.shape != new.shape or not (flags.c_contiguous and flags.writeable):
        return False
    data[...] = new
    storage._version += 1
    return True


def write(t: Tensor, value: Tensor, what: str, assigned: bool = False, uniform: bool = False) -> Tensor:
    """Replace the contents of `t` by `value` (same shape; same dtype after the caller's conversion).

    Nothing is written if a check fails. `assigned` says that `value` was not computed from `t`, whose history
    then goes on with a zero gradient, as PyTorch's `copy_` and `fill_` have it. `uniform` says that all its
    elements are equal, so that `t` may show an element of memory more than once.
    """
    if put_plainly(t, value):
        return t
    check_writable(t, what)
    if value._data.shape != t._data.shape:
        raise located(
            ShapeError(f"{what}: result shape {tuple(value.shape)} does not fit the written {tuple(t.shape)}")
        )
    if value._data.dtype != t._data.dtype:
        raise located(DTypeError(f"{what}: result type {value.dtype.name} can't be cast to {t.dtype.name}"))
    mode = local.mode
    if not uniform:
        _check_overlap(t, value, what)
    level = innermost((t._data, value._data)) if mode.levels else None
    if level is not None:
        level.write(t, value, what, assigned, uniform)
        value = lift(level, value)
    elif mode.tracer is None or mode.tracer.ends_before_write(t) or _ends_before_taking(t, value):
        check_memory(t, what, uniform)
        copy_for_keepers(t)
        assign(t._data, value._data)
    else:
        check_memory(t, what, uniform)
        copy_for_keepers(t)
        own = t._view is None or t._view.origin is None
        if own and mode.grad and t._requires_grad and (assigned or not value._requires_grad):
            value = apply(WriteView(()), t, value)
        mode.tracer.write(t, value)
    storage_of(t)._version += 1
    if mode.grad and (value._requires_grad or t._requires_grad):
        _rebase(t, value, assigned)
    return t


def _check_overlap(t: Tensor, value: Tensor, what: str) -> None:
    """Raise if a write that is recorded would go to memory that `t` shows several times: which is left is not known."""
    if t._view is None or not local.mode.grad or not (t._requires_grad or value._requires_grad):
        return
    data = layout(t)
    if data is None or data.flags.c_contiguous:
        return
    reach = data.itemsize
    for stride, n in sorted(zip(map(abs, data.strides), data.shape, strict=True)):
        if n > 1 and stride < reach:
            raise located(_overlapping(what))
        reach += stride * (n - 1)


def _overlapping(what: str) -> AutogradError:
    return AutogradError(
        f"{what}: unsupported operation: more than one element of the written-to tensor refers to a "
        "single memory location; clone() the tensor before performing the operation"
    )


def _ends_before_taking(t: Tensor, value: Tensor) -> bool:
    """Whether the trace ends before `t` takes the elements and the history of `value`."""
    tracer = local.mode.tracer
    if tracer.ends_before((value,)):
        return True
    return local.mode.grad and (value._requires_grad or t._requires_grad) and tracer.ends_before_rebasing(t)


def check_memory(t: Tensor, what: str, uniform: bool = False) -> None:
    """Raise if an element of the memory of `t` is several of its elements, unless what is written is `uniform`."""
    if isinstance(t._data, LevelData):
        return  # its parts are looked at when they are written
    if t._data.__class__ is np.ndarray and (flags := t._data.flags).c_contiguous and flags.writeable:
        return
    data = layout(t)
    read_only = isinstance(t._data, (np.ndarray, DeviceArray)) and not t._data.flags.writeable
    if data is None or read_only or (not uniform and data.size and 0 in _strides_of_long_axes(data)):
        raise located(_overlapping(what))


def put(t: Tensor, op: IndexPut, indices: Sequence[Tensor], value: Tensor, what: str) -> None:
    """Write `value` at index tensors along the axes that `op` names; checks come first, as for `write`."""
    mode = local.mode
    at_level = mode.levels and innermost([x._data for x in (t, *indices, value)]) is not None
    if at_level or (mode.tracer is not None and not mode.tracer.ends_before_write(t)):
        write(t, apply(op, t, *indices, value), what)
        return
    check_writable(t, what)
    check_memory(t, what)
    _check_overlap(t, value, what)
    copy_for_keepers(t)
    data = (t._data, *[i._data for i in indices], value._data)
    if t._data.__class__ is DeviceArray:
        assign(t._data, data_op(op, *data))
    else:
        op.assign(*data)
    storage_of(t)._version += 1
    if mode.grad and (value._requires_grad or t._requires_grad):
        result = wrap(t._data)
        record(op, (t, *indices, value), data, (result,))
        _rebase(t, result, False)


def _strides_of_long_axes(array: np.ndarray[Any, Any]) -> list[int]:
    return [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]


def _rebase(t: Tensor, value: Tensor, assigned: bool) -> None:
    """The history of `t` becomes that of `value`; its base and the other views follow."""
    info = t._view
    origin = None if info is None else info.origin
    if info is None or origin is None:
        if not value._requires_grad or value._node is None or (assigned and t._requires_grad):
            value = _recorded_write((), t, value)
        _adopt(t, value)
        _refresh_views(t)
        return
    _adopt(origin, _recorded_write(info.origin_ops, origin, value))
    _refresh_views(origin)


def _recorded_write(views: tuple[View, ...], base: Tensor, value: Tensor) -> Tensor:
    """The base after the write, as a function of the base before it and of the value."""
    result = wrap(base._data)
    record(WriteView(views), (base, value), (base._data, value._data), (result,))
    return result


def _adopt(t: Tensor, other: Tensor) -> None:
    tracer = local.mode.tracer
    if tracer is not None and not isinstance(t._data, LevelData):
        tracer.rebased(t)
    t._node, t._index, t._requires_grad = other._node, other._index, other._requires_grad


def _refresh_views(origin: Tensor) -> None:
    """Give every live differentiable view of `origin` a history that starts from its new one."""
    tracer = local.mode.tracer
    for ref in storage_of(origin).views:
        v = ref()
        if v is None or v._view is None or v._view.origin is not origin:
            continue
        current = origin
        for op in v._view.origin_ops:
            data = current._data if tracer is None or isinstance(current._data, LevelData) else tracer.value(current)
            step = wrap(_shown(op, current, data))
            if origin._requires_grad:
                record(op, (current,), (data,), (step,))
            current = step
        v._node, v._index, v._requires_grad = current._node, current._index, current._requires_grad


__all__ = [
    "alias", "check_memory", "check_writable", "copied", "copy", "edge", "is_view", "layout", "plainly_writable",
    "put", "put_plainly", "replace_plainly", "storage_of", "view", "views", "write",
]  # fmt: skip
