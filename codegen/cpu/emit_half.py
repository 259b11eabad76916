"""float16 bits from and to float32, by the machine's instructions or, where it has none, with integer arithmetic.

The integer forms are Fabian Giesen's (public domain, 2012): rounding to nearest even, denormals, infinities, NaN.
"""

from __future__ import annotations

from . import llvm_ir as ir
from .emit_types import FLOAT, HALF, I16, I32, splat_constant, vector_of
from .target import host


def widen_half(b: ir.IRBuilder, bits: ir.Value, lanes: int) -> ir.Value:
    """The float32 of the 16 bits of a float16."""
    if host().half_conversions:
        return b.fpext(b.bitcast(bits, vector_of(HALF, lanes)), vector_of(FLOAT, lanes))

    def number(value: int) -> ir.Constant:
        return splat_constant(I32, value, lanes)

    wide = b.zext(bits, vector_of(I32, lanes))
    magnitude = b.shl(b.and_(wide, number(0x7FFF)), number(13))
    scaled = b.fmul(b.bitcast(magnitude, vector_of(FLOAT, lanes)), splat_constant(FLOAT, 2.0**112, lanes))
    special = b.or_(magnitude, number(0x7F800000))
    finite = b.icmp_signed("<", magnitude, number(0x7C00 << 13))
    value = b.select(finite, b.bitcast(scaled, vector_of(I32, lanes)), special)
    sign = b.shl(b.and_(wide, number(0x8000)), number(16))
    return b.bitcast(b.or_(value, sign), vector_of(FLOAT, lanes))


def narrow_to_half(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """The 16 bits of the float16 nearest to a float32, ties to even."""
    if host().half_conversions:
        return b.bitcast(b.fptrunc(value, vector_of(HALF, lanes)), vector_of(I16, lanes))

    def number(value: int) -> ir.Constant:
        return splat_constant(I32, value, lanes)

    bits = b.bitcast(value, vector_of(I32, lanes))
    magnitude = b.and_(bits, number(0x7FFFFFFF))
    odd = b.and_(b.lshr(magnitude, number(13)), number(1))
    normal = b.lshr(b.add(b.add(magnitude, number(0xFFF - (112 << 23))), odd), number(13))
    half = splat_constant(FLOAT, 0.5, lanes)
    shifted = b.fadd(b.bitcast(magnitude, vector_of(FLOAT, lanes)), half)
    denormal = b.sub(b.bitcast(shifted, vector_of(I32, lanes)), number(0x3F000000))
    nan = b.icmp_signed(">", magnitude, number(0x7F800000))
    special = b.select(nan, number(0x7E00), number(0x7C00))
    result = b.select(b.icmp_signed("<", magnitude, number(113 << 23)), denormal, normal)
    result = b.select(b.icmp_signed(">=", magnitude, number((127 + 16) << 23)), special, result)
    sign = b.and_(b.lshr(bits, number(16)), number(0x8000))
    return b.trunc(b.or_(result, sign), vector_of(I16, lanes))
