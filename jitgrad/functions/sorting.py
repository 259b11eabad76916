"""Order: `sort`, `topk`, `kthvalue`, `median`, `unique`, `searchsorted`, `bincount`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, DimError, ShapeError
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.sorting import Sort

from ..aliasing import view
from ..dispatch import apply, apply_all, constant
from ..errors import located
from ..tensor import Tensor, to_array
from .dims import normalize_dim
from .joining import select, stretch
from .reductions import ValuesAndIndices
from .registry import numpy_names, public


@public()
@numpy_names
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> ValuesAndIndices:
    """The elements in order along `dim`, and their indices; equal elements keep theirs. NaN counts as largest.

    >>> import jitgrad as jg
    >>> jg.sort(jg.tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    axis = normalize_dim(dim, input.ndim)
    if input.ndim == 0:
        values, indices = apply_all(Sort(0, descending), view(Reshape((1,)), input))
        return ValuesAndIndices(view(Reshape(()), values), view(Reshape(()), indices))
    return ValuesAndIndices(*apply_all(Sort(axis, descending), input))


@public()
@numpy_names
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put the elements in order along `dim`.

    >>> import jitgrad as jg
    >>> jg.argsort(jg.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return sort(input, dim, descending).indices


@public()
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dim."""
    return sort(input, 0).values


@public()
@numpy_names
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """The `k` largest (or smallest) elements along `dim` in order, and their indices.

    >>> import jitgrad as jg
    >>> jg.topk(jg.tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    axis = normalize_dim(dim, input.ndim)
    length = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= length:
        raise located(ShapeError(f"selected index k out of range: k is {k}, dim {axis} has length {length}"))
    values, indices = sort(input, axis, largest)
    if input.ndim == 0:
        return ValuesAndIndices(values, indices)
    return ValuesAndIndices(stretch(values, axis, 0, k), stretch(indices, axis, 0, k))


@public()
@numpy_names
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The `k`-th smallest element along `dim`, counted from 1, and its index.

    >>> import jitgrad as jg
    >>> jg.kthvalue(jg.tensor([3, 1, 2]), 2)
    ValuesAndIndices(values=tensor(2), indices=tensor(2))
    """
    axis = normalize_dim(dim, input.ndim)
    length = input.shape[axis] if input.ndim else 1
    if not 1 <= k <= length:
        raise located(ShapeError(f"kthvalue(): selected number k out of range for dimension {axis}"))
    return _pick(input, axis, k - 1, keepdim)


def _pick(input: Tensor, axis: int, place: int, keepdim: bool) -> ValuesAndIndices:
    """The element at one place of the order along an axis."""
    values, indices = sort(input, axis)
    if input.ndim == 0:
        return ValuesAndIndices(values, indices)
    if keepdim:
        return ValuesAndIndices(stretch(values, axis, place, 1), stretch(indices, axis, place, 1))
    return ValuesAndIndices(select(values, axis, place), select(indices, axis, place))


@public()
@numpy_names
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or along `dim` with its index; NaN if there is one.

    >>> import jitgrad as jg
    >>> jg.median(jg.tensor([3, 1, 2, 4]))
    tensor(2)
    """
    if dim is None:
        flat = view(Reshape((input.type_.numel,)), input)
        return _middle(flat, 0, False).values
    return _middle(input, normalize_dim(dim, input.ndim), keepdim)


def _middle(input: Tensor, axis: int, keepdim: bool) -> ValuesAndIndices:
    length = input.shape[axis] if input.ndim else 1
    if length == 0:
        raise located(DimError("median() operation does not have an identity for an empty input"))
    if not input.dtype.is_floating_point or input.ndim == 0:
        return _pick(input, axis, (length - 1) // 2, keepdim)
    values, indices = sort(input, axis)
    unordered = (values != values).any(axis, keepdim=True)  # type: ignore[attr-defined]
    place = unordered.to(dtypes.int64) * (length - 1 - (length - 1) // 2) + (length - 1) // 2
    found = ValuesAndIndices(apply(Gather(axis), values, place), apply(Gather(axis), indices, place))
    if keepdim:
        return found
    return ValuesAndIndices(select(found.values, axis, 0), select(found.indices, axis, 0))


@public()
@numpy_names
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in order (slices along `dim`, with one); with their places or counts if asked for.

    >>> import jitgrad as jg
    >>> jg.unique(jg.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    axis = None if dim is None else normalize_dim(dim, input.ndim)
    values, inverse, counts = np.unique(
        to_array(input), return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    shape = tuple(input.shape) if axis is None else (-1,)
    return _distinct(values, inverse.reshape(shape), counts, return_inverse, return_counts)


@public()
@numpy_names
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements without those equal to the one before (slices along `dim`, with one).

    >>> import jitgrad as jg
    >>> jg.unique_consecutive(jg.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    array = to_array(input)
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, normalize_dim(dim, input.ndim), 0)
    flat = rows.reshape(len(rows), -1)
    fresh = np.concatenate(([True], (flat[1:] != flat[:-1]).any(1))) if len(rows) else np.zeros(0, np.bool_)
    inverse = np.cumsum(fresh) - 1
    counts = np.bincount(inverse, minlength=int(fresh.sum())) if len(rows) else inverse
    values = rows[fresh]
    if dim is not None:
        values = np.moveaxis(values, 0, normalize_dim(dim, input.ndim))
    else:
        inverse = inverse.reshape(array.shape)
    return _distinct(values, inverse, counts, return_inverse, return_counts)


def _distinct(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    out = [constant(np.ascontiguousarray(values))]
    if return_inverse:
        out.append(constant(inverse.astype(np.int64)))
    if return_counts:
        out.append(constant(counts.astype(np.int64)))
    return out[0] if len(out) == 1 else tuple(out)


@public(method=False)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where in the (rows of the) sorted sequence elements would be put in to keep the order.

    >>> import jitgrad as jg
    >>> jg.searchsorted(jg.tensor([1, 3, 5]), jg.tensor([3, 6]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right"):
        raise located(ArgumentError(f"searchsorted(): side can only be 'left' or 'right' but got {side}"))
    where: Any = "right" if right or side == "right" else "left"
    edges = to_array(sorted_sequence)
    if sorter is not None:
        edges = np.take_along_axis(edges, to_array(sorter), -1)
    values = to_array(input) if isinstance(input, Tensor) else np.asarray(input)
    if edges.ndim == 1:
        found = np.searchsorted(edges, values, where)
    else:
        if edges.shape[:-1] != values.shape[:-1]:
            raise located(
                ShapeError(
                    "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
                    f"tensor and input value tensor must match, but got {list(edges.shape)} and {list(values.shape)}"
                )
            )
        rows = zip(edges.reshape(-1, edges.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
        found = np.array([np.searchsorted(e, v, where) for e, v in rows]).reshape(values.shape)
    return constant(np.asarray(found, np.int32 if out_int32 else np.int64))


@public(method=False)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted boundaries that elements fall into.

    >>> import jitgrad as jg
    >>> jg.bucketize(jg.tensor([0, 2, 9]), jg.tensor([1, 3]))
    tensor([0, 1, 2])
    """
    if boundaries.ndim != 1:
        raise located(ShapeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"))
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs in a vector of integers, or the sum of its weights.

    >>> import jitgrad as jg
    >>> jg.bincount(jg.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    values = to_array(input)
    if input.dtype.kind != "int" or values.ndim != 1 or (values < 0).any():
        raise located(ShapeError("bincount only supports 1-d non-negative integral inputs."))
    given = None if weights is None else to_array(weights)
    out = np.bincount(values, given, minlength)
    return constant(out if given is None or given.dtype != np.float32 else out.astype(np.float32))
