"""Algebraic simplification that keeps every bit: NaN, infinities, signed zeros, denormals, wrapping integers.

What floats don't allow is left out: `x * 0` and `x - x` stay (NaN, infinity), `x + 0.0` stays (it turns -0.0
into 0.0, where `x + -0.0` is `x`), sums over one element stay (they start from 0.0). The one thing not kept
is which NaN a NaN is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .. import dtypes
from ..builder import Builder
from ..dtypes import DType
from ..graph import Graph, Node, Value
from ..op import Reduction
from ..ops.arithmetic import Abs, Add, Div, Maximum, Minimum, Mul, Neg, Sub
from ..ops.broadcast import Sum
from ..ops.comparison import Eq, Ge, Gt, IsFinite, IsInf, IsNan, Le, Lt, Ne
from ..ops.complex import Conj
from ..ops.creation import Full, full_like
from ..ops.reduction import Amax, Amin
from ..ops.select import Convert, Where
from ..ops.shape import Reshape
from ..rewrite import Rules, rewrite
from .base import Pass
from .literals import is_number, made_by, number_of, operand_of, producer

_rules: Final = Rules()


@dataclass(frozen=True)
class SimplifyAlgebra(Pass):
    """Uses identities of arithmetic, comparison, selection and conversion that hold for each bit."""

    name = "algebra"

    def apply(self, graph: Graph) -> Graph:
        """A rewriting."""
        return rewrite(graph, _rules)


def _is_exact(value: Value) -> bool:
    """Bool or integer: no NaN, no signed zero, no rounding."""
    return value.type.dtype.kind in ("bool", "int")


def _is_complex(value: Value) -> bool:
    return value.type.dtype.is_complex


def _bool(b: Builder, node: Node, answer: bool) -> Value:
    t = node.result.type
    return b(Full(t.shape, dtypes.bool_, answer, t.device))


@_rules(Add)
def addition(b: Builder, node: Node) -> Value | None:
    """`x + -0.0`; `x + 0` of integers; `x + -y`."""
    x, y = node.operands
    if is_number(y, 0.0 if _is_exact(y) else -0.0):
        return x
    if (negated := operand_of(y, Neg)) is not None:
        return b(Sub(), x, negated)
    if (negated := operand_of(x, Neg)) is not None:
        return b(Sub(), y, negated)
    return None


@_rules(Sub)
def subtraction(b: Builder, node: Node) -> Value | None:
    """`x - 0.0`; `-0.0 - x`; `x - -y`; `x - x` of integers."""
    x, y = node.operands
    if is_number(y, 0.0):
        return x
    if is_number(x, 0.0 if _is_exact(x) else -0.0):
        return b(Neg(), y)
    if (negated := operand_of(y, Neg)) is not None:
        return b(Add(), x, negated)
    return full_like(b, x, 0) if x is y and _is_exact(x) else None


@_rules(Mul)
def multiplication(b: Builder, node: Node) -> Value | None:
    """`x * 1`; `x * -1`; `-x * -y`; `x * 0` of integers; bool is "and"."""
    x, y = node.operands
    if is_number(y, 1.0):
        return x
    if is_number(y, 0.0) and _is_exact(y):
        return y
    if is_number(y, -1.0):
        return b(Neg(), x)
    p, q = operand_of(x, Neg), operand_of(y, Neg)
    if p is not None and q is not None and not _is_complex(p):
        return b(Mul(), p, q)
    return x if x is y and x.type.dtype.kind == "bool" else None


@_rules(Div)
def division(b: Builder, node: Node) -> Value | None:
    """`x / 1`; `x / -1`; `-x / -y`."""
    x, y = node.operands
    if is_number(y, 1.0):
        return x
    if is_number(y, -1.0):
        return b(Neg(), x)
    p, q = operand_of(x, Neg), operand_of(y, Neg)
    return b(Div(), p, q) if p is not None and q is not None and not _is_complex(p) else None


@_rules(Neg, Conj)
def involution(b: Builder, node: Node) -> Value | None:
    """What is done twice is undone."""
    return operand_of(node.operands[0], type(node.op))


@_rules(Abs)
def absolute(b: Builder, node: Node) -> Value | None:
    """`abs(abs(x))` and `abs(-x)`; unsigned integers."""
    (x,) = node.operands
    if made_by(x, Abs) is not None or (x.type.dtype.kind == "int" and not x.type.dtype.is_signed):
        return x
    inner = operand_of(x, Neg)
    return b(Abs(), inner) if inner is not None else None


@_rules(Maximum, Minimum)
def extreme(b: Builder, node: Node) -> Value | None:
    """The larger of `x` and `x`."""
    x, y = node.operands
    return x if x is y else None


@_rules(Eq, Ne, Lt, Le, Gt, Ge)
def comparison(b: Builder, node: Node) -> Value | None:
    """`x` with `x`: NaN is never equal to, below or above itself."""
    x, y = node.operands
    if x is not y:
        return None
    if isinstance(node.op, Lt | Gt):
        return _bool(b, node, False)
    if _is_exact(x):
        return _bool(b, node, not isinstance(node.op, Ne))
    return b(IsNan(), x) if isinstance(node.op, Ne) else None


@_rules(IsNan, IsInf, IsFinite)
def test_of_integer(b: Builder, node: Node) -> Value | None:
    """Integers are finite."""
    return _bool(b, node, isinstance(node.op, IsFinite)) if _is_exact(node.operands[0]) else None


@_rules(Where)
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
    if x.type.dtype.kind == "bool" and is_number(x, True) and is_number(y, False):
        return c
    return None


@_rules(Convert)
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
            return bits <= 8 * target.itemsize - target.is_signed and (
                target.is_signed or not source.is_signed
            )
        return target.kind != "bool" and bits <= _PRECISION[dtypes.to_real(target)]
    if source.is_floating_point:
        real = dtypes.to_real(target)
        return real in (dtypes.float32, dtypes.float64) and real.itemsize >= source.itemsize
    return target is dtypes.complex128


_PRECISION: Final = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def _is_direct(source: DType, target: DType) -> bool:
    """Whether converting `source` to `target` is defined for each value and rounds at most once."""
    if source.kind == "bool" or target.kind == "bool" or source is target:
        return True
    if source.kind == "int":
        return (
            target.kind == "int" or is_lossless(source, target) or target in (dtypes.float32, dtypes.float64)
        )
    return target.kind != "int"


@_rules(Reduction)
def reduction_of_ones(b: Builder, node: Node) -> Value | None:
    """Reducing axes of length 1, or none, where the fold of one element is that element."""
    (x,) = node.operands
    assert isinstance(node.op, Reduction)
    if any(x.shape[a] != 1 for a in node.op.axes) or node.result.type.dtype is not x.type.dtype:
        return None
    if isinstance(node.op, Amax | Amin) or (isinstance(node.op, Sum) and _is_exact(x)):
        return b(Reshape(node.result.shape), x)
    return None
