"""Quantiles, with and without NaN."""

from __future__ import annotations

from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import OperationError
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.check import CheckBetween
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.rounding import Ceil, Floor, Round

from ..dispatch import apply
from ..errors import located
from ..tensor import Tensor
from .composed import lerp
from .dims import normalize_dim
from .pointwise import check_tensor, convert, expand, filled
from .registry import numpy_names, public
from .shape import movedim, reshape
from .sorting import sort

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _levels(name: str, x: Tensor, q: Any) -> Tensor:
    """`q` as a tensor of the input's dtype, checked."""
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise located(OperationError(f"{name}() q must be in the range [0, 1] but got {q}"))
        return filled((), x.dtype, float(q))
    if q.ndim > 1:
        raise located(OperationError(f"{name}() q must be a scalar or 1D tensor, but has {q.ndim} dims"))
    if q.dtype is not x.dtype:
        raise located(
            OperationError(f"{name}() q tensor must be same dtype as the input tensor: {q.dtype.name}, {x.dtype.name}")
        )
    apply(CheckBetween(name, "q", 0.0, 1.0), q)
    return q


def _ranks(x: Tensor, levels: Tensor, ignore_nan: bool) -> Tensor:
    """Places among the sorted elements of the last axis: a row of them for each row of `x`, not whole numbers."""
    length = x.shape[-1]
    unordered = x != x
    lead = (*x.shape[:-1], levels.shape[0])
    if ignore_nan:
        present = convert(unordered.logical_not().sum(-1, keepdim=True) - 1, x.dtype)  # type: ignore[attr-defined]
        return apply(Mul(), expand(levels, lead), expand(present.clamp(min=0), lead))  # type: ignore[attr-defined]
    ranks = apply(Mul(), expand(levels, lead), filled(lead, x.dtype, length - 1))
    return ranks.masked_fill(unordered.any(-1, keepdim=True), length - 1)  # type: ignore[attr-defined]


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    x = check_tensor(input, name)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise located(OperationError(f"{name}() input tensor must be either float or double dtype, not {x.dtype.name}"))
    if x.numel() == 0:  # type: ignore[attr-defined]
        raise located(OperationError(f"{name}() input tensor must be non-empty"))
    if interpolation not in _INTERPOLATIONS:
        raise located(
            OperationError(
                f"{name}() interpolation must be one of {', '.join(_INTERPOLATIONS)}, but got {interpolation}"
            )
        )
    levels = _levels(name, x, q)
    axis = None if dim is None else normalize_dim(dim, x.ndim)
    kept = [1 if axis is None or a == axis else n for a, n in enumerate(x.shape)] if keepdim else None
    rows = reshape(x, (-1,)) if axis is None or x.ndim == 0 else movedim(x, axis, -1)
    found = _at_ranks(sort(rows, -1).values, _ranks(rows, reshape(levels, (-1,)), ignore_nan), interpolation)
    found = movedim(found, -1, 0)
    if kept is not None:
        found = reshape(found, (found.shape[0], *kept))
    return found if levels.ndim else found.squeeze(0)  # type: ignore[attr-defined]


def _at_ranks(ordered: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    """What stands at the ranks, between neighbours by the rule."""
    rounding = {"lower": Floor(), "higher": Ceil(), "nearest": Round()}.get(interpolation)
    if rounding is not None:
        ranks = apply(rounding, ranks)
    below = convert(ranks, dtypes.int64)
    low = apply(Gather(ordered.ndim - 1), ordered, below)
    if rounding is not None:
        return low
    high = apply(Gather(ordered.ndim - 1), ordered, convert(apply(Ceil(), ranks), dtypes.int64))
    weight = filled(ranks._data.shape, ranks.dtype, 0.5) if interpolation == "midpoint" else ranks - below
    return lerp(low, high, weight)


@public(out=True)
@numpy_names
def quantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The `q`-th quantiles over `dim`, or of all elements: for a vector `q`, along a new first dim. NaN if any is.

    Between two elements: `interpolation` "linear", "lower", "higher", "midpoint" or "nearest".

    >>> import jitgrad as jg
    >>> jg.quantile(jg.tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public(out=True)
@numpy_names
def nanquantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of the elements that are not NaN; NaN where there are none.

    >>> import jitgrad as jg
    >>> jg.nanquantile(jg.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
