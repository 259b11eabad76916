"""Activation functions, and softmax over an axis."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops.activation import (
    Elu,
    Gelu,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    LogSigmoid,
    Mish,
    Relu,
    Silu,
    Softplus,
)
from jitgrad.ir.ops.comparison import Gt
from jitgrad.ir.ops.math import Sigmoid, Tanh
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.softmax import LogSoftmax, Softmax

from ...aliasing import check_writable, write
from ...dispatch import apply
from ...functions.dims import normalize_dim
from ...functions.pointwise import check_tensor, convert, pointwise
from ...functions.registry import public
from ...tensor import Tensor
from .arguments import reshaped


def _applied(op: Pointwise, input: Tensor, inplace: bool) -> Tensor:
    name = op.name
    x = check_tensor(input, name)
    if not inplace:
        return pointwise(op, x)
    check_writable(x, name + "_")
    return write(x, convert(pointwise(op, x), x.dtype), name + "_")


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise."""
    return _applied(Relu(), input, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to between 0 and 6."""
    return _applied(Hardtanh(0.0, 6.0), input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else `negative_slope * x`."""
    return _applied(LeakyRelu(float(negative_slope)), input, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else `alpha * (exp(x) - 1)`."""
    return _applied(Elu(float(alpha)), input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x), σ being the logistic function."""
    return _applied(Silu(), input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))."""
    return _applied(Mish(), input, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to between `min_val` and `max_val`."""
    return _applied(Hardtanh(float(min_val), float(max_val)), input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 limited to between 0 and 1."""
    return _applied(Hardsigmoid(), input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)."""
    return _applied(Hardswish(), input, inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x), Φ being the normal distribution function; with `approximate="tanh"` nearly so.

    >>> import jitgrad as jg
    >>> jg.nn.functional.gelu(jg.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """
    return _applied(Gelu(approximate), input, False)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x where `beta x` is above `threshold`."""
    return _applied(Softplus(float(beta), float(threshold)), input, False)


def logsigmoid(input: Tensor) -> Tensor:
    """log σ(x), σ being the logistic function."""
    return _applied(LogSigmoid(), input, False)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return pointwise(Tanh(), input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return pointwise(Sigmoid(), input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above `threshold`, else `value`."""
    x = check_tensor(input, "threshold")
    out = pointwise(Where(), pointwise(Gt(), x, threshold), x, value)
    return write(x, out, "threshold_") if inplace else out


def _over_axis(op: Callable[[int], Any], name: str, input: Tensor, dim: int, dtype: DType | None) -> Tensor:
    x = check_tensor(input, name)
    axis = normalize_dim(dim, x.ndim)
    if dtype is not None:
        x = convert(x, dtype)
    if x.ndim == 0:
        return reshaped(apply(op(0), reshaped(x, (1,))), ())
    return apply(op(axis), x)


@public("softmax")
def _softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) divided by its sum over `dim`, in `dtype` if given.

    >>> import jitgrad as jg
    >>> jg.softmax(jg.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _over_axis(Softmax, "softmax", input, dim, dtype)


@public("log_softmax")
def _log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) over `dim`, without overflow, in `dtype` if given."""
    return _over_axis(LogSoftmax, "log_softmax", input, dim, dtype)


def _implicit_dim(name: str, input: Tensor) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) divided by its sum over `dim`."""
    return _softmax(input, _implicit_dim("softmax", input) if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) over `dim`."""
    return _log_softmax(input, _implicit_dim("log_softmax", input) if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """softmax(-x) over `dim`."""
    return softmax(-input, dim, _stacklevel, dtype)  # type: ignore[operator]
