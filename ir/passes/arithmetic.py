"""Rules of arithmetic, rounding and conversion that keep every bit."""

from __future__ import annotations

from typing import Final

from .. import dtypes
from ..builder import Builder
from ..dtypes import DType
from ..graph import Node, Value
from ..op import Reduction
from ..ops.arithmetic import Abs, Add, Div, Maximum, Minimum, Mul, Neg, Sign, Sub
from ..ops.broadcast import Sum
from ..ops.complex import Conj, Imag, MakeComplex, Real
from ..ops.creation import full_like
from ..ops.math import Pow
from ..ops.reduction import All, Amax, Amin, Any, Prod
from ..ops.rounding import Ceil, Floor, FloorDivide, Remainder, Round, Trunc
from ..ops.select import Convert
from ..ops.shape import Reshape
from ..rewrite import Rules
from ..tracked import always_equal
from .literals import is_number, made_by, operand_of, producer

ARITHMETIC: Final = Rules()
_FOLDS: Final = (Sum, Prod, Amax, Amin, Any, All)
_PRECISION: Final = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def is_exact(value: Value) -> bool:
    """Bool or integer: no NaN, no signed zero, no rounding."""
    return value.type.dtype.kind in ("bool", "int")


def _is_complex(value: Value) -> bool:
    return value.type.dtype.is_complex


@ARITHMETIC(Add)
def addition(b: Builder, node: Node) -> Value | None:
    """`x + -0.0`; `x + 0` of integers; `x + -y`."""
    x, y = node.operands
    if is_number(y, 0.0 if is_exact(y) else -0.0):
        return x
    if (negated := operand_of(y, Neg)) is not None:
        return b(Sub(), x, negated)
    if (negated := operand_of(x, Neg)) is not None:
        return b(Sub(), y, negated)
    return None


@ARITHMETIC(Sub)
def subtraction(b: Builder, node: Node) -> Value | None:
    """`x - 0.0`; `-0.0 - x`; `x - -y`; `x - x` of integers."""
    x, y = node.operands
    if is_number(y, 0.0):
        return x
    if is_number(x, 0.0 if is_exact(x) else -0.0):
        return b(Neg(), y)
    if (negated := operand_of(y, Neg)) is not None:
        return b(Add(), x, negated)
    return full_like(b, x, 0) if x is y and is_exact(x) else None


@ARITHMETIC(Mul)
def multiplication(b: Builder, node: Node) -> Value | None:
    """`x * 1`; `x * -1`; `-x * -y`; `x * 0` of integers; bool is "and"."""
    x, y = node.operands
    if is_number(y, 1.0):
        return x
    if is_number(y, 0.0) and is_exact(y):
        return y
    if is_number(y, -1.0):
        return b(Neg(), x)
    p, q = operand_of(x, Neg), operand_of(y, Neg)
    if p is not None and q is not None and not _is_complex(p):
        return b(Mul(), p, q)
    return x if x is y and x.type.dtype.kind == "bool" else None


@ARITHMETIC(Div)
def division(b: Builder, node: Node) -> Value | None:
    """`x / 1`; `x / -1`; `-x / -y`."""
    x, y = node.operands
    if is_number(y, 1.0):
        return x
    if is_number(y, -1.0):
        return b(Neg(), x)
    p, q = operand_of(x, Neg), operand_of(y, Neg)
    return b(Div(), p, q) if p is not None and q is not None and not _is_complex(p) else None


@ARITHMETIC(Pow)
def power(b: Builder, node: Node) -> Value | None:
    """`x**0` is 1 for every `x`, NaN too; `x**1`."""
    x, y = node.operands
    if _is_complex(x):
        return None
    if is_number(y, 0.0) or is_number(y, -0.0):
        return full_like(b, x, 1)
    return x if is_number(y, 1.0) else None


@ARITHMETIC(FloorDivide, Remainder)
def integer_division(b: Builder, node: Node) -> Value | None:
    """Integers by 1. Floats don't allow it: an infinity by 1 leaves NaN."""
    x, y = node.operands
    if not is_exact(x) or not is_number(y, 1):
        return None
    return x if isinstance(node.op, FloorDivide) else full_like(b, x, 0)


