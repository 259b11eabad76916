"""Arrays from nested Python sequences of numbers, NumPy scalars and arrays, and 0-d tensors.

The dtype is PyTorch's: int64 for integers, the default dtype for floats; tensors, arrays and NumPy scalars bring
their own, and all that are found are promoted.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from .errors import located
from .mode import local
from .promotion import number_dtype
from .tensor import Tensor, read_array

_NUMBERS = (bool, int, float, complex)
_PLAIN = frozenset(_NUMBERS)
_WIDEST = {"bool": np.bool_, "int": np.int64, "float": np.float64, "complex": np.complex128}


def known_dtype(dtype: np.dtype[Any]) -> DType:
    """The dtype of an array, or an error for arrays of strings, objects and the like."""
    found = dtypes.FROM_NUMPY.get(dtype.newbyteorder("="))
    if found is None:
        names = ", ".join(d.name for d in dtypes.ALL)
        raise located(ArgumentTypeError(f"can't convert an array of type {dtype}. The supported types are: {names}."))
    return found


def array_of_sequence(data: Any, wanted: DType | None = None) -> tuple[np.ndarray[Any, Any], DType]:
    """The numbers of `data`, if need be for a tensor of a `wanted` dtype, in the widest type of their kind.

    And the dtype they call for.

    >>> array_of_sequence([[1, 2], [3, 4]])
    (array([[1, 2],
           [3, 4]]), jitgrad.int64)
    """
    found: set[DType] = set()
    plain = _numbers(data, found, 0)
    dtype = functools.reduce(dtypes.promote, found) if found else local.mode.default_dtype
    try:
        return np.array(plain, _WIDEST[dtype.kind]), dtype
    except OverflowError:
        if wanted is dtypes.uint64:
            with contextlib.suppress(OverflowError):
                return np.array(plain, np.uint64), dtype
        raise located(ArgumentError("tensor: Overflow when unpacking long long")) from None
    except ValueError as error:
        raise located(ArgumentError(f"tensor: {error}")) from None


def _numbers(data: Any, found: set[DType], depth: int) -> Any:
    """`data` with tensors replaced by their values; the dtypes of all elements are added to `found`."""
    if isinstance(data, (np.generic, np.ndarray)):
        found.add(known_dtype(data.dtype))
        return data
    if isinstance(data, _NUMBERS):
        found.add(number_dtype(data))
        return data
    if isinstance(data, Tensor):
        if data.ndim and data.numel() != 1:  # type: ignore[attr-defined]
            raise located(ArgumentError("only one element tensors can be converted to Python scalars"))
        found.add(data.dtype)
        return read_array(data).reshape(())[()]
    if data is None:
        raise located(OperationError("Could not infer dtype of NoneType"))
    if isinstance(data, (str, bytes)) or not hasattr(data, "__len__"):
        raise located(ArgumentTypeError(f"new(): invalid data type '{type(data).__name__}'"))
    items = data if isinstance(data, (list, tuple)) else list(data)
    kinds = set(map(type, items))
    if kinds <= _PLAIN:
        found.update(number_dtype(kind(0)) for kind in kinds)
        return items
    _check_lengths(items, depth)
    return [_numbers(item, found, depth + 1) for item in items]


def _check_lengths(items: Sequence[Any], depth: int) -> None:
    """Sequences next to each other are equally long."""
    if not isinstance(items[0], (list, tuple)):
        return
    want = len(items[0])
    for item in items:
        if not isinstance(item, (list, tuple)):
            raise located(ArgumentTypeError(f"not a sequence: {item!r} at dim {depth}"))
        if len(item) != want:
            raise located(ArgumentError(f"expected sequence of length {want} at dim {depth + 1} (got {len(item)})"))
