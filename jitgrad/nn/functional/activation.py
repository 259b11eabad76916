"""Activation functions, elementwise; `glu` halves an axis."""

from __future__ import annotations

import math
from collections.abc import Callable

from jitgrad.ir.errors import ArgumentError, DTypeError, OperationError, ShapeError, operand_lines
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
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Maximum, Minimum, Mul, Sub
from jitgrad.ir.ops.comparison import Ge, Gt, Le, Lt
from jitgrad.ir.ops.logical import LogicalAnd
from jitgrad.ir.ops.math import Sigmoid, Tanh
from jitgrad.ir.ops.random import RandomUniform
from jitgrad.ir.ops.select import Where

from ...aliasing import check_writable, write
from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...fast_path import unary_method
from ...functions.dims import normalize_dim
from ...functions.joining import stretch
from ...functions.pointwise import check_tensor, convert, expand, filled, pointwise
from ...functions.registry import public
from ...hot_path import hot
from ...keeping import protect
from ...random import draw
from ...tape import next_seq
from ...tensor import Tensor
from .arguments import floating, reshaped

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_LOWER, _UPPER = 1 / 8, 1 / 3  # of `rrelu`


def _finished(name: str, x: Tensor, inplace: bool, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """`compute(x)`, written to `x` if `inplace`."""
    if not inplace:
        return compute(x)
    check_writable(x, name + "_")
    since = next_seq()
    value = convert(compute(x), x.dtype)
    if value.requires_grad:
        protect(x, value, since)
    return write(x, value, name + "_")


def _applied(op: Pointwise, input: Tensor, inplace: bool, name: str = "") -> Tensor:
    """An op on floats, and in place."""
    name = name or op.name
    return _finished(name, floating(name, input), inplace, lambda x: pointwise(op, x))


_relu = unary_method(Relu(), lambda x: pointwise(Relu(), x))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise.

    >>> import jitgrad as jg
    >>> jg.nn.functional.relu(jg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if not inplace:
        return _relu(check_tensor(input, "relu"))  # type: ignore[no-any-return]
    return _finished("relu", check_tensor(input, "relu"), inplace, lambda x: pointwise(Relu(), x))


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return relu(input, True)


@hot
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


@hot
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else `negative_slope * x`."""
    return _applied(LeakyRelu(float(negative_slope)), input, inplace)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


@hot
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else `alpha * (exp(x) - 1)`."""
    return _applied(Elu(float(alpha)), input, inplace)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return elu(input, alpha, True)


@hot
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """A scaled `elu` that keeps mean 0 and variance 1 (Klambauer et al. 2017, arXiv:1706.02515).

    >>> import jitgrad as jg
    >>> jg.selu(jg.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return _applied(Elu(_SELU_ALPHA, _SELU_SCALE), input, inplace, "selu")


@hot
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1)) (Barron 2017, arXiv:1704.07483).

    >>> import jitgrad as jg
    >>> jg.celu(jg.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """
    if alpha == 0:
        raise located(OperationError("ZeroDivisionError: alpha cannot be 0 for CELU"))
    return _applied(Elu(float(alpha), 1.0, 1 / float(alpha)), input, inplace, "celu")


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return selu(input, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, True)


@hot
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x), σ being the logistic function."""
    x = check_tensor(input, "silu")
    if x.dtype.is_complex:
        return _finished("silu", x, inplace, lambda z: apply(Mul(), z, apply(Sigmoid(), z)))
    return _applied(Silu(), x, inplace)


@hot
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))."""
    return _applied(Mish(), input, inplace)


@hot
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to between `min_val` and `max_val`."""
    x = check_tensor(input, "hardtanh")
    if min_val > max_val:
        raise located(ArgumentError("min_val cannot be greater than max_val"))
    if x.dtype.kind == "bool":
        raise located(DTypeError(f"Bool inputs not supported for hardtanh{operand_lines([x.type_])}"))
    if x.dtype.kind != "int":
        return _applied(Hardtanh(float(min_val), float(max_val)), x, inplace)
    if not x.dtype.is_signed and min_val < 0:
        raise located(DTypeError("cannot do hardtanh on an unsigned type with negative limits"))
    low, high = (filled(x._data.shape, x.dtype, int(n)) for n in (min_val, max_val))
    return _finished("hardtanh", x, inplace, lambda z: apply(Minimum(), apply(Maximum(), z, low), high))


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


@hot
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 limited to between 0 and 1."""
    return _applied(Hardsigmoid(), input, inplace)


@hot
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)."""
    return _applied(Hardswish(), input, inplace)


@hot
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x), Φ being the normal distribution function; with `approximate="tanh"` nearly so.

    >>> import jitgrad as jg
    >>> jg.nn.functional.gelu(jg.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise located(OperationError(f"approximate argument must be either none or tanh, not {approximate!r}"))
    return _applied(Gelu(approximate), input, False)


@hot
@autocasts("softplus")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x where `beta x` is above `threshold`."""
    return _applied(Softplus(float(beta), float(threshold)), input, False)


@hot
def logsigmoid(input: Tensor) -> Tensor:
    """log σ(x), σ being the logistic function."""
    return _applied(LogSigmoid(), input, False)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return check_tensor(input, "tanh").tanh()  # type: ignore[attr-defined, no-any-return]


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return check_tensor(input, "sigmoid").sigmoid()  # type: ignore[attr-defined, no-any-return]


