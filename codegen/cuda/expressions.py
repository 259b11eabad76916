"""The scalar language as Python source: one function or operator for each `Fn` and type.

Numba widens integers as it computes, so that each result is wrapped to its own type by a conversion. Half types are
float32 values that are rounded after each operation, as on the CPU, so that fused code gives the bits of separate ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import COMPARISONS, MATH, Const, Expr, Fn

from .memory import HALF_TYPES, register_name

Texts = Sequence[str]

LIBDEVICE: Final = frozenset(
    {
        Fn.EXP, Fn.EXPM1, Fn.LOG, Fn.LOG1P, Fn.LOG2, Fn.SIN, Fn.COS, Fn.TAN, Fn.ASIN, Fn.ACOS, Fn.ATAN, Fn.ATAN2,
        Fn.SINH, Fn.COSH, Fn.TANH, Fn.ERF, Fn.ERFC, Fn.POW, Fn.LGAMMA,
    }
)  # fmt: skip
"""Mathematical functions that libdevice has under the same name; others are expanded by `mathlib`."""

_FLOAT_CALL: Final = {
    **{fn: fn.value for fn in LIBDEVICE}, Fn.REM: "fmod", Fn.SQRT: "sqrt", Fn.FLOOR: "floor", Fn.CEIL: "ceil",
    Fn.TRUNC: "trunc", Fn.ROUND: "rint", Fn.ABS: "fabs", Fn.COPYSIGN: "copysign", Fn.FMA: "fma",
}  # fmt: skip
_INFIX: Final = {Fn.ADD: "+", Fn.SUB: "-", Fn.MUL: "*", Fn.DIV: "/"}
_ROUNDED: Final = {
    (Fn.ADD, "f32"): "fadd_rn", (Fn.SUB, "f32"): "fsub_rn", (Fn.MUL, "f32"): "fmul_rn",
    (Fn.ADD, "f64"): "dadd_rn", (Fn.MUL, "f64"): "dmul_rn",
}  # fmt: skip
"""Operations that are never contracted to an fma, for strict numerics."""
_BITWISE: Final = {Fn.AND: "&", Fn.OR: "|", Fn.XOR: "^"}
_BOOLEAN: Final = {
    Fn.AND: "&", Fn.MUL: "&", Fn.MIN: "&", Fn.OR: "|", Fn.ADD: "|", Fn.MAX: "|", Fn.XOR: "^", Fn.SUB: "^",
}  # fmt: skip
_EXACT_ON_HALVES: Final = frozenset(
    {Fn.NEG, Fn.ABS, Fn.MIN, Fn.MAX, Fn.FLOOR, Fn.CEIL, Fn.TRUNC, Fn.ROUND, Fn.COPYSIGN, Fn.SELECT}
)
_UNSIGNED: Final = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64", **{k: k for k in ("u8", "u16", "u32", "u64")}}
_UNCHANGED_INTEGER: Final = frozenset({Fn.FLOOR, Fn.CEIL, Fn.TRUNC, Fn.ROUND})


def needs_expansion(expr: Expr) -> bool:
    """Whether `expr` is a mathematical function that is not libdevice's."""
    return expr.fn in MATH and expr.fn not in LIBDEVICE


def literal(expr: Const) -> str:
    """A number of the kernel's structure."""
    value, dtype = expr.value, expr.dtype
    if dtype is dtypes.bool_:
        return str(bool(value))
    if dtype is dtypes.int64:
        return _integer(int(value))
    if not dtype.is_floating_point:
        return f"{dtype.short}({_integer(int(value))})"
    number = float(dtype.np.type(value))
    text = "NAN" if number != number else {math.inf: "INFINITY", -math.inf: "-INFINITY"}.get(number, repr(number))
    return f"{register_name(dtype)}({text})"


def _integer(value: int) -> str:
    if value == -(1 << 63):
        return "(-9223372036854775807 - 1)"
    return str(value) if value >= 0 else f"({value})"


def operation(expr: Expr, args: Texts, strict: bool, place: bool) -> str:
    """The text of `expr` given those of its arguments. `place` says that an int64 division is of places in loops."""
    fn, result = expr.fn, expr.dtype
    assert fn is not None
    if fn is Fn.SELECT:
        condition = args[0] if expr.args[0].fn is Fn.SELECT else bare(args[0])
        return f"({args[1]} if {condition} else {args[2]})"
    args = _without_parentheses(expr, fn, args)
    operand = expr.args[0].dtype
    if fn in COMPARISONS:
        return _comparison(fn, operand, args)
    if fn is Fn.CONVERT:
        return conversion(args[0], operand, result)
    if fn is Fn.BITCAST:
        return _bitcast(args[0], operand, result)
    if operand.is_floating_point:
        text = _float(fn, register_name(operand), args, strict and operand not in HALF_TYPES)
        return rounded(text, operand) if operand in HALF_TYPES and fn not in _EXACT_ON_HALVES else text
    if operand is dtypes.bool_:
        return _boolean(fn, args)
    return _integer_operation(expr, fn, operand, args, place)


