"""Copies with a part replaced (`select_scatter` and its kin), and `scatter_reduce`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DimError, OperationError, ShapeError
from jitgrad.ir.op import View
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.indexing import Scatter, ScatterAdd
from jitgrad.ir.ops.scatter_extreme import ScatterExtreme
from jitgrad.ir.ops.scatter_product import ScatterProduct
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Diagonal, Slice
from jitgrad.ir.ops.write import WriteView

from ..dispatch import apply, infer
from ..errors import located
from ..indexing import fitted
from ..tensor import Tensor
from .dims import normalize_dim
from .gathering import integers, part_of, places, rows, same_dtype, shaped_like, vector
from .registry import numpy_names, public


def _with_part(input: Tensor, src: Tensor, name: str, *views: View) -> Tensor:
    """A copy of `input` where the part seen through `views` is `src`."""
    region = input.type_
    for op in views:
        (region,) = infer(op, (region,))
    if tuple(src.shape) != region.shape:
        raise located(
            ShapeError(f"{name}: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
                       f"slice size = {list(region.shape)}")
        )  # fmt: skip
    return apply(WriteView(views), input, fitted(src, region.shape, input.dtype))


@public(out="exact")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with the place `index` along `dim` replaced by `src`.

    >>> import jitgrad as jg
    >>> jg.select_scatter(jg.zeros(2, 2), jg.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    axis = normalize_dim(dim, input.ndim)
    shape, size = tuple(input.shape), input.shape[axis]
    if not -size <= index < size:
        raise located(
            DimError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {axis}")
        )
    starts = tuple(index % size if a == axis else 0 for a in range(input.ndim))
    lengths = (*shape[:axis], 1, *shape[axis + 1 :])
    region = Slice(starts, lengths, (1,) * input.ndim)
    return _with_part(input, src, "select_scatter", region, Reshape((*shape[:axis], *shape[axis + 1 :])))


@public(out="exact")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of `input` with a slice along `dim` replaced by `src`.

    >>> import jitgrad as jg
    >>> jg.slice_scatter(jg.zeros(4), jg.ones(2), start=1, step=2)
    tensor([0., 1., 0., 1.])
    """
    axis = normalize_dim(dim, input.ndim)
    if step <= 0:
        raise located(ShapeError("slice step must be positive"))
    first, stop, _ = slice(start, end, step).indices(input.shape[axis])
    length = len(range(first, stop, step))
    starts = tuple(first if a == axis and length else 0 for a in range(input.ndim))
    steps = tuple(step if a == axis and length else 1 for a in range(input.ndim))
    region = Slice(starts, (*input.shape[:axis], length, *input.shape[axis + 1 :]), steps)
    return _with_part(input, src, "slice_scatter", region)


@public(out="exact")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with a diagonal replaced by `src`.

    >>> import jitgrad as jg
    >>> jg.diagonal_scatter(jg.zeros(2, 2), jg.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    a, b = normalize_dim(dim1, input.ndim), normalize_dim(dim2, input.ndim)
    return _with_part(input, src, "diagonal_scatter", Diagonal(offset, a, b))


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@public(inplace=True, out="exact")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`input` with what meets at the places named by `index` along `dim` reduced.

    `reduce` is "sum", "prod", "mean", "amax" or "amin". The elements of `input` take part, unless `include_self` is
    False.

        >>> import jitgrad as jg
        >>> jg.zeros(2).scatter_reduce(0, jg.tensor([0, 0, 1]), jg.tensor([1.0, 3.0, 5.0]), "mean", include_self=False)
        tensor([2., 5.])
    """
    if reduce not in _REDUCTIONS:
        raise located(OperationError(f"scatter_reduce: reduce must be one of {', '.join(_REDUCTIONS)}, not {reduce!r}"))
    axis = normalize_dim(dim, input.ndim)
    same_dtype("scatter", input, src)
    at = rows(integers(index, "scatter_reduce"))
    out = _reduced(rows(input), axis, at, part_of(rows(src), at, "scatter_reduce", axis, input), reduce, include_self)
    return shaped_like(out, input)


@public(inplace=True, out="exact")
@numpy_names
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`input` with the places along `dim` named by a vector reduced with those of `source`.

    `reduce` is "prod", "mean", "amax" or "amin"; `input` takes part, unless `include_self` is False.

        >>> import jitgrad as jg
        >>> jg.ones(3).index_reduce(0, jg.tensor([0, 0, 2]), jg.tensor([2.0, 3.0, 4.0]), "prod")
        tensor([6., 1., 4.])
    """
    if reduce not in _REDUCTIONS[1:]:
        raise located(
            OperationError(f"index_reduce: reduce must be one of {', '.join(_REDUCTIONS[1:])}, not {reduce!r}")
        )
    axis = normalize_dim(dim, input.ndim)
    same_dtype("index_reduce", input, source)
    at = vector(index, "index_reduce")
    values = places(input, axis, at, source, "index_reduce")
    line = tuple(at.shape[0] if a == axis else 1 for a in range(values.ndim))
    spread = apply(BroadcastTo(tuple(values.shape)), apply(Reshape(line), at))
    return shaped_like(_reduced(rows(input), axis, spread, values, reduce, include_self), input)


def _reduced(base: Tensor, axis: int, at: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """`base` and `source` reduced where `at` says, along `axis`."""
    if not include_self:
        base = apply(Scatter(axis), base, at, fitted(_neutral(reduce, base.dtype), tuple(at.shape), base.dtype))
    if reduce in ("amax", "amin"):
        return apply(ScatterExtreme(axis, reduce == "amax"), base, at, source)
    if reduce == "prod":
        return apply(ScatterProduct(axis), base, at, source)
    out = apply(ScatterAdd(axis), base, at, source)
    return _divided(out, axis, at, include_self) if reduce == "mean" else out


def _neutral(reduce: str, dtype: dtypes.DType) -> Any:
    """What leaves the other elements as they are."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype.kind == "bool":
        return reduce == "amin"
    if dtype.kind == "int":
        limits = np.iinfo(dtype.np)
        return int(limits.min if reduce == "amax" else limits.max)
    return float("-inf") if reduce == "amax" else float("inf")


def _divided(total: Tensor, axis: int, at: Tensor, include_self: bool) -> Tensor:
    """Sums divided by how many elements met; whole numbers rounded down."""
    shape = tuple(total.shape)
    counts = fitted(1 if include_self else 0, shape, total.dtype)
    counts = apply(ScatterAdd(axis), counts, at, fitted(1, tuple(at.shape), total.dtype))
    if not include_self:
        counts = counts.clamp(min=1)  # type: ignore[attr-defined]
    integers_only = total.dtype.kind == "int"
    return total.div(counts, rounding_mode="floor" if integers_only else None)  # type: ignore[attr-defined, no-any-return]
