"""Order: `sort`, `topk`, `kthvalue`, `median`, `mode`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DTypeError, ShapeError
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import Eq, IsNan
from jitgrad.ir.ops.history import WithHistory
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.logical import LogicalAnd, LogicalOr
from jitgrad.ir.ops.searching import Mode
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.sorting import KthValue, Sort, TopK

from ..aliasing import view
from ..dispatch import apply, apply_all
from ..errors import located
from ..mode import local
from ..tensor import Tensor, wrap
from .arithmetic import alias_free
from .dims import normalize_dim
from .joining import select, stretch
from .pointwise import check_tensor, convert, expand, filled
from .reductions import ValuesAndIndices, check_lengths
from .registry import numpy_names, public


@public(out=True)
@numpy_names
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> ValuesAndIndices:
    """The elements in order along `dim`, and their indices. NaN counts as largest.

    Equal elements keep their order if `stable`; else PyTorch's indices come, which from 17 elements on tell another.

    >>> import jitgrad as jg
    >>> jg.sort(jg.tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    return _sorted(input, normalize_dim(dim, input.ndim), bool(descending), bool(stable))


def _sorted(x: Tensor, axis: int, descending: bool, stable: bool) -> ValuesAndIndices:
    if x.ndim == 0:
        values, indices = apply_all(Sort(0, descending, stable), view(Reshape((1,)), x))
        return ValuesAndIndices(view(Reshape(()), values), view(Reshape(()), indices))
    return ValuesAndIndices(*apply_all(Sort(axis, descending, stable), x))


@public()
@numpy_names
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put the elements in order along `dim`; see `sort`.

    >>> import jitgrad as jg
    >>> jg.argsort(jg.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return sort(input, dim, descending, stable).indices


@public(out=True)
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dim."""
    return sort(input, 0).values


@public(out=True)
@numpy_names
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """The `k` largest (or smallest) elements along `dim`, in order if `sorted`, and their indices.

    >>> import jitgrad as jg
    >>> jg.topk(jg.tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    axis = normalize_dim(dim, input.ndim)
    length = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= length:
        raise located(ShapeError(f"selected index k out of range: k is {k}, dim {axis} has length {length}"))
    if input.ndim == 0:
        return ValuesAndIndices(alias_free(input), filled((), dtypes.int64, 0))
    return ValuesAndIndices(*apply_all(TopK(axis, int(k), bool(largest), bool(sorted)), input))


@public(out=True)
@numpy_names
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The `k`-th smallest element along `dim`, counted from 1, and its index.

    >>> import jitgrad as jg
    >>> jg.kthvalue(jg.tensor([3, 1, 2]), 2)
    ValuesAndIndices(values=tensor(2), indices=tensor(2))
    """
    axis = normalize_dim(dim, check_tensor(input, "kthvalue").ndim)
    length = input.shape[axis] if input.ndim else 1
    if input.ndim:
        check_lengths("kthvalue", input, (axis,))
    if not 1 <= k <= length:
        raise located(ShapeError(f"kthvalue(): selected number k out of range for dimension {axis}"))
    if input.ndim == 0:
        return _pick(input, axis, 0, keepdim)
    found = ValuesAndIndices(*apply_all(KthValue(axis, int(k) - 1), input))
    if not keepdim:
        return found
    shape = tuple(1 if a == axis else n for a, n in enumerate(input.shape))
    return ValuesAndIndices(*[view(Reshape(shape), t) for t in found])


def _pick(input: Tensor, axis: int, place: int, keepdim: bool) -> ValuesAndIndices:
    """The element at one place of the order along an axis."""
    values, indices = _sorted(input, axis, False, True)
    if input.ndim == 0:
        return ValuesAndIndices(values, indices)
    if keepdim:
        return ValuesAndIndices(stretch(values, axis, place, 1), stretch(indices, axis, place, 1))
    return ValuesAndIndices(select(values, axis, place), select(indices, axis, place))


@public(out=True)
@numpy_names
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or along `dim` with its index; NaN if there is one.

    Of all elements, equal ones share the gradient.

    >>> import jitgrad as jg
    >>> jg.median(jg.tensor([3, 1, 2, 4]))
    tensor(2)
    """
    return _median("median", input, dim, keepdim, False)


@public(out=True)
@numpy_names
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN; NaN where there are none.

    >>> import jitgrad as jg
    >>> jg.nanmedian(jg.tensor([3.0, float("nan"), 1.0]))
    tensor(1.)
    """
    return _median("nanmedian", input, dim, keepdim, True)


def _median(name: str, input: Tensor, dim: int | None, keepdim: bool, ignore_nan: bool) -> Any:
    x = check_tensor(input, name)
    if x.dtype.kind in ("bool", "complex"):
        raise located(DTypeError(f"{name}: not implemented for {x.dtype.name}"))
    if dim is not None:
        axis = normalize_dim(dim, x.ndim)
        check_lengths(name, x, (axis,))
        return _middle(x, axis, keepdim, ignore_nan)
    if x.type_.numel == 0:
        return filled((), x.dtype, math.nan if x.dtype.is_floating_point else int(np.iinfo(x.dtype.np).min))
    flat = view(Reshape((x.type_.numel,)), x)
    value = _selected(flat, ignore_nan)
    if value is None:
        value = _middle(flat, 0, False, ignore_nan).values
    return _shared_by_equals(flat, value) if flat.requires_grad else value


def _selected(flat: Tensor, ignore_nan: bool) -> Tensor | None:
    """The median of a vector in host memory by selection, which needs no order of the rest; None of others."""
    data = flat._data
    if local.mode.tracer is not None or not isinstance(data, np.ndarray) or data.dtype.char not in "fd":
        return None
    unordered = np.isnan(data)
    if unordered.any():
        data = data[~unordered] if ignore_nan else data[unordered]
        if not data.size:
            return wrap(np.array(np.nan, flat.dtype.np))
    middle = (data.size - 1) // 2
    return wrap(np.array(np.partition(data, middle)[middle]))


def _shared_by_equals(x: Tensor, value: Tensor) -> Tensor:
    """`value`, one of the elements of a vector, with a gradient that equal elements share, NaNs among them."""
    bare = value.detach()  # type: ignore[attr-defined]
    same = apply(Eq(), x, expand(bare, x._data.shape))
    both_nan = apply(LogicalAnd(), apply(IsNan(), x), expand(apply(IsNan(), bare), x._data.shape))
    same = apply(LogicalOr(), same, both_nan)
    chosen = apply(Where(), same, x, filled(x._data.shape, x.dtype, 0))
    total = apply(Sum((0,), False), chosen)
    share = convert(1 / same.sum(dtype=dtypes.float64), x.dtype)  # type: ignore[attr-defined]
    return apply(WithHistory(), bare, apply(Mul(), total, share))


def _middle(input: Tensor, axis: int, keepdim: bool, ignore_nan: bool) -> ValuesAndIndices:
    length = input.shape[axis] if input.ndim else 1
    if not input.dtype.is_floating_point or input.ndim == 0 or input.type_.numel == 0:
        return _pick(input, axis, (length - 1) // 2, keepdim)
    values, indices = _sorted(input, axis, False, True)
    unordered = values != values
    if ignore_nan:
        present = length - unordered.sum(axis, keepdim=True)  # type: ignore[attr-defined]
        place = ((present - 1).clamp(min=0)) // 2
    else:
        found_nan = unordered.any(axis, keepdim=True).to(dtypes.int64)  # type: ignore[attr-defined]
        first_nan = length - unordered.sum(axis, keepdim=True)  # type: ignore[attr-defined]
        place = found_nan * (first_nan - (length - 1) // 2) + (length - 1) // 2
    found = ValuesAndIndices(apply(Gather(axis), values, place), apply(Gather(axis), indices, place))
    if keepdim:
        return found
    return ValuesAndIndices(select(found.values, axis, 0), select(found.indices, axis, 0))


@public(out=True)
@numpy_names
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The most frequent element along `dim`, the smallest of several, and where the last of them is in `sort`'s order.

    >>> import jitgrad as jg
    >>> jg.mode(jg.tensor([3, 1, 3, 1]))
    ValuesAndIndices(values=tensor(1), indices=tensor(3))
    """
    x = check_tensor(input, "mode")
    axis = normalize_dim(dim, x.ndim)
    if x.ndim == 0:
        return ValuesAndIndices(alias_free(x), filled((), dtypes.int64, 0))
    check_lengths("mode", x, (axis,))
    values, indices = apply_all(Mode(axis), x)
    if keepdim:
        shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        return ValuesAndIndices(view(Reshape(shape), values), view(Reshape(shape), indices))
    return ValuesAndIndices(values, indices)
