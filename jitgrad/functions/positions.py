"""Where elements are: `nonzero` and its kin, and positions in row-major order as coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from ..errors import located
from ..tensor import Tensor, made_by_host
from .pointwise import check_tensor, convert
from .registry import public, write_out


def places(array: np.ndarray[Any, Any]) -> list[Any]:
    """Where elements are not zero, as a vector for each axis; 0-d arrays have one."""
    return [np.ascontiguousarray(x) for x in np.nonzero(array if array.ndim else array.reshape(1))]


def _rows(array: np.ndarray[Any, Any]) -> list[Any]:
    """A row of coordinates for each such element; those of 0-d arrays are empty."""
    found = np.nonzero(array if array.ndim else array.reshape(1))
    if array.ndim == 0:
        return [np.empty((len(found[0]), 0), np.int64)]
    return [np.stack(found, 1).astype(np.int64, copy=False)]


def _first_rows(array: np.ndarray[Any, Any], size: int, fill_value: int) -> list[Any]:
    """The first `size` rows, and more of `fill_value` up to so many."""
    found = _rows(array)[0][:size]
    filled = np.full((size, array.ndim), fill_value, np.int64)
    filled[: len(found)] = found
    return [filled]


def _nonzero(input: Tensor) -> Tensor:
    """The rows of `nonzero` alone."""
    return made_by_host(_rows, (check_tensor(input, "nonzero"),))[0]


@public()
def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """The indices of the elements that are not zero: a row each, or a tuple with a vector per dim.

    >>> import jitgrad as jg
    >>> jg.nonzero(jg.tensor([0, 3, 4]))
    tensor([[1],
            [2]])
    """
    if not as_tuple:
        made = _nonzero(input)
        return made if out is None else write_out(made, out, "nonzero", exact=True)
    if out is not None:
        raise located(ArgumentTypeError("nonzero(): with as_tuple=True there is no single result to write to out"))
    return tuple(made_by_host(places, (check_tensor(input, "nonzero"),)))


@public(out="exact")
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, or all of them and rows of `fill_value` up to so many.

    >>> import jitgrad as jg
    >>> jg.nonzero_static(jg.tensor([0, 3, 4]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise located(OperationError(f"nonzero_static: 'size' must be an non-negative integer, not {size}"))
    return made_by_host(_first_rows, (check_tensor(input, "nonzero"),), size, fill_value)[0]


@public()
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row each.

    >>> import jitgrad as jg
    >>> jg.argwhere(jg.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return _nonzero(input)


@public(method=False)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Positions in row-major order of a tensor of that shape, as a tensor of coordinates for each dim.

    >>> import jitgrad as jg
    >>> jg.unravel_index(jg.tensor([4, 1]), (3, 2))
    (tensor([2, 0]), tensor([0, 1]))
    """
    if not isinstance(indices, Tensor):
        raise located(ArgumentTypeError(f"unravel_index: indices must be a Tensor, not {type(indices).__name__}"))
    if indices.dtype.kind != "int":
        raise located(ArgumentError(f"expected 'indices' to be integer dtype, but got {indices.dtype.name}"))
    indices = convert(indices, dtypes.int64)
    lengths = [shape] if isinstance(shape, int) else list(shape)
    if not all(isinstance(n, int) for n in lengths):
        raise located(ArgumentTypeError(f"expected 'shape' to be int or sequence of ints, but got {shape!r}"))
    if any(n < 0 for n in lengths):
        raise located(ArgumentError(f"'shape' cannot have negative values, but got {tuple(lengths)}"))
    strides = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
    coordinates = []
    for n, step in zip(lengths, strides, strict=True):
        along = indices if step in (0, 1) else indices.div(step, rounding_mode="floor")  # type: ignore[attr-defined]
        coordinates.append(along if n == 0 else along.remainder(n))
    return tuple(coordinates)
