"""Reductions: sums, products, extremes and where they are, tests of all elements, running sums."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import DimError, DTypeError, OperationError
from jitgrad.ir.op import Op
from jitgrad.ir.ops.argmax import ArgMax, ArgMin
from jitgrad.ir.ops.arithmetic import Maximum, Minimum
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import IsNan, Ne
from jitgrad.ir.ops.hashing import XorHash
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.reduction import All, Amax, Amin, Any, Prod
from jitgrad.ir.ops.scan import CumProd, CumSum
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.shape import Reshape

from ..aliasing import copy
from ..dispatch import apply
from ..errors import located
from ..fast_path import unary_method
from ..tensor import Tensor
from .dims import Dims, normalize_dim, reduced_axes
from .pointwise import check_tensor, convert, filled, pointwise
from .registry import numpy_names, public


class ValuesAndIndices(NamedTuple):
    """What `max` and `min` over a dimension give."""

    values: Tensor
    indices: Tensor


class MinAndMax(NamedTuple):
    """What `aminmax` gives."""

    min: Tensor
    max: Tensor


def summable(x: Tensor, dtype: DType | None) -> Tensor:
    """`x` in the dtype it is summed in: `dtype`, or int64 for bools and integers."""
    if dtype is None and not x.dtype.is_differentiable:
        dtype = dtypes.int64
    return x if dtype is None else convert(x, dtype)


@functools.lru_cache(4096)
def reduction(cls: Callable[..., Op], axes: tuple[int, ...], keepdim: bool) -> Callable[[Tensor], Tensor]:
    """The function that reduces `axes` by an op of class `cls`."""
    op = cls(axes, bool(keepdim))
    return unary_method(op, lambda x: apply(op, x))


@public(out=True)
@numpy_names
def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum of the elements over `dim`, or of all; bools and integers are summed as int64.

    >>> import jitgrad as jg
    >>> jg.sum(jg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    x = summable(check_tensor(input, "sum"), dtype)
    return reduction(Any if x.dtype is dtypes.bool_ else Sum, reduced_axes(dim, x.ndim), keepdim)(x)


@public(out=True)
@numpy_names
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """`sum`, with NaN counted as zero.

    >>> import jitgrad as jg
    >>> jg.nansum(jg.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    x = check_tensor(input, "nansum")
    return sum(without_nan(x), dim, keepdim, dtype=dtype)


def without_nan(x: Tensor) -> Tensor:
    """Zero in place of NaN."""
    if not x.dtype.is_differentiable:
        return x
    return apply(Where(), apply(IsNan(), x), filled(x._data.shape, x.dtype, 0), x)


@public(out=True)
@numpy_names
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The product of the elements over `dim`, or of all; bools and integers are multiplied as int64.

    >>> import jitgrad as jg
    >>> jg.prod(jg.tensor([2.0, 3.0]))
    tensor(6.)
    """
    x = summable(check_tensor(input, "prod"), dtype)
    axes = reduced_axes(None if dim is None else (normalize_dim(dim, x.ndim),), x.ndim)
    return reduction(All if x.dtype is dtypes.bool_ else Prod, axes, keepdim)(x)


def check_lengths(name: str, x: Tensor, axes: tuple[int, ...], dim: Dims = 0) -> None:
    """Extremes of no elements are an error of the dimension, as in PyTorch."""
    if x.numel() == 0:  # type: ignore[attr-defined]
        if dim is None or dim == ():
            raise located(OperationError(f"{name}(): Expected reduction dim to be specified for {x.type_}."))
        for a in axes:
            if x.shape[a] == 0:
                raise located(DimError(f"{name}(): Expected reduction dim {a} to have non-zero size, for {x.type_}."))


@public(out=True)
@numpy_names
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The largest element over `dim`, or of all; equal ones share the gradient. NaN if any is.

    >>> import jitgrad as jg
    >>> jg.amax(jg.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    tensor([4., 3.])
    """
    x = check_tensor(input, "amax")
    axes = reduced_axes(dim, x.ndim)
    check_lengths("amax", x, axes, dim)
    return reduction(Amax, axes, keepdim)(x)


@public(out=True)
@numpy_names
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The smallest element over `dim`, or of all; equal ones share the gradient. NaN if any is.

    >>> import jitgrad as jg
    >>> jg.amin(jg.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    x = check_tensor(input, "amin")
    axes = reduced_axes(dim, x.ndim)
    check_lengths("amin", x, axes, dim)
    return reduction(Amin, axes, keepdim)(x)


@public(out="exact")
@numpy_names
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinAndMax:
    """The smallest and the largest element over `dim`, or of all."""
    dims = () if dim is None else (dim,)
    return MinAndMax(amin(input, dims, keepdim), amax(input, dims, keepdim))


def _arg_extreme(name: str, op: Callable[..., Op], x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if check_tensor(x, name).dtype.kind == "bool":
        raise located(DTypeError(f"{name}(): does not support bool input"))
    if dim is None and x.numel() == 0:
        raise located(
            DimError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0, for {x.type_}.")
        )
    axes = reduced_axes(None if dim is None else (normalize_dim(dim, x.ndim),), x.ndim)
    check_lengths(name, x, axes)
    return reduction(op, axes, keepdim)(x)


@public(out=True)
@numpy_names
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element over `dim` is (the first of equals), or its place among all, row by row.

    >>> import jitgrad as jg
    >>> jg.argmax(jg.tensor([1.0, 4.0, 4.0]))
    tensor(1)
    """
    return _arg_extreme("argmax", ArgMax, input, dim, keepdim)


@public(out=True)
@numpy_names
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element over `dim` is (the first of equals), or its place among all, row by row.

    >>> import jitgrad as jg
    >>> jg.argmin(jg.tensor([3.0, 4.0, 1.0]))
    tensor(2)
    """
    return _arg_extreme("argmin", ArgMin, input, dim, keepdim)


def _extreme(
    name: str, whole: Op, pair: Op, place: Callable[..., Op], input: Tensor,
    dim: int | Tensor | None, keepdim: bool, other: Tensor | None,
) -> Tensor | ValuesAndIndices:  # fmt: skip
    x = check_tensor(input, name)
    if isinstance(dim, Tensor) or other is not None:
        return pointwise(pair, x, dim if other is None else other)  # type: ignore[arg-type]
    if dim is None:
        if x.numel() == 0:
            raise located(OperationError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0."))
        return apply(whole, x)
    axis = normalize_dim(dim, x.ndim)
    if x.ndim == 0:
        return ValuesAndIndices(copy(x), filled((), dtypes.int64, 0))
    check_lengths(name, x, (axis,))
    indices = reduction(place, (axis,), True)(x)
    values = apply(Gather(axis), x, indices)
    if keepdim:
        return ValuesAndIndices(values, indices)
    shape = tuple(n for a, n in enumerate(x.shape) if a != axis)
    return ValuesAndIndices(apply(Reshape(shape), values), apply(Reshape(shape), indices))


@public(out=True)
@numpy_names
def max(
    input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None
) -> Tensor | ValuesAndIndices:
    """The largest element; over `dim`, a pair `(values, indices)`; of two tensors, the larger elementwise.

    Over `dim` the gradient goes to the element at `indices`; over all, equal ones share it.

    >>> import jitgrad as jg
    >>> jg.max(jg.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1).indices
    tensor([1, 0])
    """
    axes = tuple(range(check_tensor(input, "max").ndim))
    return _extreme("max", Amax(axes, False), Maximum(), ArgMax, input, dim, keepdim, other)


@public(out=True)
@numpy_names
def min(
    input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None
) -> Tensor | ValuesAndIndices:
    """The smallest element; over `dim`, a pair `(values, indices)`; of two tensors, the smaller elementwise.

    >>> import jitgrad as jg
    >>> jg.min(jg.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1).values
    tensor([1., 2.])
    """
    axes = tuple(range(check_tensor(input, "min").ndim))
    return _extreme("min", Amin(axes, False), Minimum(), ArgMin, input, dim, keepdim, other)


def _truth(x: Tensor, op: Callable[..., Op], dim: Dims, keepdim: bool) -> Tensor:
    if dim is None or not isinstance(dim, (tuple, list)) or len(dim):
        out = reduction(op, reduced_axes(dim, x.ndim), keepdim)(x)
    else:  # sums take no dims for all dims; truth does not, in PyTorch
        out = apply(Ne(), x, filled(x._data.shape, x.dtype, 0))
    return convert(out, dtypes.uint8) if x.dtype is dtypes.uint8 else out


@public(out="exact")
@numpy_names
def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over `dim` are non-zero; True of no elements.

    >>> import jitgrad as jg
    >>> jg.all(jg.tensor([[True, True], [True, False]]), dim=1)
    tensor([ True, False])
    """
    return _truth(check_tensor(input, "all"), All, dim, keepdim)


@public(out="exact")
@numpy_names
def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any element over `dim` is non-zero; False of no elements.

    >>> import jitgrad as jg
    >>> jg.any(jg.tensor([[False, False], [True, False]]), dim=1)
    tensor([False,  True])
    """
    return _truth(check_tensor(input, "any"), Any, dim, keepdim)


@public()
@numpy_names
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements over `dim` are not zero, as int64.

    >>> import jitgrad as jg
    >>> jg.count_nonzero(jg.tensor([0, 1, 2]))
    tensor(2)
    """
    return sum(convert(check_tensor(input, "count_nonzero"), dtypes.bool_), dim)


@public(out="exact")
def hash_tensor(input: Tensor, dim: Dims = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """A number that tells tensors apart: all elements' bits in float64, or in int64, by exclusive or, as uint64.

    Over `dim`, or of all; `mode` is 0, the only one that there is.

    >>> import jitgrad as jg
    >>> jg.hash_tensor(jg.tensor([5, 3, 5]))
    tensor(3, dtype=jitgrad.uint64)
    """
    x = check_tensor(input, "hash_tensor")
    if mode != 0:
        raise located(OperationError(f"Unknown hash_tensor mode: {mode}"))
    axes = reduced_axes(dim, x.ndim)
    check_lengths("hash_tensor", x, axes, dim)
    return reduction(XorHash, axes, keepdim)(x)


def _scanned(name: str, op: Callable[[int], Op], input: Tensor, dim: int, dtype: DType | None) -> Tensor:
    x = summable(check_tensor(input, name), dtype)
    axis = normalize_dim(dim, x.ndim)
    if x.ndim:
        return apply(op(axis), x)
    return apply(Reshape(()), apply(op(0), apply(Reshape((1,)), x)))


@public(inplace=True, out=True)
@numpy_names
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The sums of all elements up to each one along `dim`.

    >>> import jitgrad as jg
    >>> jg.cumsum(jg.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    return _scanned("cumsum", CumSum, input, dim, dtype)


@public(inplace=True, out=True)
@numpy_names
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The products of all elements up to each one along `dim`.

    >>> import jitgrad as jg
    >>> jg.cumprod(jg.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    return _scanned("cumprod", CumProd, input, dim, dtype)