@ARITHMETIC(Neg, Conj)
def involution(b: Builder, node: Node) -> Value | None:
    """What is done twice is undone."""
    return operand_of(node.operands[0], type(node.op))


@ARITHMETIC(Abs)
def absolute(b: Builder, node: Node) -> Value | None:
    """`abs(abs(x))` and `abs(-x)`; unsigned integers."""
    (x,) = node.operands
    if made_by(x, Abs) is not None or (x.type.dtype.kind == "int" and not x.type.dtype.is_signed):
        return x
    inner = operand_of(x, Neg)
    return b(Abs(), inner) if inner is not None else None


@ARITHMETIC(Sign)
def sign(b: Builder, node: Node) -> Value | None:
    """A sign's sign."""
    (x,) = node.operands
    return x if made_by(x, Sign) is not None and not _is_complex(x) else None


@ARITHMETIC(Floor, Ceil, Trunc, Round)
def rounding(b: Builder, node: Node) -> Value | None:
    """Whole numbers are rounded already."""
    (x,) = node.operands
    is_whole = x.node is not None and isinstance(x.node.op, Floor | Ceil | Trunc | Round)
    return x if is_whole or is_exact(x) else None


@ARITHMETIC(Maximum, Minimum)
def extreme(b: Builder, node: Node) -> Value | None:
    """The larger of `x` and `x`."""
    x, y = node.operands
    return x if x is y else None


@ARITHMETIC(Real, Imag)
def part(b: Builder, node: Node) -> Value | None:
    """A part of a number made of parts."""
    made = producer(node.operands[0], MakeComplex)
    return None if made is None else made.operands[isinstance(node.op, Imag)]


@ARITHMETIC(MakeComplex)
def recombination(b: Builder, node: Node) -> Value | None:
    """Both parts of the same number."""
    real, imag = operand_of(node.operands[0], Real), operand_of(node.operands[1], Imag)
    return real if real is imag else None


@ARITHMETIC(Convert)
def conversion(b: Builder, node: Node) -> Value | None:
    """A conversion of a conversion that lost nothing."""
    (x,) = node.operands
    source = operand_of(x, Convert)
    if source is None:
        return None
    first, middle, last = (v.type.dtype for v in (source, x, node.result))
    if not is_lossless(first, middle) or not _is_direct(first, last):
        return None
    return source if first is last else b(Convert(last), source)


def is_lossless(source: DType, target: DType) -> bool:
    """Whether each value of `source` is one of `target`, with the sign of zeros.

    >>> is_lossless(dtypes.int16, dtypes.float32), is_lossless(dtypes.int32, dtypes.float32)
    (True, False)
    """
    if source is target or source.kind == "bool":
        return True
    if source.kind == "int":
        bits = 8 * source.itemsize - source.is_signed
        if target.kind == "int":
            fits = bits <= 8 * target.itemsize - target.is_signed
            return fits and (target.is_signed or not source.is_signed)
        return target.kind != "bool" and bits <= _PRECISION[dtypes.to_real(target)]
    if source.is_floating_point:
        real = dtypes.to_real(target)
        return real in (dtypes.float32, dtypes.float64) and real.itemsize >= source.itemsize
    return target is dtypes.complex128


def _is_direct(source: DType, target: DType) -> bool:
    """Whether converting `source` to `target` is defined for each value and rounds at most once."""
    if source.kind == "bool" or target.kind == "bool" or source is target:
        return True
    if source.kind == "int":
        return target.kind == "int" or is_lossless(source, target) or target in (dtypes.float32, dtypes.float64)
    return target.kind != "int"


@ARITHMETIC(Reduction)
def reduction_of_ones(b: Builder, node: Node) -> Value | None:
    """Reducing axes of length 1, or none, where the fold of one element is that element."""
    (x,) = node.operands
    assert isinstance(node.op, Reduction)
    if not all(always_equal(x.shape[a], 1) for a in node.op.axes) or node.result.type.dtype is not x.type.dtype:
        return None
    if (isinstance(node.op, Sum) and not is_exact(x)) or (isinstance(node.op, Prod) and _is_complex(x)):
        return None
    return b(Reshape(node.result.shape), x) if isinstance(node.op, _FOLDS) else None
