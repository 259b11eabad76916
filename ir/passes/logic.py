"""Rules of comparison, selection, truth values and bits."""

from __future__ import annotations

from typing import Final

from .. import dtypes
from ..builder import Builder
from ..graph import Node, Value
from ..ops.comparison import Eq, Ge, Gt, IsFinite, IsInf, IsNan, Le, Lt, Ne
from ..ops.creation import Full, full_like
from ..ops.logical import (
    BitwiseAnd,
    BitwiseNot,
    BitwiseOr,
    BitwiseXor,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    LogicalXor,
    ShiftLeft,
    ShiftRight,
)  # fmt: skip
from ..ops.select import Where
from ..rewrite import Rules
from .arithmetic import is_exact
from .literals import is_number, number_of, operand_of, producer

LOGIC: Final = Rules()


def _bool(b: Builder, node: Node, answer: bool) -> Value:
    t = node.result.type
    return b(Full(t.shape, dtypes.bool_, answer, t.device))


def _is_bool(value: Value) -> bool:
    return value.type.dtype.kind == "bool"


@LOGIC(Eq, Ne, Lt, Le, Gt, Ge)
def comparison(b: Builder, node: Node) -> Value | None:
    """`x` with `x`: NaN is never equal to, below or above itself."""
    x, y = node.operands
    if x is not y:
        return None
    if isinstance(node.op, Lt | Gt):
        return _bool(b, node, False)
    if is_exact(x):
        return _bool(b, node, not isinstance(node.op, Ne))
    return b(IsNan(), x) if isinstance(node.op, Ne) else None


@LOGIC(Eq, Ne)
def comparison_with_truth(b: Builder, node: Node) -> Value | None:
    """A bool compared with true or false is itself, or its contrary."""
    x, y = node.operands
    known = number_of(y) if _is_bool(x) else None
    if known is None:
        return None
    return x if known == isinstance(node.op, Eq) else b(LogicalNot(), x)


@LOGIC(IsNan, IsInf, IsFinite)
def test_of_integer(b: Builder, node: Node) -> Value | None:
    """Integers are finite."""
    return _bool(b, node, isinstance(node.op, IsFinite)) if is_exact(node.operands[0]) else None


@LOGIC(Where)
def selection(b: Builder, node: Node) -> Value | None:
    """A known condition; equal branches; a branch that asks for the same condition."""
    c, x, y = node.operands
    if (known := number_of(c)) is not None:
        return x if known else y
    if x is y:
        return x
    if (inner := producer(x, Where)) is not None and inner.operands[0] is c:
        return b(Where(), c, inner.operands[1], y)
    if (inner := producer(y, Where)) is not None and inner.operands[0] is c:
        return b(Where(), c, x, inner.operands[2])
    if (contrary := operand_of(c, LogicalNot)) is not None and _is_bool(contrary):
        return b(Where(), contrary, y, x)
    if _is_bool(x) and number_of(x) is not None and number_of(y) is not None:
        return c if number_of(x) else b(LogicalNot(), c)  # the branches differ, or they were folded into one
    return None


@LOGIC(LogicalNot)
def negation(b: Builder, node: Node) -> Value | None:
    """Not not; not equal. (Not below is not "above or equal": NaN is neither.)"""
    (x,) = node.operands
    if (inner := operand_of(x, LogicalNot)) is not None and _is_bool(inner):
        return inner
    for kind, contrary in ((Eq, Ne()), (Ne, Eq())):
        if (made := producer(x, kind)) is not None:
            return b(contrary, *made.operands)
    return None


@LOGIC(LogicalAnd, LogicalOr)
def conjunction(b: Builder, node: Node) -> Value | None:
    """With true, with false, with itself."""
    x, y = node.operands
    neutral = isinstance(node.op, LogicalAnd)
    for one, other in ((x, y), (y, x)):
        known = number_of(one)
        if known is not None and bool(known) is not neutral:
            return _bool(b, node, not neutral)
        if known is not None and _is_bool(other):
            return other
    return x if x is y and _is_bool(x) else None


@LOGIC(LogicalXor)
def exclusion(b: Builder, node: Node) -> Value | None:
    """With true, with false, with itself."""
    x, y = node.operands
    if x is y:
        return _bool(b, node, False)
    known = number_of(y) if _is_bool(x) else None
    if known is None:
        return None
    return b(LogicalNot(), x) if known else x


@LOGIC(BitwiseAnd, BitwiseOr)
def bits(b: Builder, node: Node) -> Value | None:
    """With all bits set, with none, with itself."""
    x, y = node.operands
    is_and = isinstance(node.op, BitwiseAnd)
    if x is y or _has_all_bits(y, is_and):
        return x
    return y if _has_all_bits(y, not is_and) else None


@LOGIC(BitwiseXor)
def different_bits(b: Builder, node: Node) -> Value | None:
    """With all bits set, with none, with itself."""
    x, y = node.operands
    if x is y:
        return full_like(b, x, 0)
    if _has_all_bits(y, True):
        return b(BitwiseNot(), x)
    return x if _has_all_bits(y, False) else None


@LOGIC(BitwiseNot)
def complement(b: Builder, node: Node) -> Value | None:
    """Twice."""
    return operand_of(node.operands[0], BitwiseNot)


@LOGIC(ShiftLeft, ShiftRight)
def shift(b: Builder, node: Node) -> Value | None:
    """By nothing."""
    return node.operands[0] if is_number(node.operands[1], 0) else None


def _has_all_bits(value: Value, is_set: bool) -> bool:
    """Whether `value` is a number with all bits set, or with none."""
    dtype = value.type.dtype
    ones = -1 if dtype.is_signed else (1 << 8 * dtype.itemsize) - 1
    return is_number(value, (True if _is_bool(value) else ones) if is_set else 0)
