"""Counting elements: `bincount`, `histc`, `histogram`, `histogramdd`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.ir.errors import DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.searching import BinCounts, BinEdges, Histc

from ..dispatch import apply, constant
from ..errors import located
from ..promotion import Number
from ..tensor import Tensor, to_array
from .joining import select
from .pointwise import check_tensor
from .registry import public
from .shape import reshape


class HistogramAndEdges(NamedTuple):
    """What `histogram` gives; of `histogramdd` the edges are a tuple."""

    hist: Tensor
    bin_edges: Any


@public(out=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs in a vector of integers, or the sum of its weights.

    >>> import jitgrad as jg
    >>> jg.bincount(jg.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if minlength < 0:
        raise located(OperationError(f"bincount: minlength should be >= 0, not {minlength}"))
    values = to_array(check_tensor(input, "bincount"))
    if input.dtype.kind != "int":
        raise located(DTypeError(f"bincount: not implemented for {input.dtype.name}"))
    if values.ndim != 1 or (values < 0).any():
        raise located(ShapeError("bincount only supports 1-d non-negative integral inputs."))
    if weights is None:
        return constant(np.bincount(values, None, minlength), input)
    given = to_array(weights)
    if given.shape != values.shape:
        raise located(
            ShapeError(f"bincount: weights should be 1-d and have the same length as input: {list(given.shape)}")
        )
    out = np.bincount(values, given.astype(np.float64), minlength)
    return constant(out.astype(np.float32) if given.dtype == np.float32 else out, input)


def _check_bins(name: str, bins: int, dimension: int = 0) -> int:
    if bins <= 0:
        raise located(OperationError(f"{name}: bins must be > 0, but got {bins} for dimension {dimension}"))
    return int(bins)


@public(out=True)
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """How many elements fall into each of `bins` equal parts of `[min, max]`; of the data's range if both are equal.

    Counts have the input's dtype, a float.

    >>> import jitgrad as jg
    >>> jg.histc(jg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    x = check_tensor(input, "histc")
    if not x.dtype.is_floating_point:
        raise located(DTypeError(f"histc: not implemented for {x.dtype.name}"))
    if min > max:
        raise located(OperationError(f"histc: max must be larger than min, but they are {max} and {min}"))
    return apply(Histc(_check_bins("histc", bins), float(min), float(max)), x)


def _limits(name: str, range: Sequence[float] | None, dimensions: int) -> list[tuple[float, ...]]:
    """The lowest and the highest border for each dimension; empty for that of the data."""
    if range is None:
        return [()] * dimensions
    numbers = [float(v) for v in range]
    if len(numbers) != 2 * dimensions:
        raise located(ShapeError(f"{name}: range should have {2 * dimensions} elements, but got {len(numbers)}"))
    limits = list(zip(numbers[::2], numbers[1::2], strict=True))
    for i, (low, high) in enumerate(limits):
        if low > high:
            raise located(
                OperationError(f"{name}: min should not exceed max, but got {low} and {high} for dimension {i}")
            )
    return limits  # type: ignore[return-value]


def _counts(name: str, points: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    given = [] if weight is None else [weight]
    if weight is not None:
        if weight.numel() != points.shape[0]:  # type: ignore[attr-defined]
            raise located(
                ShapeError(
                    f"{name}: the weight tensor should have the shape of the input without its innermost dimension, "
                    f"but got {points.shape[0]} points and {weight.numel()} weights"  # type: ignore[attr-defined]
                )
            )
        given = [reshape(weight, (-1,))]
    for t in (*edges, *given):
        if t.dtype is not points.dtype:
            raise located(DTypeError(f"{name}: input has dtype {points.dtype.name}, another tensor {t.dtype.name}"))
    return apply(BinCounts(weight is not None, bool(density)), points, *edges, *given)


def _check_floats(name: str, input: Tensor) -> Tensor:
    x = check_tensor(input, name)
    if not x.dtype.is_floating_point:
        raise located(DTypeError(f"{name}: not implemented for {x.dtype.name}"))
    return x


@public(out=True)
def histogram(
    input: Tensor, bins: int | Tensor, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> HistogramAndEdges:  # fmt: skip
    """How many elements (or what weights) fall between borders, and the borders.

    `bins` is a sorted vector of borders, or a number of equal parts of `range` (that of the data). The last border
    belongs to the last part. `density` divides by the total and the widths.

    >>> import jitgrad as jg
    >>> jg.histogram(jg.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    x = reshape(_check_floats("histogram", input), (-1, 1))
    if isinstance(bins, Tensor):
        edges = bins
    else:
        (limits,) = _limits("histogram", range, 1)
        edges = apply(BinEdges(_check_bins("histogram", bins), limits), x)
    return HistogramAndEdges(_counts("histogram", x, [edges], weight, density), edges)


@public(method=False)
def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> HistogramAndEdges:  # fmt: skip
    """How many points (or what weights) fall into the cells between borders, and the borders of each dimension.

    The last dim of `input` holds the coordinates. `bins` is a number of equal parts, a number for each dimension, or
    a sorted vector of borders for each. `range` holds the lowest and highest border of each dimension in turn.

    >>> import jitgrad as jg
    >>> jg.histogramdd(jg.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    x = _check_floats("histogramdd", input)
    if x.ndim < 2:
        raise located(ShapeError(f"histogramdd: input tensor should have at least 2 dimensions, but got {x.ndim}"))
    count = x.shape[-1]
    points = reshape(x, (-1, count))
    parts = list(bins) if isinstance(bins, (tuple, list)) else [bins] * count
    if len(parts) != count:
        raise located(
            ShapeError(f"histogramdd: expected {count} sequences of bin edges or numbers of bins, but got {len(parts)}")
        )
    limits = _limits("histogramdd", range, count)
    edges = [
        p
        if isinstance(p, Tensor)
        else apply(BinEdges(_check_bins("histogramdd", p, i), limits[i]), select(points, 1, i))
        for i, p in enumerate(parts)
    ]
    return HistogramAndEdges(_counts("histogramdd", points, edges, weight, density), tuple(edges))
