"""Elementwise functions made of several ops. Compiled, each of them becomes one kernel."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DTypeError
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Maximum, Minimum, Mul, Neg, Sub
from jitgrad.ir.ops.comparison import Eq, Ge, Gt, IsNan, Le, Lt
from jitgrad.ir.ops.complex import Imag, Real
from jitgrad.ir.ops.logical import LogicalAnd, LogicalOr
from jitgrad.ir.ops.logit import Logit
from jitgrad.ir.ops.math import Exp, Exp2, Log, Log1p, Sqrt
from jitgrad.ir.ops.rounding import Trunc
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.trigonometry import Sin

from ..dispatch import apply, beside
from ..errors import located
from ..promotion import Number, float_dtype, result_dtype
from ..tensor import Tensor
from .arithmetic import alias_free
from .arithmetic import pow as power
from .comparison import choose
from .pointwise import Operand, broadcast, check_tensor, check_tensors, convert, filled, operand, pointwise, scaled
from .registry import public


def _floats(name: str, *args: Any, numbers: str = "none") -> list[Tensor]:
    """Operands broadcast, in their common floating point dtype; `numbers` says which may be numbers."""
    if len(args) == 2:
        check_tensors(name, *args, numbers)
    given = [operand(x, name, i) for i, x in enumerate(args, 1)]
    return broadcast(name, float_dtype(result_dtype(*given)), *given)


def _number(t: Tensor, value: Number) -> Tensor:
    return filled(t._data.shape, t.dtype, value)


def _scaled(t: Tensor, value: Number) -> Tensor:
    return t if value == 1 else scaled(t, value)


def _ignoring_nan(name: str, op: Pointwise, input: Any, other: Any) -> Tensor:
    check_tensors(name, input, other)
    given = [operand(input, name, 1), operand(other, name, 2)]
    x, y = broadcast(name, result_dtype(*given), *given)
    if not x.dtype.is_floating_point:
        return apply(op, x, y)
    x, y = apply(Where(), apply(IsNan(), x), y, x), apply(Where(), apply(IsNan(), y), x, y)
    return apply(op, x, y)


@public(out=True)
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger, elementwise; if one is NaN, the other.

    >>> import jitgrad as jg
    >>> jg.fmax(jg.tensor([1.0, float("nan")]), jg.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    return _ignoring_nan("fmax", Maximum(), input, other)


@public(out=True)
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller, elementwise; if one is NaN, the other.

    >>> import jitgrad as jg
    >>> jg.fmin(jg.tensor([1.0, float("nan")]), jg.tensor([2.0, 3.0]))
    tensor([1., 3.])
    """
    return _ignoring_nan("fmin", Minimum(), input, other)


@public(inplace=True, out=True)
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """`sqrt(input**2 + other**2)`, elementwise, without overflow on the way. The gradient at (0, 0) is 0.

    >>> import jitgrad as jg
    >>> jg.hypot(jg.tensor([3.0]), jg.tensor([4.0]))
    tensor([5.])
    """
    x, y = (apply(Abs(), t) for t in _floats("hypot", input, other))
    is_larger = apply(Gt(), x, y)
    large, small = apply(Where(), is_larger, x, y), apply(Where(), is_larger, y, x)
    degenerate = apply(LogicalOr(), apply(Eq(), large, _number(large, 0)), apply(Eq(), large, _number(large, math.inf)))
    ratio = apply(Div(), small, apply(Where(), degenerate, _number(large, 1), large))
    root = apply(Sqrt(), apply(Add(), apply(Mul(), ratio, ratio), _number(ratio, 1)))
    infinite = apply(LogicalOr(), *(apply(Eq(), t, _number(t, math.inf)) for t in (x, y)))
    distance = apply(Where(), degenerate, large, apply(Mul(), large, root))
    return apply(Where(), infinite, _number(large, math.inf), distance)  # even if the other is NaN


