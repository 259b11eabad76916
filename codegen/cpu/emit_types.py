"""LLVM types of the dtypes, in memory and in registers, and constants in one or many lanes.

In memory bool is a byte 0/1 and the half types are their 16 bits. In registers bool is `i1` and float16/bfloat16 are
`float` values that are always exactly representable in the half type.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE, POINTER = ir.HalfType(), ir.FloatType(), ir.DoubleType(), ir.PointerType()

_REGISTER: Final[dict[DType, ir.Type]] = {
    dtypes.bool_: I1, dtypes.uint8: I8, dtypes.int8: I8, dtypes.int16: I16, dtypes.int32: I32, dtypes.int64: I64,
    dtypes.uint16: I16, dtypes.uint32: I32, dtypes.uint64: I64,
    dtypes.float16: FLOAT, dtypes.bfloat16: FLOAT, dtypes.float32: FLOAT, dtypes.float64: DOUBLE,
}  # fmt: skip
_MEMORY: Final[dict[DType, ir.Type]] = {
    **_REGISTER, dtypes.bool_: I8, dtypes.float16: I16, dtypes.bfloat16: I16,
}  # fmt: skip
HALF_TYPES: Final = (dtypes.float16, dtypes.bfloat16)


def vector_of(element: ir.Type, lanes: int) -> ir.Type:
    """`element` itself for one lane, else the vector type."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def register_type(dtype: DType, lanes: int) -> ir.Type:
    """The LLVM type of a value of `dtype` in a register."""
    return vector_of(_REGISTER[dtype], lanes)


def memory_type(dtype: DType, lanes: int) -> ir.Type:
    """The LLVM type of `lanes` consecutive elements in memory."""
    return vector_of(_MEMORY[dtype], lanes)


def splat_constant(element: ir.Type, value: int | float, lanes: int) -> ir.Constant:
    """A constant, the same in every lane."""
    one = ir.Constant(element, value)
    if lanes == 1:
        return one
    return ir.Constant.of_text(ir.VectorType(element, lanes), f"splat ({element.text} {one.ref})", value)


def ramp_constant(element: ir.Type, numbers: Iterable[int]) -> ir.Constant:
    """A vector constant of the given integers, one a lane."""
    found = list(numbers)
    return ir.Constant(ir.VectorType(element, len(found)), found)


@functools.cache
def undefined(kind: ir.Type) -> ir.Constant:
    """No value in particular."""
    return ir.Constant(kind, ir.Undefined)


@functools.cache
def lane_order(lanes: tuple[int, ...]) -> ir.Constant:
    """The mask of a shuffle."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


def plain(b: ir.IRBuilder, index: ir.Value) -> ir.Value:
    """A loop's index as a number that LLVM takes as it comes.

    Where it sees how an index moves, it tries out all ways to reckon the addresses in a loop, which takes an eighth of
    its time. For tile kernels and loops with many addresses, what it finds is no faster.
    """
    expect = b.module.declared("llvm.expect.i64", ir.FunctionType(I64, [I64, I64]))
    return b.call(expect, [index, I64(0)])


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """One value in every lane."""
    kind = ir.VectorType(value.type, lanes)
    first = b.insert_element(undefined(kind), value, I32(0))
    return b.shuffle_vector(first, undefined(kind), lane_order((0,) * lanes))
