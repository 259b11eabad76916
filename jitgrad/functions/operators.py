"""Python's operators on tensors, and how NumPy's functions and operators treat them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ir.errors import DTypeError
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Mul, Neg, Sub
from jitgrad.ir.ops.comparison import Eq, Ge, Gt, Le, Lt, Ne
from jitgrad.ir.ops.logical import BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, ShiftLeft, ShiftRight
from jitgrad.ir.ops.rounding import FloorDivide, Remainder

from ..errors import located
from ..fast_path import binary_method, reflected_method, unary_method
from ..hot_path import hot
from ..tensor import Tensor
from .arithmetic import pow, sub
from .pointwise import exact_dtypes, is_operand, pointwise, weak_dtypes
from .registry import FUNCTIONS

Binary = Callable[[Any, Any], Any]


def _forward(function: Binary) -> Binary:
    """The operator `x @ y` for what the fast path does not take."""

    def method(self: Any, other: Any) -> Any:
        return function(self, other) if is_operand(other) else NotImplemented

    return method


def _reflected(function: Binary) -> Binary:
    def method(self: Any, other: Any) -> Any:
        return function(other, self) if is_operand(other) else NotImplemented

    return method


def _plain(op: Pointwise) -> Binary:
    return lambda x, y: pointwise(op, x, y)


def _negative(x: Tensor) -> Tensor:
    if x.dtype.kind == "bool":
        raise located(
            DTypeError(
                "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
                "invert a mask, use the `~` or `logical_not()` operator instead."
            )
        )
    return pointwise(Neg(), x)


_FAST: dict[str, tuple[Pointwise, Binary]] = {
    "add": (Add(), _plain(Add())),
    "sub": (Sub(), sub),
    "mul": (Mul(), _plain(Mul())),
    "truediv": (Div(), _plain(Div())),
    "eq": (Eq(), _plain(Eq())),
    "ne": (Ne(), _plain(Ne())),
    "lt": (Lt(), _plain(Lt())),
    "le": (Le(), _plain(Le())),
    "gt": (Gt(), _plain(Gt())),
    "ge": (Ge(), _plain(Ge())),
}
_GENERAL: dict[str, Binary] = {
    "floordiv": _plain(FloorDivide()),
    "mod": _plain(Remainder()),
    "pow": pow,
    "and": _plain(BitwiseAnd()),
    "or": _plain(BitwiseOr()),
    "xor": _plain(BitwiseXor()),
    "lshift": _plain(ShiftLeft()),
    "rshift": _plain(ShiftRight()),
}
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_INPLACE = {
    "iadd": "add_",
    "isub": "sub_",
    "imul": "mul_",
    "itruediv": "div_",
    "ifloordiv": "floor_divide_",
    "imod": "remainder_",
    "ipow": "pow_",
    "iand": "bitwise_and_",
    "ior": "bitwise_or_",
    "ixor": "bitwise_xor_",
    "ilshift": "bitwise_left_shift_",
    "irshift": "bitwise_right_shift_",
}


def _install(name: str, method: Callable[..., Any]) -> None:
    method.__name__ = f"__{name}__"
    method.__qualname__ = f"Tensor.__{name}__"
    setattr(Tensor, method.__name__, method)


for _name, (_op, _function) in _FAST.items():
    _install(_name, binary_method(_op, hot(_forward(_function)), exact_dtypes(_op), weak_dtypes(_op)))
    if _name not in _COMPARISONS:
        _install("r" + _name, reflected_method(_op, hot(_reflected(_function))))
for _name, _function in _GENERAL.items():
    _install(_name, _forward(_function) if _name == "pow" else hot(_forward(_function)))  # which is hot itself
    _install("r" + _name, hot(_reflected(_function)))
for _name, _method in _INPLACE.items():
    setattr(Tensor, f"__{_name}__", getattr(Tensor, _method))

Tensor.__div__, Tensor.__rdiv__ = Tensor.__truediv__, Tensor.__rtruediv__  # type: ignore[attr-defined]
Tensor.__rmatmul__ = lambda self, other: FUNCTIONS["matmul"](other, self)  # type: ignore[attr-defined]

_install("neg", unary_method(Neg(), _negative))
_install("abs", unary_method(Abs(), hot(lambda x: pointwise(Abs(), x))))
_install("invert", hot(lambda self: pointwise(BitwiseNot(), self)))
_install("pos", lambda self: self)


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's functions on tensors: jitgrad's function of that name, else NumPy's on the values."""
    function = FUNCTIONS.get(_UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__))
    if method == "__call__" and function is not None and not kwargs and all(map(is_operand, inputs)):
        return function(*inputs)
    arrays = [np.asarray(x) if isinstance(x, Tensor) else x for x in inputs]
    return getattr(ufunc, method)(*arrays, **kwargs)


_UFUNC_NAMES = {"power": "pow", "equal": "eq", "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
                "right_shift": "bitwise_right_shift"}  # fmt: skip
Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]
Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]
