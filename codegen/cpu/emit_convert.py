"""Every value conversion, and the way between memory and registers.

Half types are rounded after each operation, so that fused code gives the bits of separate operations. Conversions of
floats to integers truncate; NaN and values outside the target range give the target's "integer indefinite" (the
smallest int32 or int64; for narrower and unsigned types bits of those), as NumPy mostly does on x86.
"""

from __future__ import annotations

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .emit_half import narrow_to_half, widen_half
from .emit_types import (
    DOUBLE,
    FLOAT,
    HALF_TYPES,
    I8,
    I16,
    I32,
    I64,
    register_type,
    splat_constant,
    vector_of,
)  # fmt: skip


def from_memory(b: ir.IRBuilder, value: ir.Value, dtype: DType, lanes: int) -> ir.Value:
    """The register form of loaded elements."""
    if dtype is dtypes.bool_:
        return b.icmp_unsigned("!=", value, splat_constant(I8, 0, lanes))
    if dtype is dtypes.float16:
        return widen_half(b, value, lanes)
    if dtype is dtypes.bfloat16:
        wide = b.zext(value, vector_of(I32, lanes))
        return b.bitcast(b.shl(wide, splat_constant(I32, 16, lanes)), vector_of(FLOAT, lanes))
    return value


def to_memory(b: ir.IRBuilder, value: ir.Value, dtype: DType, lanes: int) -> ir.Value:
    """The memory form of a register value."""
    if dtype is dtypes.bool_:
        return b.zext(value, vector_of(I8, lanes))
    if dtype is dtypes.float16:
        return narrow_to_half(b, value, lanes)
    if dtype is dtypes.bfloat16:
        bits = b.bitcast(value, vector_of(I32, lanes))
        return b.trunc(b.lshr(bits, splat_constant(I32, 16, lanes)), vector_of(I16, lanes))
    return value


def round_to_half(b: ir.IRBuilder, value: ir.Value, dtype: DType, lanes: int) -> ir.Value:
    """A float32 register rounded to the nearest value of float16 or bfloat16 (ties to even)."""
    if dtype is dtypes.float16:
        return widen_half(b, narrow_to_half(b, value, lanes), lanes)
    bits = b.bitcast(value, vector_of(I32, lanes))
    sixteen = splat_constant(I32, 16, lanes)
    odd = b.and_(b.lshr(bits, sixteen), splat_constant(I32, 1, lanes))
    rounded = b.add(b.add(bits, splat_constant(I32, 0x7FFF, lanes)), odd)
    quiet = b.or_(bits, splat_constant(I32, 0x400000, lanes))
    chosen = b.select(b.fcmp_unordered("uno", value, value), quiet, rounded)
    return b.bitcast(b.and_(chosen, splat_constant(I32, -65536, lanes)), vector_of(FLOAT, lanes))


def convert(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType, lanes: int) -> ir.Value:
    """`value` of `source` as `target`."""
    if source is target:
        return value
    if target is dtypes.bool_:
        return _to_bool(b, value, source, lanes)
    if not source.is_floating_point:
        return _from_integer(b, value, source, target, lanes)
    if not target.is_floating_point:
        return _float_to_integer(b, value, source, target, lanes)
    if target in HALF_TYPES:
        single = _to_odd_single(b, value, lanes) if source is dtypes.float64 else value
        return round_to_half(b, single, target, lanes)
    if target is dtypes.float64:
        return b.fpext(value, vector_of(DOUBLE, lanes))
    return b.fptrunc(value, vector_of(FLOAT, lanes)) if source is dtypes.float64 else value


def _to_bool(b: ir.IRBuilder, value: ir.Value, source: DType, lanes: int) -> ir.Value:
    zero = splat_constant(register_type(source, 1), 0.0 if source.is_floating_point else 0, lanes)
    if source.is_floating_point:
        return b.fcmp_unordered("!=", value, zero)
    return b.icmp_unsigned("!=", value, zero)


def _from_integer(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType, lanes: int) -> ir.Value:
    if target.is_floating_point:
        wide = dtypes.float64 if target is dtypes.float64 or source.itemsize > 2 else dtypes.float32
        if target is dtypes.float32:
            wide = target
        register = register_type(wide, lanes)
        single = b.sitofp(value, register) if source.is_signed else b.uitofp(value, register)
        return single if wide is target else convert(b, single, wide, target, lanes)
    to, width = register_type(target, lanes), 1 if source is dtypes.bool_ else 8 * source.itemsize
    if 8 * target.itemsize == width:
        return value
    if 8 * target.itemsize < width:
        return b.trunc(value, to)
    return b.sext(value, to) if source.is_signed else b.zext(value, to)


def _float_to_integer(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType, lanes: int) -> ir.Value:
    if target is not dtypes.uint64:
        whole = _truncated(b, value, source, I64 if target in (dtypes.int64, dtypes.uint32) else I32, lanes)
        to = register_type(target, lanes)
        return whole if to == whole.type else b.trunc(whole, to)
    half = splat_constant(register_type(source, 1), 2.0**63, lanes)
    upper = b.fcmp_ordered(">=", value, half)
    whole = _truncated(b, b.select(upper, b.fsub(value, half), value), source, I64, lanes)
    top = b.select(upper, splat_constant(I64, -(1 << 63), lanes), splat_constant(I64, 0, lanes))
    return b.xor(whole, top)


def _truncated(b: ir.IRBuilder, value: ir.Value, source: DType, wide: ir.IntType, lanes: int) -> ir.Value:
    limit = 2.0 ** (wide.width - 1)
    element = register_type(source, 1)
    low, high = splat_constant(element, -limit, lanes), splat_constant(element, limit, lanes)
    if source is dtypes.float64 and wide is I32:  # -2147483648.5 truncates into the range
        above = b.fcmp_ordered(">", value, splat_constant(element, -limit - 1.0, lanes))
    else:
        above = b.fcmp_ordered(">=", value, low)
    inside = b.and_(above, b.fcmp_ordered("<", value, high))
    safe = b.select(inside, value, splat_constant(element, 0.0, lanes))
    whole = b.fptosi(safe, vector_of(wide, lanes))
    return b.select(inside, whole, splat_constant(wide, -(1 << (wide.width - 1)), lanes))


def _to_odd_single(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A float64 rounded to float32 "to odd": rounding that to a half type gives what rounding once would."""
    single = b.fptrunc(value, vector_of(FLOAT, lanes))
    error = b.fsub(value, b.fpext(single, vector_of(DOUBLE, lanes)))
    bits = b.bitcast(single, vector_of(I32, lanes))
    zero, one = splat_constant(I32, 0, lanes), splat_constant(I32, 1, lanes)
    inexact = b.fcmp_ordered("!=", error, splat_constant(DOUBLE, 0.0, lanes))
    even = b.icmp_unsigned("==", b.and_(bits, one), zero)
    error_bits = b.bitcast(error, vector_of(I64, lanes))
    error_negative = b.icmp_signed("<", error_bits, splat_constant(I64, 0, lanes))
    outward = b.icmp_unsigned("==", error_negative, b.icmp_signed("<", bits, zero))
    moved = b.add(bits, b.select(outward, one, splat_constant(I32, -1, lanes)))
    return b.bitcast(b.select(b.and_(inexact, even), moved, bits), vector_of(FLOAT, lanes))