@hot
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above `threshold`, else `value`.

    >>> import jitgrad as jg
    >>> jg.threshold(jg.tensor([1.0, 2.0]), 1.5, 9.0)
    tensor([9., 2.])
    """
    x = check_tensor(input, "threshold")
    if x.dtype.kind not in ("int", "float"):
        raise located(DTypeError(f"threshold: not implemented for {x.dtype.name}{operand_lines([x.type_])}"))
    whole = int if x.dtype.kind == "int" else float
    limit, other = (filled(x._data.shape, x.dtype, whole(n)) for n in (threshold, value))
    return _finished("threshold", x, inplace, lambda z: apply(Where(), apply(Le(), z, limit), other, z))


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _threshold(input, threshold, value, True)


_threshold = threshold


@hot
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where its magnitude is above `lambd`, else 0.

    >>> import jitgrad as jg
    >>> jg.hardshrink(jg.tensor([-1.0, 0.25, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    x = floating("hardshrink", input)
    zero, low, high = (filled(x._data.shape, x.dtype, n) for n in (0, -lambd, lambd))
    near = apply(LogicalAnd(), apply(Ge(), x, low), apply(Le(), x, high))
    return apply(Where(), near, zero, x)


@hot
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by `lambd`, at most to 0.

    >>> import jitgrad as jg
    >>> jg.nn.functional.softshrink(jg.tensor([-1.0, 0.25, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    x = floating("softshrink", input)
    if not 0 <= lambd < math.inf:
        raise located(OperationError(f"lambda must be 0 or more, and finite, but found to be {lambd}"))
    zero, low, high = (filled(x._data.shape, x.dtype, n) for n in (0, -lambd, lambd))
    below = apply(Where(), apply(Lt(), x, low), apply(Add(), x, high), apply(Mul(), x, zero))
    return apply(Where(), apply(Gt(), x, high), apply(Sub(), x, high), below)


@hot
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> import jitgrad as jg
    >>> jg.nn.functional.softsign(jg.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    x = check_tensor(input, "softsign")
    return pointwise(Div(), x, pointwise(Add(), pointwise(Abs(), x), 1))


@hot
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> import jitgrad as jg
    >>> jg.nn.functional.tanhshrink(jg.tensor([1.0]))
    tensor([0.2384])
    """
    return pointwise(Sub(), check_tensor(input, "tanhshrink"), pointwise(Tanh(), input))


@hot
@autocasts("prelu")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else `weight * x`; the weight is one number, or one for each channel (axis 1).

    >>> import jitgrad as jg
    >>> jg.prelu(jg.tensor([-2.0, 3.0]), jg.tensor([0.25]))
    tensor([-0.5000,  3.0000])
    """
    x, w = floating("prelu", input), check_tensor(weight, "prelu")
    if w.dtype is not x.dtype:
        raise located(DTypeError(f"prelu: Type promoting not supported. Got {x.dtype.name} and {w.dtype.name}"))
    if w.type_.numel != 1:
        if not x.ndim:
            raise located(ShapeError("Not allow zero-dim input tensor."))
        channels = x.shape[1] if x.ndim > 1 else 1
        if w.ndim > 1 or w.type_.numel != channels:
            raise located(
                ShapeError(
                    "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                    f"{w.type_.numel} and channel size = {channels}."
                )
            )
        w = reshaped(w, (channels, *(1,) * (x.ndim - 2)))
    w = expand(reshaped(w, ()) if w.type_.numel == 1 else w, x._data.shape)
    return apply(Where(), apply(Gt(), x, filled(x._data.shape, x.dtype, 0)), x, apply(Mul(), w, x))


def rrelu(
    input: Tensor, lower: float = _LOWER, upper: float = _UPPER, training: bool = False, inplace: bool = False
) -> Tensor:
    """x where it is positive, else x times a slope: drawn from [lower, upper] when `training`, their mean if not.

    >>> import jitgrad as jg
    >>> jg.rrelu(jg.tensor([-24.0, 1.0]))
    tensor([-5.5000,  1.0000])
    """
    x = floating("rrelu", input)
    if lower > upper:
        raise located(OperationError("Lower bound should be less than or equal to the upper bound"))
    if not training:
        return _applied(LeakyRelu((float(lower) + float(upper)) / 2), x, inplace, "rrelu")
    shape = x._data.shape
    part = draw(RandomUniform(shape, x.dtype), like=x)
    low, span, zero = (filled(shape, x.dtype, n) for n in (lower, upper - lower, 0))
    slope = apply(Add(), low, apply(Mul(), part, span))
    return _finished("rrelu", x, inplace, lambda z: apply(Where(), apply(Le(), z, zero), apply(Mul(), z, slope), z))


def rrelu_(input: Tensor, lower: float = _LOWER, upper: float = _UPPER, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)


@hot
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of an axis times the logistic function of the second (Dauphin et al. 2017, arXiv:1612.08083).

    >>> import jitgrad as jg
    >>> jg.nn.functional.glu(jg.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    x = check_tensor(input, "glu")
    if not x.ndim:
        raise located(ShapeError("glu does not support scalars because halving size must be even"))
    axis = normalize_dim(dim, x.ndim)
    if x.shape[axis] % 2:
        raise located(ShapeError(f"Halving dimension must be even, but dimension {axis} is size {x.shape[axis]}"))
    half = floating("glu", x).shape[axis] // 2
    return apply(Mul(), stretch(x, axis, 0, half), apply(Sigmoid(), stretch(x, axis, half, half)))


public("hardshrink")(hardshrink)
public("prelu")(prelu)
for _function in (celu, celu_, selu, selu_, relu_, threshold, threshold_, rrelu, rrelu_):
    public(method=False)(_function)
