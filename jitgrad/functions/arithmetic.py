"""Arithmetic with arguments or rules of its own: sums with `alpha`, rounded quotients, powers, clamping."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.dtypes import complex128, float64
from jitgrad.ir.errors import DTypeError, OperationError
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops.arithmetic import Add, Div, Mul, Reciprocal, Sign, Sub
from jitgrad.ir.ops.comparison import Gt, IsNan, Lt
from jitgrad.ir.ops.logical import LogicalOr
from jitgrad.ir.ops.math import Pow, Rsqrt, Sqrt
from jitgrad.ir.ops.rounding import FloorDivide, Fmod, Round, Trunc
from jitgrad.ir.ops.select import Convert, Where

from ..dispatch import apply, beside
from ..errors import located
from ..fast_path import binary_method, clamp_plainly, unary_method
from ..hot_path import hot
from ..promotion import Number, number_dtype, result_dtype
from ..tensor import Tensor
from .pointwise import Operand, broadcast, check_tensor, check_tensors, convert, filled, operand, pointwise, scaled
from .registry import public


def _scaled(name: str, input: Operand, other: Operand, alpha: Number) -> Operand:
    """`alpha * other`, for a sum with `input`."""
    dtype = result_dtype(operand(input, name, 1), operand(other, name, 2))
    if isinstance(alpha, bool) and dtype.kind != "bool":
        raise located(DTypeError(f"{name}: Boolean alpha only supported for Boolean results."))
    if not dtype.is_differentiable and number_dtype(alpha).is_differentiable:
        raise located(
            DTypeError(f"{name}: For integral input tensors, argument alpha must not be a floating point number.")
        )
    if not dtype.is_complex and isinstance(alpha, complex):
        raise located(DTypeError(f"{name}: For non-complex input tensors, argument alpha must not be complex."))
    return scaled(other, alpha) if isinstance(other, Tensor) else other * alpha


def _check_no_bools(name: str, *operands: Any) -> None:
    if any(isinstance(x, bool) or (isinstance(x, Tensor) and x.dtype.kind == "bool") for x in operands):
        raise located(
            DTypeError(
                f"{name}: Subtraction, the `-` operator, with a bool tensor is not supported. Use the `^` or "
                "`logical_xor()` operator, or `~` or `logical_not()` to invert a mask."
            )
        )


def _subtract(input: Any, other: Any) -> Tensor:
    _check_no_bools("sub", input, other)
    return pointwise(Sub(), input, other)


_fast_add = binary_method(Add(), hot(lambda x, y: pointwise(Add(), x, y)))
_fast_sub = binary_method(Sub(), hot(_subtract))
_fast_mul = binary_method(Mul(), hot(lambda x, y: pointwise(Mul(), x, y)))
_sign = hot(unary_method(Sign(), lambda x: pointwise(Sign(), x)))
_fast_div = binary_method(Div(), hot(lambda x, y: pointwise(Div(), x, y)))


@hot
def _scaled_sum(input: Operand, other: Operand, alpha: Number) -> Tensor:
    return pointwise(Add(), input, _scaled("add", input, other, alpha))


@hot
def _scaled_difference(input: Operand, other: Operand, alpha: Number) -> Tensor:
    return _subtract(input, _scaled("sub", input, other, alpha))


@public(inplace=True, out=True, short=True)
def add(input: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
    """`input + alpha * other`, elementwise.

    >>> import jitgrad as jg
    >>> jg.add(jg.tensor([1.0, 2.0]), jg.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if alpha.__class__ is not int or alpha != 1:
        return _scaled_sum(input, other, alpha)  # type: ignore[no-any-return]
    if isinstance(input, Tensor):
        return _fast_add(input, other)  # type: ignore[no-any-return]
    return pointwise(Add(), input, other)


@public("sub", "subtract", inplace=True, out=True, short=True)
def sub(input: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
    """`input - alpha * other`, elementwise.

    >>> import jitgrad as jg
    >>> jg.sub(jg.tensor([1.0, 2.0]), 1)
    tensor([0., 1.])
    """
    if alpha.__class__ is not int or alpha != 1:
        return _scaled_difference(input, other, alpha)  # type: ignore[no-any-return]
    if isinstance(input, Tensor):
        return _fast_sub(input, other)  # type: ignore[no-any-return]
    return _subtract(input, other)


@public("div", "divide", inplace=True, out=True, short=True)
def div(input: Tensor, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """`input / other`, elementwise; `rounding_mode` "trunc" or "floor" rounds the quotient.

    Without rounding, integers become the default dtype first.

    >>> import jitgrad as jg
    >>> jg.div(jg.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    """
    if rounding_mode is None:
        if isinstance(input, Tensor):
            return _fast_div(input, other)  # type: ignore[no-any-return]
        return pointwise(Div(), input, other)
    return _rounded_quotient(input, other, rounding_mode)  # type: ignore[no-any-return]


@hot
def _rounded_quotient(input: Operand, other: Operand, rounding_mode: str) -> Tensor:
    if rounding_mode == "floor":
        return pointwise(FloorDivide(), input, other)
    if rounding_mode == "trunc":
        return _truncated_quotient(input, other)
    raise located(
        OperationError(f"div: rounding_mode must be one of None, 'trunc', or 'floor', but found '{rounding_mode}'")
    )


def _truncated_quotient(input: Operand, other: Operand) -> Tensor:
    if result_dtype(operand(input, "div", 1), operand(other, "div", 2)).is_differentiable:
        return pointwise(Trunc(), pointwise(Div(), input, other))
    whole = pointwise(Sub(), input, pointwise(Fmod(), input, other))
    return pointwise(FloorDivide(), whole, other)


@public("true_divide", inplace=True, out=True, short=True)
def true_divide(input: Tensor, other: Operand) -> Tensor:
    """`input / other`, elementwise, without rounding."""
    return div(input, other)


@public(method=False)
def rsub(input: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
    """`other - alpha * input`, elementwise."""
    check_tensors("rsub", input, other, "second")
    _check_no_bools("rsub", input, other)
    return pointwise(Sub(), other, _scaled("rsub", other, input, alpha))


@public(inplace=True, out=True)
def pow(input: Operand, exponent: Operand) -> Tensor:
    """`input` to the power of `exponent`, elementwise. `x**0` is 1, with gradient 0, for every `x`.

    Integers stay integers if both are; a negative exponent then has to be a tensor.

    >>> import jitgrad as jg
    >>> jg.pow(jg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    check_tensors("pow", input, exponent, "either")
    base, exponent = operand(input, "pow", 1), operand(exponent, "pow", 2)
    if not isinstance(base, Tensor) or isinstance(exponent, Tensor):
        return pointwise(Pow(), base, exponent)
    if isinstance(exponent, bool):
        exponent = int(exponent) if base.dtype.kind != "bool" else exponent
    elif base.dtype.kind == "bool":
        return pointwise(Pow(), base, exponent)
    if base.dtype.kind == "int" and isinstance(exponent, int) and exponent < 0:
        raise located(DTypeError("pow: Integers to negative integer powers are not allowed."))
    return _power(base, exponent)


def _power(base: Tensor, exponent: Number) -> Tensor:
    """A power with a number: products, roots and reciprocals where they say the same."""
    base = convert(base, result_dtype(base, exponent))
    if exponent == 1:
        return alias_free(base)
    if exponent is False:
        return alias_free(beside(filled(base._data.shape, base.dtype, True), base))
    if exponent == 2:
        return _fast_mul(base, base)  # type: ignore[no-any-return]
    if exponent == 3:
        return _fast_mul(_fast_mul(base, base), base)  # type: ignore[no-any-return]
    if exponent == 0.5:
        return apply(Sqrt(), base)
    if exponent == -0.5 and not base.dtype.is_complex:
        return apply(Rsqrt(), base)
    if exponent == -1:
        return apply(Reciprocal(), base)
    return pointwise(Pow(), base, exponent)


def alias_free(t: Tensor) -> Tensor:
    """The values of `t` as a tensor of its own."""
    return apply(Convert(t.dtype), t)


@public(inplace=True, out=True)
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """`input` to the power of `exponent`, computed in float64 (complex128 for complex numbers).

    >>> import jitgrad as jg
    >>> jg.float_power(jg.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=jitgrad.float64)
    """
    check_tensors("float_power", input, exponent, "either")
    base, exponent = operand(input, "float_power", 1), operand(exponent, "float_power", 2)
    wide = complex128 if result_dtype(base, exponent).is_complex else float64
    base = convert(base, wide) if isinstance(base, Tensor) else filled((), wide, base)
    exponent = convert(exponent, wide) if isinstance(exponent, Tensor) else exponent
    return pow(base, exponent)


@public(inplace=True, out=True, short=True)
def square(input: Tensor) -> Tensor:
    """`input * input`, elementwise.

    >>> import jitgrad as jg
    >>> jg.square(jg.tensor([-2.0, 3.0]))
    tensor([4., 9.])
    """
    x = check_tensor(input, "square")
    return pow(x, 2) if x.dtype.kind == "bool" else _fast_mul(x, x)  # type: ignore[no-any-return]


@public("sign", "sgn", inplace=True, out=True, short=True)
def sign(input: Tensor) -> Tensor:
    """The sign, elementwise: -1, 0 or 1 (0 of NaN); of a complex number `x / |x|`, and 0 of 0.

    >>> import jitgrad as jg
    >>> jg.sign(jg.tensor([3.0, 0.0, -2.0]))
    tensor([ 1.,  0., -1.])
    """
    x = check_tensor(input, "sign")
    return alias_free(x) if x.dtype.kind == "bool" else _sign(x)  # type: ignore[no-any-return]


@public("clamp", "clip", inplace=True, out=True)
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """`input` limited to the range from `min` to `max`, elementwise; either may be left out. NaN stays.

    The gradient passes where the input is in the range, ends included. Where `min > max` the result is `max`.

    >>> import jitgrad as jg
    >>> jg.clamp(jg.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise located(OperationError("clamp: At least one of 'min' or 'max' must not be None"))
    small = clamp_plainly(input, min, max)
    if small is not None:
        return small
    bounds = [operand(x, "clamp", i) for i, x in ((2, min), (3, max)) if x is not None]
    x, *limits = broadcast("clamp", result_dtype(check_tensor(input, "clamp"), *bounds), input, *bounds)
    if min is not None:
        x = _limited(x, limits[0], Lt(), isinstance(min, Tensor))
    if max is not None:
        x = _limited(x, limits[-1], Gt(), isinstance(max, Tensor))
    return x


def _limited(x: Tensor, bound: Tensor, beyond: Pointwise, check_nan: bool) -> Tensor:
    """`bound` where `x` is beyond it, or where it is NaN."""
    outside = apply(beyond, x, bound)
    if check_nan and x.dtype.is_floating_point:
        outside = apply(LogicalOr(), outside, apply(IsNan(), bound))
    return apply(Where(), outside, bound, x)


@public(inplace=True, out=True)
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """`input`, but at least `min`, elementwise."""
    return clamp(check_tensor(input, "clamp_min"), min=min)


@public(inplace=True, out=True)
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """`input`, but at most `max`, elementwise."""
    return clamp(check_tensor(input, "clamp_max"), max=max)


@public(inplace=True, out=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with `decimals` digits behind the point, halves to the even one; its gradient is 0.

    >>> import jitgrad as jg
    >>> jg.round(jg.tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    x = check_tensor(input, "round")
    if decimals == 0 or not x.dtype.is_floating_point:
        return pointwise(Round(), x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return scaled(pointwise(Round(), scaled(x, scale)), scale, Div())
    return scaled(pointwise(Round(), scaled(x, scale, Div())), scale)