def _without_parentheses(expr: Expr, fn: Fn, args: Texts) -> Texts:
    """The arguments as they may stand: bare in a call, and where an operator binds tighter or groups to the left."""
    operand = expr.args[0].dtype
    calls = (Fn.MIN, Fn.MAX, *(_FLOAT_CALL if operand.is_floating_point else (Fn.DIV, Fn.REM)))
    if fn in calls and operand is not dtypes.bool_:
        return [bare(a) for a in args]
    if fn not in (Fn.ADD, Fn.SUB) or operand is dtypes.bool_:
        return args
    tighter = (Fn.MUL, Fn.DIV)
    left, right = (a.fn in tighter and a.dtype is expr.dtype for a in expr.args)
    left = left or (expr.args[0].fn in (Fn.ADD, Fn.SUB) and expr.args[0].dtype is expr.dtype)
    return [bare(a) if plain else a for a, plain in zip(args, (left, right))]


def rounded(text: str, half: DType) -> str:
    """A float32 rounded to a half type."""
    return f"round_{half.short}({bare(text)})"


def _comparison(fn: Fn, operand: DType, args: Texts) -> str:
    a, b = (f"u8({x})" for x in args) if operand is dtypes.bool_ else args
    return f"({a} {fn.value} {b})"


def _float(fn: Fn, register: str, args: Texts, strict: bool) -> str:
    suffix = "f" if register == "f32" else ""
    if strict and (fn, register) in _ROUNDED:
        return f"libdevice.{_ROUNDED[fn, register]}({', '.join(args)})"
    if strict and fn is Fn.SUB:
        return f"libdevice.dadd_rn({args[0]}, -{args[1]})"
    if fn in _INFIX:
        return f"({args[0]} {_INFIX[fn]} {args[1]})"
    if fn is Fn.SCALE:
        return f"libdevice.ldexp{suffix}({args[0]}, i32({args[1]}))"
    if fn in _FLOAT_CALL:
        return f"libdevice.{_FLOAT_CALL[fn]}{suffix}({', '.join(args)})"
    match fn:
        case Fn.NEG:
            return f"(-{args[0]})"
        case Fn.MIN:
            return f"minimum({args[0]}, {args[1]})"
        case Fn.MAX:
            return f"maximum({args[0]}, {args[1]})"
    raise InternalError(f"no CUDA form for {fn} on floats")


def _boolean(fn: Fn, args: Texts) -> str:
    if fn in _BOOLEAN:
        return f"({args[0]} {_BOOLEAN[fn]} {args[1]})"
    if fn is Fn.NOT:
        return f"(not {args[0]})"
    if fn in (Fn.ABS, *_UNCHANGED_INTEGER):
        return args[0]
    raise InternalError(f"no CUDA form for {fn} on bool")


def _integer_operation(expr: Expr, fn: Fn, dtype: DType, args: Texts, place: bool) -> str:
    if fn in _UNCHANGED_INTEGER or (fn is Fn.ABS and not dtype.is_signed):
        return args[0]
    if fn in (Fn.MIN, Fn.MAX):
        return f"{'minimum' if fn is Fn.MIN else 'maximum'}({args[0]}, {args[1]})"
    if place and fn is Fn.DIV:
        return f"quotient({args[0]}, {args[1]})"
    text = _integer_text(expr, fn, dtype, args)
    is_typed = text.startswith(f"{dtype.short}(") or (dtype is dtypes.int64 and text.startswith("("))
    return text if is_typed else f"{dtype.short}({bare(text)})"


def bare(text: str) -> str:
    """`text` without parentheses that go all around it."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 and text.startswith("(") else text
    return text


def _integer_text(expr: Expr, fn: Fn, dtype: DType, args: Texts) -> str:
    """The value before it is wrapped to its type; in parentheses where it is an operator's."""
    width = 8 * dtype.itemsize
    match fn:
        case Fn.ADD | Fn.SUB | Fn.MUL:
            return f"({args[0]} {fn.value} {args[1]})"
        case Fn.AND | Fn.OR | Fn.XOR:
            return f"({args[0]} {_BITWISE[fn]} {args[1]})"
        case Fn.NEG:
            return f"(-{args[0]})"
        case Fn.NOT:
            return f"(~{args[0]})"
        case Fn.ABS:
            return f"magnitude({args[0]})"
        case Fn.FMA:
            return f"({args[0]} * {args[1]} + {args[2]})"
        case Fn.DIV:
            return f"divide({args[0]}, {args[1]})"
        case Fn.REM:
            return f"remainder({args[0]}, {args[1]})"
        case Fn.SHL | Fn.SHR | Fn.LSHR:
            return _shift(expr, fn, dtype, args, width)
    raise InternalError(f"no CUDA form for {fn} on {dtype}")


