"""Making arrays, as the standard has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError

from .. import conversions, creation
from ..device import as_device
from ..errors import located
from ..functions import diagonals, repeating
from ..functions.pointwise import convert
from ..tensor import Tensor

__all__ = [
    "arange", "asarray", "astype", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """`obj`, a number, nested sequences, an array or a tensor, as a tensor; sharing memory where it can unless `copy`.

    `copy=False` raises where memory can't be shared.

    >>> from jitgrad import array_api as xp
    >>> xp.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    as_device(device)
    shareable = isinstance(obj, (Tensor, np.ndarray)) and (dtype is None or creation.as_tensor(obj).dtype is dtype)
    if copy is False and not shareable:
        raise located(ArgumentError("asarray: copy=False, but the data can't be shared"))
    made = creation.as_tensor(obj, dtype)
    return conversions.clone(made) if copy and shareable else made


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The numbers from `start` (0, if only one bound is given) up to `stop`, left out; none if that is behind."""
    if stop is None:
        start, stop = 0, start
    if step and (stop - start) / step < 0:
        stop = start
    return creation.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor whose values are not specified."""
    return creation.empty(shape, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return creation.zeros(shape, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return creation.ones(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor of one number."""
    return creation.full(shape, fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`empty` in the shape and dtype of `x`."""
    return creation.empty(tuple(x.shape), dtype=dtype or x.dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`zeros` in the shape and dtype of `x`."""
    return creation.zeros(tuple(x.shape), dtype=dtype or x.dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`ones` in the shape and dtype of `x`."""
    return creation.ones(tuple(x.shape), dtype=dtype or x.dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`full` in the shape and dtype of `x`."""
    return creation.full(tuple(x.shape), fill_value, dtype=dtype or x.dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType | None = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers evenly spaced from `start` to `stop`, which is left out without `endpoint`."""
    if endpoint:
        return creation.linspace(start, stop, num, dtype=dtype, device=device)
    return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]  # type: ignore[index, no-any-return]


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Ones on the `k`-th diagonal and zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return creation.eye(n_rows, columns, dtype=dtype, device=device)
    made = creation.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        diagonals.diagonal(made, k).fill_(1)  # type: ignore[attr-defined]
    return made


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate grids out of vectors, with Cartesian ("xy") or matrix ("ij") order of axes."""
    return repeating.meshgrid(*arrays, indexing=indexing) if arrays else ()


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices, up to the `k`-th diagonal; zeros above."""
    return diagonals.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices, from the `k`-th diagonal on; zeros below."""
    return diagonals.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of the memory of any object that speaks DLPack, shared unless `copy`."""
    as_device(device)
    shared = conversions.from_dlpack(x)
    return conversions.clone(shared) if copy else shared


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype; a copy even of the same one, unless `copy=False`."""
    as_device(device)
    if x.dtype is dtype:
        return conversions.clone(x) if copy else x
    return convert(x, dtype)
