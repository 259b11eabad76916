"""Finding values: `unique`, `unique_consecutive`, `searchsorted`, `bucketize`, `isin`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentTypeError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.searching import IsIn, SearchSorted

from ..dispatch import apply
from ..errors import located
from ..promotion import result_dtype
from ..tensor import Tensor, made_by_host
from .dims import normalize_dim
from .pointwise import check_tensor, convert, filled, operand
from .registry import numpy_names, public


def _as_rows(array: Any, axis: int) -> Any:
    """The slices along an axis as rows."""
    moved = np.moveaxis(array, axis, 0)
    return np.ascontiguousarray(moved).reshape(len(moved), -1 if array.size else 0)


def _distinct_rows(array: Any, axis: int) -> tuple[Any, Any, Any]:
    """The distinct slices along an axis in lexicographic order, with places and counts."""
    rows = _as_rows(array, axis)
    if not rows.shape[1]:
        places = np.zeros(len(rows), np.int64)
        few = min(len(rows), 1)
        return np.take(array, np.arange(few), axis), places, np.full(few, len(rows), np.int64)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    fresh = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(1)))[: len(rows)]
    places = np.empty(len(rows), np.int64)
    places[order] = np.cumsum(fresh) - 1
    counts = np.bincount(places, minlength=int(fresh.sum()))
    return np.take(array, order[fresh], axis), places, counts


def _sortable(array: Any) -> Any:
    """bfloat16 as float32, which NumPy can sort."""
    return array.astype(np.float32) if array.dtype == dtypes.bfloat16.np else array


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
    x = check_tensor(input, "unique")
    axis = None if dim is None else normalize_dim(dim, x.ndim)
    return _distinct(made_by_host(_unique, (x,), axis), return_inverse, return_counts)


def _unique(array: Any, axis: int | None) -> list[Any]:
    """The distinct elements, or slices along `axis`, in order; their places and counts."""
    sortable = _sortable(array)
    if axis is None:
        values, inverse, counts = np.unique(sortable, return_inverse=True, return_counts=True, equal_nan=False)
        inverse = inverse.reshape(array.shape)
    else:
        values, inverse, counts = _distinct_rows(sortable if array.ndim else sortable.reshape(1), axis)
    return [np.ascontiguousarray(values.astype(array.dtype, copy=False)), *_as_int64(inverse, counts)]


def _as_int64(*arrays: Any) -> list[Any]:
    return [np.ascontiguousarray(x).astype(np.int64, copy=False).reshape(x.shape) for x in arrays]


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
    axis = None if dim is None else normalize_dim(dim, check_tensor(input, "unique_consecutive").ndim)
    return _distinct(made_by_host(_unique_consecutive, (input,), axis), return_inverse, return_counts)


def _unique_consecutive(array: Any, axis: int | None) -> list[Any]:
    """The elements, or slices along `axis`, that differ from the one before; the places of all, and counts."""
    rows = array.reshape(-1, 1) if axis is None else _as_rows(array if array.ndim else array.reshape(1), axis)
    fresh = np.concatenate(([True], (rows[1:] != rows[:-1]).any(1)))[: len(rows)]
    inverse = np.cumsum(fresh) - 1
    counts = np.bincount(inverse, minlength=int(fresh.sum()))
    if axis is None:
        return [np.ascontiguousarray(rows[fresh, 0]), *_as_int64(inverse.reshape(array.shape), counts)]
    kept = np.compress(fresh, array if array.ndim else array.reshape(1), axis)
    return [np.ascontiguousarray(kept), *_as_int64(inverse, counts)]


def _distinct(found: list[Tensor], return_inverse: bool, return_counts: bool) -> Any:
    out = [t for t, wanted in zip(found, (True, return_inverse, return_counts), strict=True) if wanted]
    return out[0] if len(out) == 1 else tuple(out)


def _check_sequence(edges: Tensor, values: Any, sorter: Tensor | None) -> None:
    if edges.ndim == 0:
        raise located(
            ShapeError("searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
        )
    if edges.ndim != 1 and (not isinstance(values, Tensor) or edges.shape[:-1] != values.shape[:-1]):
        raise located(
            ShapeError(
                "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
                f"tensor and input value tensor must match, but got {list(edges.shape)} and "
                f"{list(values.shape) if isinstance(values, Tensor) else 'a number'}"
            )
        )
    if sorter is None:
        return
    if sorter.dtype is not dtypes.int64:
        raise located(DTypeError(f"searchsorted(): sorter must be a tensor of long dtype but got {sorter.dtype.name}"))
    if sorter.shape != edges.shape:
        raise located(
            ShapeError(
                "searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                f"{list(edges.shape)} and sorter tensor {list(sorter.shape)}"
            )
        )


@public(method=False, out="exact")
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
        raise located(OperationError(f"searchsorted(): side can only be 'left' or 'right' but got {side}"))
    if side == "left" and right:
        raise located(
            OperationError(
                "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
            )
        )
    edges, values = check_tensor(sorted_sequence, "searchsorted"), operand(input, "searchsorted", 2)
    _check_sequence(edges, values, sorter)
    dtype = result_dtype(edges, values)
    if sorter is not None:
        edges = apply(Gather(edges.ndim - 1), edges, sorter)
    given = convert(values, dtype) if isinstance(values, Tensor) else filled((), dtype, values)
    found = apply(SearchSorted(right or side == "right"), convert(edges, dtype), given)
    return convert(found, dtypes.int32) if out_int32 else found


@public(method=False, out="exact")
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted boundaries that elements fall into.

    >>> import jitgrad as jg
    >>> jg.bucketize(jg.tensor([0, 2, 9]), jg.tensor([1, 3]))
    tensor([0, 1, 2])
    """
    if boundaries.ndim != 1:
        raise located(ShapeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"))
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public(method=False, out="exact")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Where `elements` are among `test_elements` (or, with `invert`, are not); NaN never is. One may be a number.

    >>> import jitgrad as jg
    >>> jg.isin(jg.tensor([1, 2, 3]), jg.tensor([2, 4]))
    tensor([False,  True, False])
    """
    x, tests = operand(elements, "isin", 1), operand(test_elements, "isin", 2)
    if not isinstance(x, Tensor) and not isinstance(tests, Tensor):
        raise located(ArgumentTypeError("isin: elements or test_elements must be a Tensor"))
    dtype = result_dtype(x, tests)
    if dtype.kind not in ("int", "float"):
        raise located(DTypeError(f"isin: Unsupported input type encountered for isin(): {dtype.name}"))
    a, b = (convert(t, dtype) if isinstance(t, Tensor) else filled((), dtype, t) for t in (x, tests))
    return apply(IsIn(bool(invert)), a, b)
