"""Softmax over an axis, its logarithm, and its kin."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.ops.argmax import ArgMax
from jitgrad.ir.ops.arithmetic import Add, Div, Sub
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.creation import Iota
from jitgrad.ir.ops.random import RandomUniform
from jitgrad.ir.ops.softmax import LogSoftmax, Softmax

from ...autocasting import autocasts
from ...dispatch import apply
from ...functions.dims import normalize_dim
from ...functions.pointwise import check_tensor, convert, expand, filled, pointwise
from ...functions.registry import public
from ...hot_path import hot
from ...random import draw
from ...tensor import Tensor
from .arguments import floating, reshaped

_LEAST, _LEAST_HALF = 2.0**-30, 2.0**-14  # of an exponential variate whose logarithm is taken


def _over_axis(op: Callable[[int], Any], name: str, input: Tensor, dim: int, dtype: DType | None) -> Tensor:
    x = check_tensor(input, name)
    axis = normalize_dim(dim, x.ndim)
    if dtype is not None:
        x = convert(x, dtype)
    if x.ndim == 0:
        return reshaped(apply(op(0), reshaped(x, (1,))), ())
    return apply(op(axis), x)


@public("softmax", out=True)
def _softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) divided by its sum over `dim`, in `dtype` if given.

    >>> import jitgrad as jg
    >>> jg.softmax(jg.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _over_axis(Softmax, "softmax", input, dim, dtype)


@public("log_softmax", out=True)
def _log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) over `dim`, without overflow, in `dtype` if given."""
    return _over_axis(LogSoftmax, "log_softmax", input, dim, dtype)


def _implicit_dim(name: str, input: Tensor) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


@hot
@autocasts("softmax")
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) divided by its sum over `dim`."""
    return _softmax(input, _implicit_dim("softmax", input) if dim is None else dim, dtype)


@hot
@autocasts("log_softmax")
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) over `dim`."""
    return _log_softmax(input, _implicit_dim("log_softmax", input) if dim is None else dim, dtype)


@hot
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """softmax(-x) over `dim`."""
    return softmax(-input, dim, _stacklevel, dtype)  # type: ignore[operator]


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Samples of the Gumbel-softmax distribution (Jang et al. 2017, arXiv:1611.01144) over `dim`.

    If `hard`, they are one-hot, with the gradient of the soft ones. `eps` is not used, as in PyTorch.

    >>> import jitgrad as jg
    >>> jg.nn.functional.gumbel_softmax(jg.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    x = floating("gumbel_softmax", logits)
    shape = tuple(x.shape)
    # 1 - u is in (0, 1], and so is never a logarithm of 0.
    one = filled(shape, x.dtype, 1)
    exponential = -apply(Sub(), one, draw(RandomUniform(shape, x.dtype), like=x)).log()  # type: ignore[attr-defined]
    gumbels = -exponential.clamp_min(_LEAST_HALF if x.dtype.itemsize == 2 else _LEAST).log()
    soft = softmax(pointwise(Div(), apply(Add(), x, gumbels), tau), dim)
    if not hard:
        return soft
    axis = normalize_dim(dim, x.ndim)
    where = expand(apply(ArgMax((axis,), True), soft.detach()), shape)  # type: ignore[attr-defined]
    one_hot = convert(apply(Eq(), where, apply(Iota(shape, axis, dtypes.int64))), x.dtype)
    return apply(Add(), apply(Sub(), one_hot, soft.detach()), soft)  # type: ignore[attr-defined]
