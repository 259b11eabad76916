"""Sums, extremes, statistics, running sums and sets, as the standard has it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError

from ..errors import located
from ..functions import joining
from ..functions import shape as shapes
from ..functions.registry import FUNCTIONS
from ..tensor import Tensor, made_by_host

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "isin", "max",
    "mean", "min", "prod", "std", "sum", "unique_all", "unique_counts", "unique_inverse", "unique_values", "var",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


def _axes(x: Tensor, axis: Axis) -> Any:
    return tuple(range(x.ndim)) if axis is None else axis


def _none(axis: Axis) -> bool:
    """Whether the reduction is over no axis at all."""
    return axis == ()


def _summed(dtype: DType) -> DType:
    """The dtype of sums and products: the widest one for integers, of their kind."""
    if dtype.is_differentiable:
        return dtype
    return dtypes.uint64 if dtype.kind == "int" and not dtype.is_signed else dtypes.int64


def sum(x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum over these axes, or all."""
    if _none(axis):
        return x.to(dtype or _summed(x.dtype))  # type: ignore[attr-defined, no-any-return]
    return FUNCTIONS["sum"](x, _axes(x, axis), keepdims, dtype=dtype or _summed(x.dtype))  # type: ignore[no-any-return]


def prod(x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product over these axes, or all."""
    want = dtype or _summed(x.dtype)
    axes = (axis,) if isinstance(axis, int) else _axes(x, axis)
    out = x.to(want)  # type: ignore[attr-defined]
    for a in sorted([a % out.ndim for a in axes], reverse=True):
        out = out.prod(a, keepdim=keepdims)
    return out  # type: ignore[no-any-return]


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest over these axes, or all."""
    return x if _none(axis) else FUNCTIONS["amax"](x, _axes(x, axis), keepdims)  # type: ignore[no-any-return]


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest over these axes, or all."""
    return x if _none(axis) else FUNCTIONS["amin"](x, _axes(x, axis), keepdims)  # type: ignore[no-any-return]


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over these axes, or all."""
    return x if _none(axis) else FUNCTIONS["mean"](x, _axes(x, axis), keepdims)  # type: ignore[no-any-return]


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over these axes, or all; `correction` is taken from the number of elements."""
    if _none(axis):
        return x * 0  # type: ignore[operator, no-any-return]
    return FUNCTIONS["var"](x, _axes(x, axis), correction=correction, keepdim=keepdims)  # type: ignore[no-any-return]


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of `var`."""
    return FUNCTIONS["sqrt"](var(x, axis=axis, correction=correction, keepdims=keepdims))  # type: ignore[no-any-return]


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over these axes, or all of them, are true."""
    return x.bool() if _none(axis) else FUNCTIONS["all"](x, _axes(x, axis), keepdims)  # type: ignore


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element over these axes, or of all, is true."""
    return x.bool() if _none(axis) else FUNCTIONS["any"](x, _axes(x, axis), keepdims)  # type: ignore


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest is, along an axis or in the flat array."""
    return FUNCTIONS["argmax"](x, axis, keepdims)  # type: ignore[no-any-return]


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest is, along an axis or in the flat array."""
    return FUNCTIONS["argmin"](x, axis, keepdims)  # type: ignore[no-any-return]


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements over these axes, or of all, are not zero."""
    return sum(x.bool(), axis=axis, keepdims=keepdims)  # type: ignore[attr-defined]


def _line(x: Tensor, axis: int | None, name: str) -> int:
    if axis is None and x.ndim != 1:
        raise located(ArgumentError(f"{name}: an axis is needed for arrays that are no vectors"))
    return 0 if axis is None else axis


def _running(name: str, x: Tensor, axis: int | None, dtype: DType | None, initial: int | None) -> Tensor:
    at = _line(x, axis, name) % x.ndim
    out = FUNCTIONS[name](x, at, dtype=dtype)
    if initial is None:
        return out  # type: ignore[no-any-return]
    first = out.new_full((*out.shape[:at], 1, *out.shape[at + 1 :]), initial)
    return joining.cat([first, out], at)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Running sums along an axis, with a zero in front if `include_initial`."""
    return _running("cumsum", x, axis, dtype or _summed(x.dtype), 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Running products along an axis, with a one in front if `include_initial`."""
    return _running("cumprod", x, axis, dtype or _summed(x.dtype), 1 if include_initial else None)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The `n`-th differences of neighbours along an axis."""
    return FUNCTIONS["diff"](x, n, axis, prepend, append)  # type: ignore[no-any-return]


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is among those of `x2`."""
    return FUNCTIONS["isin"](x1, x2, invert=invert)  # type: ignore[no-any-return]


class UniqueAll(NamedTuple):
    """The different elements; where each first is; for each element which one it is; how often each comes."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The different elements, and how often each comes."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The different elements, and for each element which one it is."""

    values: Tensor
    inverse_indices: Tensor


def _unique(array: Any) -> list[Any]:
    """What `numpy.unique` finds."""
    found = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    return [*found]


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements with their places, inverse and counts; NaNs all differ.

    >>> from jitgrad import array_api as xp
    >>> xp.unique_all(xp.asarray([3, 1, 3])).counts
    tensor([1, 2])
    """
    values, places, inverse, counts = made_by_host(_unique, (x,))
    return UniqueAll(values, places, shapes.reshape(inverse, tuple(x.shape)), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how often each comes."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and for each element which one it is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements."""
    return unique_all(x).values
