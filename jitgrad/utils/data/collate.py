"""Items put together to a batch: tensors, arrays and numbers are stacked, containers are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ...creation import as_tensor, from_numpy, tensor
from ...errors import located
from ...functions.joining import stack
from ...mode import local
from ...tensor import Tensor, wrap
from .worker_info import this_process


def default_collate(batch: Sequence[Any]) -> Any:
    """A list of items as one item of stacked tensors.

    >>> default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=jitgrad.float64)]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if isinstance(first, np.ndarray):
        if first.dtype.kind in "USO":
            raise located(ArgumentTypeError(_unknown(first.dtype)))
        return as_tensor(_joined(batch))
    if isinstance(first, np.generic):
        return as_tensor(np.asarray(batch))
    if isinstance(first, float):
        return from_numpy(np.asarray(batch, np.float64))
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        merged = {key: default_collate([item[key] for item in batch]) for key in first}
        return merged if type(first) is dict else _like(first, merged)
    if isinstance(first, Sequence):
        return _columns(batch, first)
    raise located(ArgumentTypeError(_unknown(type(first))))


def _stacked(batch: Sequence[Tensor]) -> Tensor:
    """Tensors along a new first axis. Of plain ones NumPy puts the arrays together, for a fraction of an op's cost."""
    first = batch[0]
    if local.mode.tracer is None and all(type(t) is Tensor and not t.requires_grad for t in batch):
        arrays = [t._data for t in batch]
        shape, dtype = first._data.shape, first._data.dtype
        if all(type(x) is np.ndarray and x.shape == shape and x.dtype == dtype for x in arrays):
            return wrap(_joined(arrays))
    return stack(list(batch))


def _joined(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Arrays along a new first axis."""
    first = arrays[0]
    if any(x.shape != first.shape or x.dtype != first.dtype for x in arrays):
        return np.stack(arrays)  # of the type that holds them all; refuses other shapes
    out: np.ndarray[Any, Any] = this_process.allocate((len(arrays), *first.shape), first.dtype)
    return np.stack(arrays, out=out)


def _columns(batch: Sequence[Any], first: Any) -> Any:
    """Sequences of equal length, collated place by place."""
    if any(len(item) != len(first) for item in batch):
        raise located(ArgumentError("each element in list of batch should be of equal size"))
    columns = [default_collate(column) for column in zip(*batch, strict=True)]
    if isinstance(first, tuple):
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    return columns


def _like(first: Any, merged: dict[Any, Any]) -> Any:
    try:
        return type(first)(merged)
    except TypeError:
        return merged


def _unknown(kind: Any) -> str:
    return f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"


def default_convert(data: Any) -> Any:
    """One item with its arrays as tensors, when batches are not made."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and np.asarray(data).dtype.kind not in "USO":
        return as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple):
        converted = [default_convert(value) for value in data]
        return type(data)(*converted) if hasattr(data, "_fields") else converted
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(value) for value in data]
    return data
