"""Functions that kernel source calls for what Python's operators and libdevice don't say, in the same language.

They are ordinary Python on NumPy scalars here, and so may be tried and tested; for a device the toolchain compiles the
same code, inlined, with Numba's types in place of the stand-ins. Nothing has an undefined result for any operand:
integer division guards 0 (gives 0) and the smallest integer over -1 (wraps), shifts by the width or more give 0 (or the
sign), and conversions are total, as on the CPU. Results of integer functions are wrapped to their type by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .stand_ins import f16, f32, f64, i32, i64, libdevice, u16, u32, u64

Scalar = Any


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller, or NaN if either is."""
    return a if a != a or a < b else b


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger, or NaN if either is."""
    return a if a != a or a > b else b


def magnitude(x: Scalar) -> Scalar:
    """|x| of an integer."""
    return -x if x < 0 else x


def quotient(a: Scalar, b: Scalar) -> Scalar:
    """`a / b` of int64 that are not negative, as places in loops are: the quick way."""
    return i64(u64(a) // u64(b))


def divide(a: Scalar, b: Scalar) -> Scalar:
    """Integer division towards zero."""
    divisor = 1 if b == 0 or b == -1 else b
    whole = a // divisor
    towards_zero = whole + 1 if whole < 0 and whole * divisor != a else whole
    return 0 if b == 0 else -a if b == -1 else towards_zero


def remainder(a: Scalar, b: Scalar) -> Scalar:
    """The remainder of `divide`, with the sign of `a`."""
    divisor = 1 if b == 0 or b == -1 else b
    whole = a // divisor
    rest = a - whole * divisor
    return rest - divisor if rest != 0 and (rest < 0) != (a < 0) else rest


def shift_left(a: Scalar, bits: Scalar, width: Scalar) -> Scalar:
    """`a << bits` in a type of `width` bits."""
    return a << bits if 0 <= bits < width else a - a


def shift_right(a: Scalar, bits: Scalar, width: Scalar) -> Scalar:
    """`a >> bits`: what comes in is the sign."""
    return a >> (bits if 0 <= bits < width else width - 1)


def shift_right_unsigned(a: Scalar, bits: Scalar, width: Scalar) -> Scalar:
    """`a >> bits` of an unsigned type: zeros come in."""
    return a >> bits if 0 <= bits < width else a - a


def to_i32(x: Scalar) -> Scalar:
    """A float truncated to int32; NaN and what is out of range give the smallest int32."""
    return i32(x) if -2147483649.0 < x < 2147483648.0 else i32(-2147483648)


def to_i64(x: Scalar) -> Scalar:
    """A float truncated to int64; NaN and what is out of range give the smallest int64."""
    return i64(x) if -9223372036854775808.0 <= x < 9223372036854775808.0 else i64(-9223372036854775807 - 1)


def to_u64(x: Scalar) -> Scalar:
    """A float truncated to uint64, as int64 where it is below 2**63; what is out of range gives 2**63 or 0."""
    upper = x >= 9223372036854775808.0
    near = x - 9223372036854775808.0 if upper else x
    whole = i64(near) if -9223372036854775808.0 <= near < 9223372036854775808.0 else i64(-9223372036854775807 - 1)
    return u64(whole ^ i64(-9223372036854775807 - 1)) if upper else u64(whole)


def to_odd(x: Scalar) -> Scalar:
    """A float64 rounded to float32 "to odd": rounding that to a half type gives what rounding once would."""
    single = f32(x)
    error = x - f64(single)
    bits = i64(libdevice.float_as_int(single))
    outward = bits + 1 if (error < 0.0) == (bits < 0) else bits - 1
    inexact = error == error and error != 0.0
    return libdevice.int_as_float(i32(outward if inexact and (bits & 1) == 0 else bits))


def round_f16(x: Scalar) -> Scalar:
    """A float32 rounded to the nearest float16, ties to even."""
    return f32(f16(x))


def round_bf16(x: Scalar) -> Scalar:
    """A float32 rounded to the nearest bfloat16, ties to even."""
    bits = i64(libdevice.float_as_int(x))
    rounded = bits + 32767 + ((bits >> 16) & 1)
    return libdevice.int_as_float(i32((rounded if x == x else bits | 4194304) & -65536))


def load_bf16(bits: Scalar) -> Scalar:
    """The float32 of the 16 bits of a bfloat16."""
    return libdevice.int_as_float(i32(u32(bits) << 16))


def store_bf16(x: Scalar) -> Scalar:
    """The 16 bits of a float32 that is a bfloat16."""
    return u16(libdevice.float_as_int(x) >> 16)


def bits_of_f16(x: Scalar) -> Scalar:
    """The 16 bits of a float32 that is a float16, as int16."""
    return libdevice.float2half_rn(x)


def f16_of_bits(bits: Scalar) -> Scalar:
    """The float32 of the 16 bits of a float16."""
    return libdevice.half2float(bits)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    f.__name__: f
    for f in (
        minimum, maximum, magnitude, quotient, divide, remainder, shift_left, shift_right, shift_right_unsigned,
        to_i32, to_i64, to_u64, to_odd, round_f16, round_bf16, load_bf16, store_bf16, bits_of_f16, f16_of_bits,
    )
}  # fmt: skip
"""All of them, by name; none calls another."""