@public(inplace=True, out=True)
def lerp(input: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """`input + weight * (end - input)`, elementwise; for weights from 0.5 on it is counted from `end`.

    >>> import jitgrad as jg
    >>> jg.lerp(jg.tensor([1.0, 2.0]), jg.tensor([3.0, 4.0]), 0.5)
    tensor([2., 3.])
    """
    x, y = check_tensor(input, "lerp"), check_tensor(end, "lerp")
    if not x.dtype.is_differentiable:
        raise located(DTypeError(f"lerp: not implemented for {x.dtype.name}"))
    for name, t in (("end", y), ("weight", weight)):
        if isinstance(t, Tensor) and t.dtype is not x.dtype:
            raise located(DTypeError(f"lerp: expected dtype {x.dtype.name} for `{name}` but got dtype {t.dtype.name}"))
    difference = pointwise(Sub(), y, x)
    if not isinstance(weight, Tensor):
        if abs(weight) < 0.5:
            return pointwise(Add(), x, scaled(difference, weight))
        return pointwise(Sub(), y, scaled(difference, 1 - weight))
    size = apply(Abs(), weight)
    near = apply(Lt(), size, _number(size, 0.5))
    from_start = pointwise(Add(), x, pointwise(Mul(), weight, difference))
    from_end = pointwise(Sub(), y, pointwise(Mul(), pointwise(Sub(), 1, weight), difference))
    return choose("lerp", near, from_start, from_end)


@public(inplace=True, out=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """`input + value * tensor1 * tensor2`, elementwise.

    >>> import jitgrad as jg
    >>> jg.addcmul(jg.ones(2), jg.tensor([1.0, 2.0]), jg.tensor([3.0, 4.0]), value=0.5)
    tensor([2.5000, 5.0000])
    """
    return pointwise(Add(), input, _scaled(pointwise(Mul(), tensor1, tensor2), value))


@public(inplace=True, out=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """`input + value * tensor1 / tensor2`, elementwise, of floats.

    >>> import jitgrad as jg
    >>> jg.addcdiv(jg.ones(2), jg.tensor([1.0, 2.0]), jg.tensor([2.0, 4.0]))
    tensor([1.5000, 1.5000])
    """
    if not tensor1.dtype.is_differentiable and not tensor2.dtype.is_differentiable:
        raise located(DTypeError("addcdiv: Integer division with addcdiv is not supported; convert to floats first"))
    return pointwise(Add(), input, pointwise(Div(), _scaled(tensor1, value), tensor2))


def _log_add(name: str, exp: Pointwise, log_base: float, input: Tensor, other: Tensor) -> Tensor:
    x, y = _floats(name, input, other)
    if x.dtype.is_complex and log_base == math.e:
        return _complex_log_add(x, y)
    largest = apply(Maximum(), x, y)
    # Equal infinities have no difference; all the rest is the larger plus log(1 + exp(-distance)).
    distance = apply(Neg(), apply(Abs(), apply(Sub(), x, y)))
    plain = apply(LogicalAnd(), apply(Eq(), x, y), apply(Eq(), apply(Abs(), x), _number(x, math.inf)))
    distance = apply(Where(), plain, _number(x, 0), distance)
    extra = apply(Log1p(), apply(exp, distance))
    if log_base != math.e:
        extra = apply(Div(), extra, _number(extra, math.log(log_base)))
    return apply(Where(), plain, x, apply(Add(), largest, extra))


def _complex_log_add(x: Tensor, y: Tensor) -> Tensor:
    """The one with the larger real part plus log(1 + exp(-distance)); equal infinities as they are."""
    ahead = apply(Ge(), apply(Real(), x), apply(Real(), y))
    high, low = apply(Where(), ahead, x, y), apply(Where(), ahead, y, x)
    size = apply(Real(), high)
    plain = apply(LogicalAnd(), apply(Eq(), apply(Abs(), size), _number(size, math.inf)), apply(Eq(), high, low))
    distance = apply(Where(), plain, _number(x, 0), apply(Sub(), low, high))
    return apply(Where(), plain, high, apply(Add(), high, apply(Log1p(), apply(Exp(), distance))))


@public(out=True)
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """`log(exp(input) + exp(other))`, elementwise, without overflow.

    >>> import jitgrad as jg
    >>> jg.logaddexp(jg.tensor([1000.0]), jg.tensor([1000.0]))
    tensor([1000.6932])
    """
    return _log_add("logaddexp", Exp(), math.e, input, other)


@public(out=True)
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """`log2(2**input + 2**other)`, elementwise, without overflow.

    >>> import jitgrad as jg
    >>> jg.logaddexp2(jg.tensor([3.0]), jg.tensor([3.0]))
    tensor([4.])
    """
    return _log_add("logaddexp2", Exp2(), 2.0, input, other)


@public(inplace=True, out=True)
def xlogy(input: Operand, other: Operand) -> Tensor:
    """`input * log(other)`, elementwise; 0 where `input` is 0 and `other` is not NaN.

    >>> import jitgrad as jg
    >>> jg.xlogy(jg.tensor([0.0, 1.0]), jg.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    x, y = _floats("xlogy", input, other, numbers="either")
    empty = apply(LogicalAnd(), apply(Eq(), x, _number(x, 0)), apply(Eq(), y, y))
    safe = apply(Where(), empty, _number(y, 1), y)
    return apply(Mul(), x, apply(Log(), safe))


@public(inplace=True, out=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where `input` is negative, 1 where it is positive, `values` where it is 0.

    >>> import jitgrad as jg
    >>> jg.heaviside(jg.tensor([-1.0, 0.0, 2.0]), jg.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if check_tensor(input, "heaviside").dtype is not check_tensor(values, "heaviside").dtype:
        raise located(DTypeError("heaviside is not yet implemented for tensors with different dtypes."))
    x, y = broadcast("heaviside", input.dtype, input, values)
    step = convert(apply(Gt(), x, _number(x, 0)), x.dtype)
    return apply(Where(), apply(Eq(), x, _number(x, 0)), y, step)


@public(out=True)
def signbit(input: Tensor) -> Tensor:
    """Where the sign is negative; the result is bool, and True for -0.0.

    >>> import jitgrad as jg
    >>> jg.signbit(jg.tensor([-1.0, -0.0, 2.0]))
    tensor([ True,  True, False])
    """
    x = check_tensor(input, "signbit")
    negative = apply(Lt(), x, _number(x, 0))
    if not x.dtype.is_floating_point:
        return negative
    at_zero = apply(Eq(), x, _number(x, 0))
    below = apply(Lt(), apply(Div(), _number(x, 1), x), _number(x, 0))
    return apply(LogicalOr(), negative, apply(LogicalAnd(), at_zero, below))


@public(inplace=True, out=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees in radians."""
    return scaled(check_tensor(input, "deg2rad"), math.pi / 180.0)


@public(inplace=True, out=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians in degrees."""
    return scaled(check_tensor(input, "rad2deg"), 180.0 / math.pi)


@public(inplace=True, out=True)
def frac(input: Tensor) -> Tensor:
    """`input` without its whole part, elementwise; the sign stays.

    >>> import jitgrad as jg
    >>> jg.frac(jg.tensor([1.5, -2.5]))
    tensor([ 0.5000, -0.5000])
    """
    x = check_tensor(input, "frac")
    if not x.dtype.is_floating_point:
        raise located(DTypeError(f"frac: not implemented for {x.dtype.name}"))
    return apply(Sub(), x, apply(Trunc(), x))


@public(inplace=True, out=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """`log(input / (1 - input))`, elementwise; with `eps`, `input` is first limited to `[eps, 1 - eps]`.

    Outside these limits the gradient is 0; without `eps` it is NaN outside [0, 1].

    >>> import jitgrad as jg
    >>> jg.logit(jg.tensor([0.5]))
    tensor([0.])
    """
    return pointwise(Logit(None if eps is None else float(eps)), check_tensor(input, "logit"))


@public(inplace=True, out=True)
def sinc(input: Tensor) -> Tensor:
    """`sin(πx) / (πx)`, elementwise, and 1 at 0.

    >>> import jitgrad as jg
    >>> jg.sinc(jg.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    (given,) = _floats("sinc", check_tensor(input, "sinc"))
    x = convert(given, dtypes.float32) if given.dtype.itemsize == 2 else given  # πx may be out of a half type's range
    at_zero = apply(Eq(), x, _number(x, 0))
    turned = apply(Mul(), apply(Where(), at_zero, _number(x, 1), x), _number(x, math.pi))
    return convert(apply(Where(), at_zero, _number(x, 1), apply(Div(), apply(Sin(), turned), turned)), given.dtype)


@public(inplace=True, out=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2**other`, elementwise.

    >>> import jitgrad as jg
    >>> jg.ldexp(jg.tensor([1.0]), jg.tensor([3]))
    tensor([8.])
    """
    check_tensors("ldexp", input, other)
    if input.dtype.is_differentiable and not other.dtype.is_differentiable:
        # In the precision that a kernel computes in: a power may be out of range where the product is not.
        wide = dtypes.float64 if input.dtype in (dtypes.float64, dtypes.complex128) else dtypes.float32
        x = input if input.dtype.is_complex else convert(input, wide)
        return convert(pointwise(Mul(), x, power(2.0, convert(other, wide))), input.dtype)
    return pointwise(Mul(), input, power(2.0, other))


@public()
def positive(input: Tensor) -> Tensor:
    """`input` itself."""
    if check_tensor(input, "positive").dtype.kind == "bool":
        raise located(DTypeError("positive: The `+` operator, on a bool tensor is not supported."))
    return input


@public(method=False)
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input` where it is above `threshold`, else `value`."""
    x = check_tensor(input, "threshold")
    return apply(Where(), apply(Le(), x, _number(x, threshold)), _number(x, value), x)


def _is_infinite(name: str, input: Tensor, value: float) -> Tensor:
    x = check_tensor(input, name)
    if x.dtype.is_complex:
        raise located(DTypeError(f"{name} does not support complex inputs."))
    if not x.dtype.is_floating_point:
        return alias_free(beside(filled(x._data.shape, dtypes.bool_, False), x))
    return apply(Eq(), x, _number(x, value))


@public(out=True)
def isposinf(input: Tensor) -> Tensor:
    """Where elements are infinity; the result is bool."""
    return _is_infinite("isposinf", input, math.inf)


@public(out=True)
def isneginf(input: Tensor) -> Tensor:
    """Where elements are minus infinity; the result is bool."""
    return _is_infinite("isneginf", input, -math.inf)


@public()
def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is zero; the result is bool."""
    x = check_tensor(input, "isreal")
    if not x.dtype.is_complex:
        return alias_free(beside(filled(x._data.shape, dtypes.bool_, True), x))
    part = apply(Imag(), x)
    return apply(Eq(), part, _number(part, 0))
