"""What users read when operands do not fit: the op, the rule, both types; of classes that scripts catch."""

import numpy as np
import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, DTypeError, ShapeError
from jitgrad.ir.ops.arithmetic import Add, Div, Sub
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.creation import Full, Literal
from jitgrad.ir.ops.random import RandomInt, RandomUniform
from jitgrad.ir.ops.reduction import Amax
from jitgrad.ir.ops.rounding import FloorDivide, Fmod, Remainder
from jitgrad.ir.ops.scan import CumSum
from jitgrad.ir.ops.select import Where
from jitgrad.ir.types import TensorType


def f32(*shape):
    return TensorType(shape, dtypes.float32)


def i64(*shape):
    return TensorType(shape, dtypes.int64)


CASES = [
    (Add(), (f32(2, 3), f32(3)), ShapeError, "add: operand shapes differ\n  lhs f32[2,3]   rhs f32[3]"),
    (Add(), (f32(2), i64(2)), DTypeError, "add: operand dtypes differ\n  lhs f32[2]   rhs i64[2]"),
    (Div(), (i64(2), i64(2)), DTypeError, "div: not defined for int64\n  lhs i64[2]   rhs i64[2]"),
    (Where(), (f32(2), f32(2), f32(2)), DTypeError, "where: the condition is float32, not bool"),
    (
        BroadcastTo((2, 4)),
        (f32(2, 3),),
        ShapeError,
        "broadcast_to: axis 1 has length 3, which does not",
    ),
    (BroadcastTo((2,)), (f32(1, 2),), ShapeError, "broadcast_to: 2 axes do not fit the 1 of [2]"),
    (Sum((1,)), (f32(2),), ShapeError, "sum: axes (1,) do not fit 1 axes\n  operand f32[2]"),
    (Amax((1,)), (f32(2, 0),), ArgumentError, "amax: axis 1 has length 0, and no elements have no amax"),
    (CumSum(1), (f32(2),), ShapeError, "cumsum: axis 1 is not among 1 axes"),
    (Full((2, -1), dtypes.float32, 0), (), ArgumentError, "full: negative length in shape [2, -1]"),
    (RandomUniform((2,)), (f32(), i64()), DTypeError, "random_uniform: seed and offset must be int64"),
    (RandomInt((2,), 3, 3), (i64(), i64()), ArgumentError, "random_int: no integers from 3 to below 3"),
]


@pytest.mark.parametrize(("op", "types", "error", "message"), CASES, ids=[m.split("\n")[0] for *_, m in CASES])
def test_message(op, types, error, message):
    with pytest.raises(error) as caught:
        op.infer(*types)
    assert str(caught.value).startswith(message)


def test_bool_has_no_difference():
    with pytest.raises(RuntimeError, match="sub: not defined for bool"):
        Sub().infer(TensorType((), dtypes.bool_), TensorType((), dtypes.bool_))


@pytest.mark.parametrize("op", [FloorDivide(), Remainder(), Fmod()])
def test_an_integer_divided_by_zero_raises(op):
    with pytest.raises(ZeroDivisionError, match=f"{op.name}: an integer is divided by zero"):
        op.reference(np.array([1, 2]), np.array([1, 0]))
    with pytest.raises(RuntimeError):  # what PyTorch raises
        op.reference(np.array([1, 2]), np.array([1, 0]))


def test_full_keeps_numbers_of_its_own_kind():
    assert Full((), dtypes.float32, 2) is Full((), dtypes.float32, 2.0)
    assert Full((), dtypes.uint8, -1).value == 255
    with pytest.raises(DTypeError, match="the complex number 1j does not fit float32"):
        Full((), dtypes.float32, 1j)


def test_literals_compare_by_content():
    a, b = Literal(np.arange(3)), Literal(np.arange(3))
    assert a == b and hash(a) == hash(b) and a != Literal(np.arange(3.0))
    with pytest.raises(ValueError):
        a.array[0] = 1
