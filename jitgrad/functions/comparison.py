"""Choosing and comparing: `where`, masked filling, closeness and equality of whole tensors."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentTypeError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Abs, Add, Mul, Sub
from jitgrad.ir.ops.comparison import Eq, IsFinite, IsNan, Le
from jitgrad.ir.ops.logical import LogicalAnd, LogicalOr
from jitgrad.ir.ops.reduction import All
from jitgrad.ir.ops.select import Where

from ..dispatch import apply
from ..errors import located
from ..hot_path import SMALL, hot
from ..mode import local
from ..promotion import Number, float_dtype, result_dtype
from ..tensor import Tensor, truth
from .pointwise import Operand, broadcast, broadcast_shape, check_tensor, convert, expand, filled, operand
from .registry import FUNCTIONS, public


@public(method=False, out=True)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where `condition` holds, else `other`, all broadcast; with `condition` alone, where it holds.

    The branch not taken has no effect on the gradient, whatever its value.

    >>> import jitgrad as jg
    >>> jg.where(jg.tensor([True, False]), jg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None and isinstance(condition, Tensor):
        return condition.nonzero(as_tuple=True)  # type: ignore[attr-defined]
    mask = _condition("where", condition)
    x, y = operand(input, "where", 2), operand(other, "where", 3)
    return choose("where", mask, x, y)


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where `condition` holds, else `other`."""
    return where(condition, self, other)  # type: ignore[no-any-return]


public("where", function=False)(_where_method)


def _condition(name: str, condition: Any) -> Tensor:
    if not isinstance(condition, Tensor):
        raise located(ArgumentTypeError(f"{name}: the condition must be a Tensor, not {type(condition).__name__}"))
    if condition.dtype is dtypes.uint8:
        return convert(condition, dtypes.bool_)
    if condition.dtype.kind != "bool":
        raise located(DTypeError(f"{name} expected condition to be a boolean tensor, but got {condition.dtype.name}"))
    return condition


def choose(name: str, mask: Tensor, x: Operand, y: Operand) -> Tensor:
    """`x` where `mask` holds, else `y`, promoted and broadcast."""
    dtype = result_dtype(x, y)
    shape = broadcast_shape(name, [t for t in (mask, x, y) if isinstance(t, Tensor)])
    a, b = (expand(t, shape) for t in broadcast(name, dtype, x, y))
    return apply(Where(), expand(mask, shape), a, b)


@public(inplace=True)
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor) where `mask` holds; `mask` is broadcast.

    >>> import jitgrad as jg
    >>> jg.masked_fill(jg.tensor([1.0, 2.0]), jg.tensor([True, False]), 0.0)
    tensor([0., 2.])
    """
    x = check_tensor(input, "masked_fill")
    where_filled = _condition("masked_fill", mask)
    if isinstance(value, Tensor):
        if value.ndim:
            raise located(
                ShapeError(f"masked_fill only supports a 0-dimensional value tensor, but got {value.ndim} dims")
            )
        if value.dtype.is_complex and not x.dtype.is_complex:
            raise located(DTypeError(f"masked_fill: value cannot be converted to type {x.dtype.name} without overflow"))
        value = convert(value, x.dtype)
    elif not x.dtype.is_complex and isinstance(value, complex):
        raise located(DTypeError(f"masked_fill: value {value} does not fit {x.dtype.name}"))
    else:
        value = filled((), x.dtype, value)
    return choose("masked_fill", where_filled, value, x)


def _close(name: str, input: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    x, y = check_tensor(input, name), check_tensor(other, name)
    for bound, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise located(OperationError(f"{name}: {bound} must be greater than or equal to zero, but got {value}"))
    if x.dtype is not y.dtype:
        raise located(DTypeError(f"{name}: {x.dtype.name} did not match {y.dtype.name}"))
    a, b = broadcast(name, x.dtype, x, y)
    close = apply(Eq(), a, b)
    if equal_nan and x.dtype.is_differentiable:
        close = apply(LogicalOr(), close, apply(LogicalAnd(), apply(IsNan(), a), apply(IsNan(), b)))
    if rtol == 0 and atol == 0:
        return close
    wide = float_dtype(x.dtype)
    a, b = convert(a, wide), convert(b, wide)
    distance, size = apply(Abs(), apply(Sub(), a, b)), apply(Abs(), b)
    shape, real = size._data.shape, size.dtype
    allowed = apply(Add(), filled(shape, real, atol), apply(Mul(), filled(shape, real, rtol), size))
    within = apply(LogicalAnd(), apply(IsFinite(), distance), apply(Le(), distance, allowed))
    return apply(LogicalOr(), close, within)


@public()
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Where `|input - other| <= atol + rtol * |other|`, elementwise.

    >>> import jitgrad as jg
    >>> jg.isclose(jg.tensor([1.0, 2.0]), jg.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    return _close("isclose", input, other, rtol, atol, equal_nan)


@public()
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as a Python bool; see `isclose`.

    >>> import jitgrad as jg
    >>> jg.allclose(jg.tensor([1.0]), jg.tensor([1.0 + 1e-7]))
    True
    """
    return truth(_all_close(input, other, rtol, atol, equal_nan))


@hot
def _all_close(input: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    close = _close("allclose", input, other, rtol, atol, equal_nan)
    return apply(All(tuple(range(close.ndim)), False), close)


@public()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements, as a Python bool.

    >>> import jitgrad as jg
    >>> jg.equal(jg.tensor([1, 2]), jg.tensor([1, 2]))
    True
    """
    x, y = check_tensor(input, "equal"), check_tensor(other, "equal")
    a, b = x._data, y._data
    if a.shape != b.shape:
        return False
    if (
        local.mode.tracer is None
        and a.__class__ is b.__class__ is np.ndarray
        and a.dtype == b.dtype
        and a.size <= SMALL
    ):
        return bool((a == b).all())
    same = apply(Eq(), *broadcast("equal", result_dtype(x, y), x, y))
    return truth(apply(All(tuple(range(same.ndim)), False), same))


@public(inplace=True, out=True)
def nan_to_num(
    input: Tensor, nan: Number | None = 0.0, posinf: Number | None = None, neginf: Number | None = None
) -> Tensor:
    """`input` with NaN replaced by `nan`, infinities by `posinf` and `neginf` (the largest finite numbers); complex
    ones part by part.

    >>> import jitgrad as jg
    >>> jg.nan_to_num(jg.tensor([float("nan"), 1.0]))
    tensor([0., 1.])
    """
    x = check_tensor(input, "nan_to_num")
    if x.dtype.is_complex:
        parts = nan_to_num(FUNCTIONS["view_as_real"](FUNCTIONS["resolve_conj"](x)), nan, posinf, neginf)
        return FUNCTIONS["view_as_complex"](parts)  # type: ignore[no-any-return]
    if not x.dtype.is_floating_point:
        return convert(x, x.dtype)
    limits = ml_dtypes.finfo(x.dtype.np)
    shape, dtype = x._data.shape, x.dtype
    for value, replacement in (
        (math.inf, float(limits.max) if posinf is None else posinf),
        (-math.inf, float(limits.min) if neginf is None else neginf),
    ):
        at = apply(Eq(), x, filled(shape, dtype, value))
        x = apply(Where(), at, filled(shape, dtype, replacement), x)
    return apply(Where(), apply(IsNan(), x), filled(shape, dtype, nan or 0.0), x)
