"""Reductions: sums, means, products, extremes and where they are, tests, moments, norms, running sums."""

from __future__ import annotations

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import DTypeError
from jitgrad.ir.ops.arithmetic import Div
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.reduction import Amax, Amin

from ..dispatch import apply
from ..errors import located
from ..tensor import Tensor
from .dims import Dims, reduced_axes
from .pointwise import check_tensor, convert, filled
from .registry import public


def summed(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    """The sum over `axes`, of which there may be none."""
    return apply(Sum(axes, keepdim), x)


@public(out=True)
def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum of the elements over `dim`, or of all; bools and integers are summed as int64.

    >>> import jitgrad as jg
    >>> jg.sum(jg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    x = check_tensor(input, "sum")
    if dtype is None and not x.dtype.is_differentiable:
        dtype = dtypes.int64
    return summed(convert(x, dtype or x.dtype), reduced_axes(dim, x.ndim), keepdim)


@public(out=True)
def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The mean of the elements over `dim`, or of all, of a float or complex tensor.

    >>> import jitgrad as jg
    >>> jg.mean(jg.tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    x = convert(check_tensor(input, "mean"), dtype or input.dtype)
    if not x.dtype.is_differentiable:
        raise located(
            DTypeError(
                "mean: could not infer output dtype. Input dtype must be either a floating point or complex "
                f"dtype. Got: {x.dtype.name}"
            )
        )
    axes = reduced_axes(dim, x.ndim)
    total = summed(x, axes, keepdim)
    return apply(Div(), total, filled(total._data.shape, total.dtype, counted(x, axes)))


def counted(x: Tensor, axes: tuple[int, ...]) -> int:
    """How many elements are folded into one."""
    total = 1
    for a in axes:
        total *= x.shape[a]
    return total


@public(out=True)
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The largest element over `dim`, or of all; equal ones share the gradient. NaN if any is.

    >>> import jitgrad as jg
    >>> jg.amax(jg.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    tensor([4., 3.])
    """
    x = check_tensor(input, "amax")
    return apply(Amax(reduced_axes(dim, x.ndim), keepdim), x)


@public(out=True)
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The smallest element over `dim`, or of all; equal ones share the gradient. NaN if any is.

    >>> import jitgrad as jg
    >>> jg.amin(jg.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    x = check_tensor(input, "amin")
    return apply(Amin(reduced_axes(dim, x.ndim), keepdim), x)
