"""The arrays behind tensors, in host memory or on a device: copying, writing, seeing through views, sharing memory.

A tensor's data is a NumPy array or a `DeviceArray`. What NumPy does to the first kind and the device must do to the
second has a function here, so that the rest of the front end need not know which it has.
"""

from __future__ import annotations

import functools
import math
import mmap
from typing import Any, Literal, TypeAlias

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.op import View
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.types import CPU, Device

from .backend import DeviceArray, device_copies, gpus
from .levels import LevelData

Data: TypeAlias = Any  # np.ndarray | DeviceArray
_Seen: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int, np.dtype[Any]]
_ndarray = np.ndarray
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)  # CUDA's platforms have both


def device_of(data: Data) -> Device:
    """Where an array is."""
    return data.device if isinstance(data, (DeviceArray, LevelData)) else CPU


def on_host(data: Data) -> np.ndarray[Any, Any]:
    """The numbers as a NumPy array: itself, or a copy from the device, which this waits for."""
    if data.__class__ is DeviceArray:
        return device_copies().download(data)  # type: ignore[no-any-return]
    return data  # type: ignore[no-any-return]


def on_device(data: Data, device: Device, non_blocking: bool = False) -> Data:
    """The numbers on `device`: the array itself if it is there, else a copy."""
    if device_of(data) == device:
        return data
    if device.type == "cpu":
        return device_copies().download(data, non_blocking)
    target = gpus().gpu(device.index)
    if data.__class__ is DeviceArray:
        return device_copies().moved(data, target)
    return target.upload(data, non_blocking)


def owned(data: Data, order: Literal["K", "C"] = "K") -> Data:
    """A copy in memory of its own."""
    if isinstance(data, LevelData):
        return data.copied()
    if data.__class__ is DeviceArray:
        return device_copies().copied(data, order == "K")
    return np.array(data, order=order)


def assign(target: Data, source: Data) -> None:
    """Write the elements of `source` into `target`, which has the same dtype; they may overlap."""
    if target.__class__ is DeviceArray:
        device_copies().assign(target, source)
    else:
        np.copyto(target, on_host(source))


def reshaped(data: Data, shape: tuple[int, ...]) -> Data:
    """The first elements of a contiguous array in another shape, sharing its memory."""
    if data.__class__ is DeviceArray:
        return DeviceArray(data.memory, shape, data.dtype, None, data.offset, data.writeable)
    return data.reshape(-1)[: math.prod(shape)].reshape(shape)


def filled_beside(data: Data, shape: tuple[int, ...], number: float) -> Data:
    """An array where `data` is and of its dtype, all of whose elements are `number`."""
    dtype = dtypes.FROM_NUMPY[data.dtype].np
    if data.__class__ is not DeviceArray:
        return np.full(shape, number, dtype)
    made = gpus().gpu(data.device.index).empty(shape, dtype)
    device_copies().assign(made, np.broadcast_to(np.asarray(number, dtype), shape))
    return made


def may_share_memory(a: Data, b: Data) -> bool:
    """Whether some memory may belong to both."""
    if a.__class__ is DeviceArray or b.__class__ is DeviceArray:
        return a.__class__ is b.__class__ and a.shares_memory(b)  # type: ignore[no-any-return]
    return np.may_share_memory(a, b)


def page_locked(data: Data) -> Data:
    """A host array in page-locked memory: itself if it lies there, or if there is no device to copy to."""
    machine = gpus()
    if is_page_locked(data) or not machine.machine.find():
        return data
    return device_copies().pinned(machine.gpu(), data)


def is_page_locked(data: Data) -> bool:
    """Whether an array lies in page-locked memory."""
    if data.__class__ is not _ndarray or data.base is None:
        return False
    return device_copies().pinned_block(data) is not None


def strides_only(data: DeviceArray) -> np.ndarray[Any, Any]:
    """An array of the same shape and strides, for views and their addresses; its elements mean nothing."""
    return _strides_only(data.shape, data.strides, dtypes.FROM_NUMPY[data.dtype].np)


def _strides_only(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array over pages that are never touched, and read as zeros where a view turns out to copy."""
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if 0 not in shape else []
    before = -sum(r for r in reach if r < 0)
    pages = mmap.mmap(-1, before + sum(r for r in reach if r > 0) + dtype.itemsize, flags=_PRIVATE, prot=mmap.PROT_READ)
    return np.ndarray(shape, dtype, pages, before, strides)


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides, in bytes, of row-major order without gaps.

    >>> contiguous_strides((2, 3), 4)
    (12, 4)
    """
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def seen_strides(op: View, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> tuple[int, ...] | None:
    """The strides of what the view `op` shows of an array with these; None if it can't without a copy."""
    found = _seen_through(op, shape, strides, dtype)
    return None if found is None else found[1]


def seen_through(op: View, data: DeviceArray) -> DeviceArray | None:
    """What the view `op` shows of a device array; None if it can't without a copy."""
    found = _seen_through(op, data.shape, data.strides, dtypes.FROM_NUMPY[data.dtype].np)
    return None if found is None else data.seen(*found)


@functools.lru_cache(10_000)
def _seen_through(op: View, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> _Seen | None:
    """Shape, strides, offset and dtype of a view, found by NumPy on addresses alone."""
    array = _strides_only(shape, strides, dtype)
    if isinstance(op, Reshape):
        try:
            shown = array.reshape(op.shape, copy=False)
        except ValueError:
            return None
    else:
        shown = op.reference(array)
    if shown.size and not np.may_share_memory(shown, array):
        return None
    offset = _address(shown) - _address(array)
    return shown.shape, shown.strides, offset if shown.size else 0, dtypes.FROM_NUMPY[shown.dtype].np


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