def _shift(expr: Expr, fn: Fn, dtype: DType, args: Texts, width: int) -> str:
    count = expr.args[1]
    bits = int(count.value) if isinstance(count, Const) and not count.runtime else None
    direct = bits is not None and 0 <= bits < width
    if fn is Fn.SHL:
        return f"({args[0]} << {bits})" if direct else f"shift_left({args[0]}, {args[1]}, {width})"
    if fn is Fn.SHR and dtype.is_signed:
        return f"({args[0]} >> {bits})" if direct else f"shift_right({args[0]}, {args[1]}, {width})"
    unsigned = _UNSIGNED[dtype.short]
    if direct:
        return f"{dtype.short}({unsigned}({bare(args[0])}) >> {unsigned}({bits}))"
    return f"shift_right_unsigned({unsigned}({bare(args[0])}), {unsigned}({bare(args[1])}), {unsigned}({width}))"


def conversion(text: str, source: DType, target: DType) -> str:
    """A value of `source` as `target`."""
    if source is target:
        return text
    if target is dtypes.bool_:
        zero = f"{register_name(source)}(0.0)" if source.is_floating_point else "0"
        return f"({text} != {zero})"
    if source is dtypes.bool_:
        text = f"u8({bare(text)})"
    if not source.is_floating_point:
        return _from_integer(text, source, target)
    if not target.is_floating_point:
        if target is dtypes.uint64:
            return f"to_u64({bare(text)})"
        wide = "to_i64" if target in (dtypes.int64, dtypes.uint32) else "to_i32"
        whole = f"{wide}({bare(text)})"
        return whole if target in (dtypes.int64, dtypes.int32) else f"{target.short}({whole})"
    if target in HALF_TYPES:
        return rounded(f"to_odd({bare(text)})" if source is dtypes.float64 else bare(text), target)
    return text if register_name(source) == target.short else f"{target.short}({bare(text)})"


def _from_integer(text: str, source: DType, target: DType) -> str:
    if target in HALF_TYPES:
        single = f"f32({bare(text)})" if source.itemsize <= 2 else f"to_odd(f64({bare(text)}))"
        return rounded(single, target)
    return f"{target.short}({bare(text)})"


def _bitcast(text: str, source: DType, target: DType) -> str:
    bits, kind = _to_bits(text, source)
    if kind == target.short or (target is dtypes.bool_ and kind == "u8"):
        return bits if target is not dtypes.bool_ else f"({bits} != 0)"
    return _from_bits(bits, target)


def _to_bits(text: str, source: DType) -> tuple[str, str]:
    """The bits of a value as an integer, and that integer's type."""
    match source:
        case dtypes.float32:
            return f"libdevice.float_as_int({bare(text)})", "i32"
        case dtypes.float64:
            return f"libdevice.double_as_longlong({bare(text)})", "i64"
        case dtypes.float16:
            return f"i16(bits_of_f16({bare(text)}))", "i16"
        case dtypes.bfloat16:
            return f"i16(store_bf16({bare(text)}))", "i16"
        case dtypes.bool_:
            return f"u8({bare(text)})", "u8"
    return text, source.short


def _from_bits(bits: str, target: DType) -> str:
    match target:
        case dtypes.float32:
            return f"libdevice.int_as_float({bare(bits)})"
        case dtypes.float64:
            return f"libdevice.longlong_as_double({bare(bits)})"
        case dtypes.float16:
            return f"f16_of_bits({bare(bits)})"
        case dtypes.bfloat16:
            return f"load_bf16(u16({bare(bits)}))"
        case dtypes.bool_:
            return f"({bits} != 0)"
    return f"{target.short}({bare(bits)})"


def loaded(text: str, dtype: DType) -> str:
    """The register form of an element in memory."""
    match dtype:
        case dtypes.bool_:
            return f"({text} != 0)"
        case dtypes.float16:
            return f"f32({text})"
        case dtypes.bfloat16:
            return f"load_bf16({text})"
    return text


def stored(text: str, dtype: DType) -> str:
    """The memory form of a value."""
    match dtype:
        case dtypes.bool_:
            return f"u8({bare(text)})"
        case dtypes.float16:
            return f"f16({bare(text)})"
        case dtypes.bfloat16:
            return f"store_bf16({bare(text)})"
    return bare(text)
