"""LLVM types of the dtypes, in memory and in registers, and constants in one or many lanes.

In memory bool is a byte 0/1 and the half types are their 16 bits. In registers bool is `i1` and float16/bfloat16 are
`float` values that are always exactly representable in the half type.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from llvmlite import ir

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

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


class TextConstant(ir.Constant):  # type: ignore[misc]
    """A constant given by its LLVM text; `literal` is the number it holds in every lane, if known."""

    def __init__(self, type_: ir.Type, text: str, literal: int | float | None = None) -> None:
        self.type = type_
        self.constant = text
        self.literal = literal

    def _to_string(self) -> str:
        return f"{self.type} {self.constant}"

    def _get_reference(self) -> str:
        text: str = self.constant
        return text


def splat_constant(element: ir.Type, value: int | float, lanes: int) -> TextConstant:
    """A constant, the same in every lane."""
    text = ir.Constant(element, value).get_reference()
    if lanes == 1:
        return TextConstant(element, text, value)
    return TextConstant(ir.VectorType(element, lanes), f"splat ({element} {text})", value)


def ramp_constant(element: ir.Type, numbers: Iterable[int]) -> TextConstant:
    """A vector constant of the given integers, one a lane."""
    parts = [f"{element} {n}" for n in numbers]
    return TextConstant(ir.VectorType(element, len(parts)), f"<{', '.join(parts)}>")


@functools.cache
def undefined(kind: ir.Type) -> ir.Constant:
    """No value in particular."""
    return ir.Constant(kind, ir.Undefined)


@functools.cache
def lane_order(lanes: tuple[int, ...]) -> ir.Constant:
    """The mask of a shuffle."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """One value in every lane."""
    kind = ir.VectorType(value.type, lanes)
    first = b.insert_element(undefined(kind), value, I32(0))
    return b.shuffle_vector(first, undefined(kind), lane_order((0,) * lanes))
