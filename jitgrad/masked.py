"""Reductions and normalisations of the elements where a mask is true, as in `torch.masked`.

Each function takes a `mask` that broadcasts to the input; elements where it is false take no part. A result of which
no element takes part is the identity of the function: 0 for sums, -inf for maxima, NaN for means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, DimError, DTypeError

from .errors import located
from .functions.dims import normalize_dim, reduced_axes
from .functions.registry import FUNCTIONS
from .functions.shape import broadcast_to
from .linalg import vector_norm
from .tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
    "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Dims = int | Sequence[int] | None


def _function(name: str) -> Any:
    return FUNCTIONS[name]


def _mask_like(input: Tensor, mask: Tensor) -> Tensor:
    """The mask in the shape of the input."""
    if mask.ndim > input.ndim:
        raise located(
            DimError(f"mask cannot have more dimensions than the input: it has {mask.ndim}, the input {input.ndim}")
        )
    wide = broadcast_to(mask, tuple(input.shape)) if mask.shape != input.shape else mask
    return wide.bool()  # type: ignore[attr-defined, no-any-return]


def _extreme(dtype: DType, largest: bool) -> Any:
    """The identity of maxima (`largest`) or minima."""
    if dtype.is_complex or dtype.kind == "bool":
        raise located(DTypeError(f"masked: no smallest or largest value in {dtype.name}"))
    if dtype.kind == "int":
        limits = np.iinfo(dtype.np)
        return int(limits.min if largest else limits.max)
    return -math.inf if largest else math.inf


def _combined(input: Tensor, mask: Tensor | None, identity: Any) -> Tensor:
    """The input with the identity where the mask is false."""
    if mask is None:
        return input
    return _function("where")(  # type: ignore[no-any-return]
        _mask_like(input, mask),
        input,
        input.new_full((), identity),  # type: ignore[attr-defined]
    )


def _summed_dtype(input: Tensor, dtype: DType | None) -> DType:
    return dtype or (dtypes.int64 if input.dtype.kind in ("int", "bool") else input.dtype)


def _axes(dim: Dims, input: Tensor) -> tuple[int, ...]:
    return reduced_axes(dim, input.ndim)


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the elements where `mask` is true, over the dims `dim` or all.

    >>> import jitgrad as jg
    >>> jg.masked.sum(jg.tensor([1, 2, 3]), mask=jg.tensor([True, False, True]))
    tensor(4)
    """
    dtype, x = _summed_dtype(input, dtype), _combined(input, mask, 0)
    return _function("sum")(x, _axes(dim, x), bool(keepdim), dtype=dtype)  # type: ignore[no-any-return]


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product of the elements where `mask` is true, over the dims `dim` or all."""
    result = _combined(input, mask, 1).to(_summed_dtype(input, dtype))  # type: ignore[attr-defined]
    for axis in reversed(_axes(dim, input)):
        result = result.prod(axis, keepdim=bool(keepdim))
    return result  # type: ignore[no-any-return]


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The running sums along `dim` of the elements where `mask` is true."""
    dtype = dtype or input.dtype
    return _combined(input, mask, 0).cumsum(normalize_dim(dim, input.ndim), dtype=dtype).to(dtype)  # type: ignore


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The running products along `dim` of the elements where `mask` is true."""
    dtype = dtype or input.dtype
    return _combined(input, mask, 1).cumprod(normalize_dim(dim, input.ndim), dtype=dtype).to(dtype)  # type: ignore


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The largest of the elements where `mask` is true, over the dims `dim` or all.

    >>> import jitgrad as jg
    >>> jg.masked.amax(jg.tensor([1.0, 5.0]), mask=jg.tensor([True, False]))
    tensor(1.)
    """
    x = _combined(input, mask, mask is not None and _extreme(input.dtype, True))
    return x.amax(_axes(dim, x), bool(keepdim)).to(dtype or input.dtype)  # type: ignore


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest of the elements where `mask` is true, over the dims `dim` or all."""
    x = _combined(input, mask, mask is not None and _extreme(input.dtype, False))
    return x.amin(_axes(dim, x), bool(keepdim)).to(dtype or input.dtype)  # type: ignore


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the largest of the elements with a true `mask` is, as `dtype` (the input's, as in PyTorch)."""
    x = _combined(input, mask, mask is not None and _extreme(input.dtype, True))
    return x.argmax(dim, bool(keepdim)).to(dtype or input.dtype)  # type: ignore


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the smallest of the elements with a true `mask` is, as `dtype` (the input's, as in PyTorch)."""
    x = _combined(input, mask, mask is not None and _extreme(input.dtype, False))
    return x.argmin(dim, bool(keepdim)).to(dtype or input.dtype)  # type: ignore


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements take part."""
    chosen = input.new_ones(input.shape, dtype=dtypes.int64) if mask is None else _mask_like(input, mask)  # type: ignore
    return chosen.sum(_axes(dim, input), keepdim=bool(keepdim))  # type: ignore[no-any-return, attr-defined]


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the elements where `mask` is true, over the dims `dim` or all.

    >>> import jitgrad as jg
    >>> jg.masked.mean(jg.tensor([1.0, 2.0, 6.0]), mask=jg.tensor([True, False, True]))
    tensor(3.5000)
    """
    want = dtype or input.dtype
    if not want.is_differentiable:
        whose = "Input" if dtype is None else "Optional"
        raise located(
            ArgumentError(
                f"mean(): Could not infer output dtype. {whose} dtype must be either a floating point or complex "
                f"dtype. Got: {want.name}"
            )
        )
    return sum(input, dim, keepdim=keepdim, dtype=want, mask=mask) / _count(input, dim, keepdim, mask)  # type: ignore


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median along `dim` of the elements where `mask` is true."""
    is_float = input.dtype.is_floating_point
    x = _combined(input if is_float else input.to(dtypes.float32), mask, math.nan)  # type: ignore[attr-defined]
    out: Tensor = _function("nanmedian")(x, normalize_dim(dim, input.ndim), keepdim).values
    if is_float:
        return out
    if bool(out.isnan().any()):  # type: ignore[attr-defined]
        raise located(ArgumentError("masked median expects no fully masked out rows if dtype is not floating point"))
    return out.to(dtype or input.dtype)  # type: ignore[attr-defined, no-any-return]


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of exponentials of the elements where `mask` is true."""
    lowest = -math.inf if input.dtype.is_differentiable or mask is None else _extreme(input.dtype, True)
    x = _combined(input, mask, lowest)
    return x.logsumexp(_axes(dim, x), keepdim=keepdim).to(dtype or input.dtype)  # type: ignore


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: DType | None = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`jitgrad.logaddexp` of the elements where each one's mask is true."""
    x = _combined(input, input_mask, input_mask is not None and _extreme(input.dtype, True))
    y = _combined(other, other_mask, other_mask is not None and _extreme(other.dtype, True))
    return _function("logaddexp")(x, y).to(dtype or input.dtype)  # type: ignore[no-any-return]


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The vector norm of order `ord` of the elements where `mask` is true, over the dims `dim` or all."""
    x = _combined(input, mask, math.inf if ord == -math.inf else 0)
    return vector_norm(x, ord, _axes(dim, x), bool(keepdim), dtype=dtype or input.dtype)  # type: ignore


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements where `mask` is true; `correction` is taken from their number (1 unless given)."""
    less = correction if correction is not None else 1.0 if unbiased is None else float(unbiased)
    want = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.float32)
    wide = want if want.is_differentiable else dtypes.float32
    count = _count(input, dim, True, mask)
    apart = input - sum(input, dim, keepdim=True, dtype=want, mask=mask) / count  # type: ignore
    total = sum(apart * apart.conj(), dim, keepdim=keepdim, dtype=wide, mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)  # type: ignore[attr-defined]
    if less != 0:
        count = (count.to(dtypes.to_real(wide)) - less).clamp(min=0)  # type: ignore[attr-defined]
    return (total / count).to(want)  # type: ignore


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The square root of `var`."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()  # type: ignore


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax along `dim` of the elements where `mask` is true, and 0 elsewhere."""
    return _normalized("softmax", input, dim, dtype, mask)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _normalized("log_softmax", input, dim, dtype, mask)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the negated elements."""
    x = _combined(input, mask, mask is not None and _extreme(input.dtype, False))
    return _function("softmax")(-x, normalize_dim(dim, input.ndim), dtype=dtype or input.dtype)  # type: ignore


def _normalized(name: str, input: Tensor, dim: int, dtype: DType | None, mask: Tensor | None) -> Tensor:
    x = _combined(input, mask, mask is not None and _extreme(input.dtype, True))
    return _function(name)(x, normalize_dim(dim, input.ndim), dtype=dtype or input.dtype)  # type: ignore[no-any-return]


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The elements where `mask` is true divided by their norm along `dim`, or by `eps` if that is larger."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _combined(input, mask, 0) / _function("maximum")(length, length.new_full((), eps))  # type: ignore
