"""Means, variances and log-sum-exp."""

from __future__ import annotations

import math

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import DTypeError
from jitgrad.ir.ops.arithmetic import Add, Div, Mul, Sub
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import Eq, IsInf, IsNan
from jitgrad.ir.ops.complex import Conj, Real
from jitgrad.ir.ops.math import Exp, Log, Sqrt
from jitgrad.ir.ops.reduction import Amax
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.statistics import Mean, Var

from ..aliasing import alias
from ..dispatch import apply
from ..errors import located
from ..mode import local
from ..promotion import float_dtype
from ..tensor import Tensor
from .dims import Dims, reduced_axes
from .pointwise import check_tensor, convert, expand, filled
from .reductions import nansum, reduction, sum
from .registry import numpy_names, public


def _floating(name: str, x: Tensor, dtype: DType | None = None) -> Tensor:
    want = x.dtype if dtype is None else dtype
    if not want.is_differentiable:
        which = "Input" if dtype is None else "Optional"
        raise located(
            DTypeError(
                f"{name}(): could not infer output dtype. {which} dtype must be either a floating point or "
                f"complex dtype. Got: {want.name}"
            )
        )
    return convert(x, want)


@public(out=True)
@numpy_names
def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The mean of the elements over `dim`, or of all, of a float or complex tensor.

    >>> import jitgrad as jg
    >>> jg.mean(jg.tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    x = _floating("mean", check_tensor(input, "mean"), dtype)
    return reduction(Mean, reduced_axes(dim, x.ndim), keepdim)(x)


@public(out=True)
@numpy_names
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The mean of the elements that are not NaN."""
    x = _floating("nanmean", check_tensor(input, "nanmean"), dtype)
    present = apply(Eq(), apply(IsNan(), x), filled(x._data.shape, dtypes.bool_, False))
    count = convert(sum(present, dim, keepdim), x.dtype)
    return apply(Div(), nansum(x, dim, keepdim), count)


def _moments(
    name: str, input: Tensor, dim: Dims | bool, unbiased: bool | None, correction: float | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    x = check_tensor(input, name)
    if isinstance(dim, bool):  # std(x, False) names `unbiased`
        dim, unbiased = None, dim
    if not x.dtype.is_differentiable:
        raise located(DTypeError(f"{name} only support floating point and complex dtypes, but got {x.dtype.name}"))
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    axes = reduced_axes(dim, x.ndim)
    average = reduction(Mean, axes, keepdim)(x)
    if not x.dtype.is_complex:
        return apply(Var(axes, keepdim, float(correction)), x), average
    distance = apply(Sub(), x, expand(reduction(Mean, axes, True)(x), x._data.shape))
    squares = apply(Real(), apply(Mul(), distance, apply(Conj(), distance)))
    total = reduction(Sum, axes, keepdim)(squares)
    count = math.prod(x.shape[a] for a in axes)
    divisor = filled(total._data.shape, total.dtype, max(count - correction, 0))
    return apply(Div(), total, divisor), average


def root(x: Tensor) -> Tensor:
    """The square root, with gradient 0 at 0."""
    if not x._requires_grad and local.mode.tracer is None:
        return x.sqrt()  # type: ignore[attr-defined, no-any-return]
    shape = x._data.shape
    at_zero = apply(Eq(), x, filled(shape, x.dtype, 0))
    safe = apply(Where(), at_zero, filled(shape, x.dtype, 1), x)
    return apply(Where(), at_zero, x, apply(Sqrt(), safe))


@public(out=True)
@numpy_names
def var(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance over `dim`, or of all: squared distances from the mean, over `n - correction`.

    >>> import jitgrad as jg
    >>> jg.var(jg.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _moments("var", input, dim, unbiased, correction, keepdim)[0]


@public(out=True)
@numpy_names
def std(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation over `dim`, or of all: the root of `var`, with gradient 0 where it is 0.

    >>> import jitgrad as jg
    >>> jg.std(jg.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return root(_moments("std", input, dim, unbiased, correction, keepdim)[0])


@public(method=False)
@numpy_names
def var_mean(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance and the mean."""
    return _moments("var_mean", input, dim, unbiased, correction, keepdim)


@public(method=False)
@numpy_names
def std_mean(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation and the mean."""
    variance, average = _moments("std_mean", input, dim, unbiased, correction, keepdim)
    return root(variance), average


@public(out=True)
@numpy_names
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """`log(sum(exp(input)))` over `dim`, without overflow.

    >>> import jitgrad as jg
    >>> jg.logsumexp(jg.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    x = check_tensor(input, "logsumexp")
    x = convert(x, float_dtype(x.dtype))
    axes = reduced_axes(dim, x.ndim)
    if x.numel() == 0:
        return apply(Log(), reduction(Sum, axes, keepdim)(apply(Exp(), x)))
    size = alias(x)
    peak = reduction(Amax, axes, True)(apply(Real(), size) if x.dtype.is_complex else size)
    shape = peak._data.shape
    peak = convert(apply(Where(), apply(IsInf(), peak), filled(shape, peak.dtype, 0), peak), x.dtype)
    total = reduction(Sum, axes, keepdim)(apply(Exp(), apply(Sub(), x, expand(peak, x._data.shape))))
    return apply(Add(), apply(Log(), total), apply(Reshape(total._data.shape), peak))
