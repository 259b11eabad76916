"""The scalar language's closed core as LLVM instructions, on one lane or on a vector of lanes.

No instruction has undefined results for any operand: integer division guards 0 (gives 0) and the smallest integer
over -1 (wraps), shifts by the width or more give 0 (or the sign), conversions are total. No fast-math but `contract`,
and that only where the caller allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Arg, Const, Expr, Fn, Number

from . import emit_convert as conv
from . import emit_types as types
from . import llvm_ir as ir
from .emit_scale import scale
from .emit_types import register_type, splat_constant

Values: TypeAlias = Sequence[ir.Value]
_COMPARE: Final = {Fn.EQ: "==", Fn.NE: "!=", Fn.LT: "<", Fn.LE: "<=", Fn.GT: ">", Fn.GE: ">="}
_FLOAT_INTRINSIC: Final = {
    Fn.SQRT: "sqrt", Fn.FLOOR: "floor", Fn.CEIL: "ceil", Fn.TRUNC: "trunc", Fn.ROUND: "roundeven", Fn.ABS: "fabs",
    Fn.FMA: "fma", Fn.COPYSIGN: "copysign",
}  # fmt: skip
_EXACT_ON_HALVES: Final = frozenset(
    {Fn.NEG, Fn.ABS, Fn.MIN, Fn.MAX, Fn.FLOOR, Fn.CEIL, Fn.TRUNC, Fn.ROUND, Fn.COPYSIGN, Fn.SELECT}
)


def intrinsic(b: ir.IRBuilder, name: str, result: ir.Type, args: Values) -> ir.Value:
    """A call of the LLVM intrinsic of that full name, declared on first use."""
    return b.call(b.module.declared(name, ir.FunctionType(result, [a.type for a in args])), args)


def type_suffix(type_: ir.Type) -> str:
    """How intrinsic names spell a type: `v16f32`."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{type_suffix(type_.element)}"
    if isinstance(type_, ir.IntType):
        return f"i{type_.width}"
    return {ir.HalfType: "f16", ir.FloatType: "f32", ir.DoubleType: "f64"}[type(type_)]


def constant(value: Number, dtype: DType, lanes: int) -> ir.Constant:
    """A literal of `dtype` in register form."""
    element = register_type(dtype, 1)
    if dtype.is_floating_point:
        return splat_constant(element, float(dtype.np.type(value)), lanes)
    return splat_constant(element, int(value), lanes)


def emit_fn(
    b: ir.IRBuilder, fn: Fn, operand: DType, result: DType, args: Values, lanes: int, contract: bool
) -> ir.Value:
    """`fn` of register values of dtype `operand` (a select's and a shift's first value operand)."""
    if fn in _COMPARE:
        return _compare(b, fn, operand, args)
    if fn is Fn.SELECT:
        return b.select(*args)
    if fn is Fn.CONVERT:
        return conv.convert(b, args[0], operand, result, lanes)
    if fn is Fn.BITCAST:
        return _bitcast(b, args[0], operand, result, lanes)
    if operand.is_floating_point:
        if fn is Fn.SCALE:
            return scale(b, args[0], args[1], operand, lanes, one_instruction=False)
        half = operand in types.HALF_TYPES
        value = _float(b, fn, args, contract and not half)
        rounds = half and fn not in _EXACT_ON_HALVES
        return conv.round_to_half(b, value, operand, lanes) if rounds else value
    if operand is dtypes.bool_:
        return _boolean(b, fn, args, lanes)
    return _integer(b, fn, operand, args, lanes)


def emit_closed(
    b: ir.IRBuilder, nodes: Iterable[Expr], args: Values, lanes: int, scales: bool = False
) -> dict[Expr, ir.Value]:
    """The values of `nodes`, operands before users, which are made of `args`, literals and the closed core alone.

    `scales`: as in `EmitOptions`.
    """
    values: dict[Expr, ir.Value] = {}
    for e in nodes:
        if isinstance(e, Arg):
            values[e] = args[e.index]
        elif isinstance(e, Const):
            values[e] = constant(e.value, e.dtype, lanes)
        elif e.fn is None:
            raise InternalError(f"leaf {e!r} in a closed expression")
        else:
            operand = e.args[1 if e.fn is Fn.SELECT else 0].dtype
            inner = [values[a] for a in e.args]
            if e.fn is Fn.SCALE:
                values[e] = scale(b, inner[0], inner[1], operand, lanes, scales)
                continue
            values[e] = emit_fn(b, e.fn, operand, e.dtype, inner, lanes, contract=False)
    return values


def _compare(b: ir.IRBuilder, fn: Fn, operand: DType, args: Values) -> ir.Value:
    sign = _COMPARE[fn]
    if operand.is_floating_point:
        compare = b.fcmp_unordered if fn is Fn.NE else b.fcmp_ordered
    else:
        compare = b.icmp_signed if operand.is_signed else b.icmp_unsigned
    return compare(sign, args[0], args[1])


def _bitcast(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType, lanes: int) -> ir.Value:
    bits = b.bitcast(conv.to_memory(b, value, source, lanes), types.memory_type(target, lanes))
    return conv.from_memory(b, bits, target, lanes)


def _float(b: ir.IRBuilder, fn: Fn, args: Values, contract: bool) -> ir.Value:
    flags = ("contract",) if contract else ()
    if fn in _FLOAT_INTRINSIC:
        kind = args[0].type
        return intrinsic(b, f"llvm.{_FLOAT_INTRINSIC[fn]}.{type_suffix(kind)}", kind, args)
    match fn:
        case Fn.ADD:
            return b.fadd(*args, flags=flags)
        case Fn.SUB:
            return b.fsub(*args, flags=flags)
        case Fn.MUL:
            return b.fmul(*args, flags=flags)
        case Fn.DIV:
            return b.fdiv(*args)
        case Fn.REM:
            return b.frem(*args)
        case Fn.NEG:
            return b.fneg(*args)
        case Fn.MIN | Fn.MAX:  # the first if it is NaN; the second if it is NaN, as the comparison fails
            first, second = args
            better = b.select(b.fcmp_ordered("<" if fn is Fn.MIN else ">", first, second), first, second)
            better = b.freeze(better)  # an instruction of its own, where LLVM would make one choice of both by three
            return b.select(b.fcmp_unordered("uno", first, first), first, better)
    raise InternalError(f"no LLVM form for {fn} on floats")


def _boolean(b: ir.IRBuilder, fn: Fn, args: Values, lanes: int) -> ir.Value:
    match fn:
        case Fn.AND | Fn.MUL | Fn.MIN:
            return b.and_(*args)
        case Fn.OR | Fn.ADD | Fn.MAX:
            return b.or_(*args)
        case Fn.XOR | Fn.SUB:
            return b.xor(*args)
        case Fn.NOT:
            return b.xor(args[0], splat_constant(types.I1, 1, lanes))
        case Fn.ABS:
            return args[0]
    raise InternalError(f"no LLVM form for {fn} on bool")


def _integer(b: ir.IRBuilder, fn: Fn, dtype: DType, args: Values, lanes: int) -> ir.Value:
    simple = _SIMPLE_INTEGER.get(fn)
    if simple is not None:
        return simple(b)(*args)
    zero = constant(0, dtype, lanes)
    match fn:
        case Fn.NEG:
            return b.sub(zero, args[0])
        case Fn.NOT:
            return b.xor(args[0], constant(-1 if dtype.is_signed else (1 << 8 * dtype.itemsize) - 1, dtype, lanes))
        case Fn.ABS:
            if not dtype.is_signed:
                return args[0]
            return b.select(b.icmp_signed("<", args[0], zero), b.sub(zero, args[0]), args[0])
        case Fn.FMA:
            return b.add(b.mul(args[0], args[1]), args[2])
        case Fn.MIN | Fn.MAX:
            compare = b.icmp_signed if dtype.is_signed else b.icmp_unsigned
            return b.select(compare("<" if fn is Fn.MIN else ">", *args), *args)
        case Fn.SHL | Fn.SHR | Fn.LSHR:
            return _shift(b, fn, dtype, args, lanes)
        case Fn.DIV | Fn.REM:
            return _divide(b, fn, dtype, args, lanes)
        case Fn.FLOOR | Fn.CEIL | Fn.TRUNC | Fn.ROUND:
            return args[0]
    raise InternalError(f"no LLVM form for {fn} on {dtype}")


_SIMPLE_INTEGER: Final[dict[Fn, Callable[[ir.IRBuilder], Callable[..., ir.Value]]]] = {
    Fn.ADD: lambda b: b.add, Fn.SUB: lambda b: b.sub, Fn.MUL: lambda b: b.mul,
    Fn.AND: lambda b: b.and_, Fn.OR: lambda b: b.or_, Fn.XOR: lambda b: b.xor,
}  # fmt: skip


def _literal(value: ir.Value) -> int | None:
    """The number a constant holds in every lane, if it is one."""
    literal = value.literal if isinstance(value, ir.Constant) else None
    return literal if isinstance(literal, int) else None


def _shift(b: ir.IRBuilder, fn: Fn, dtype: DType, args: Values, lanes: int) -> ir.Value:
    value, count = args
    width = 8 * dtype.itemsize
    arithmetic = fn is Fn.SHR and dtype.is_signed
    shift = b.shl if fn is Fn.SHL else b.ashr if arithmetic else b.lshr
    literal = _literal(count)
    if literal is not None and 0 <= literal < width:
        return shift(value, count)
    last = constant(width - 1, dtype, lanes)
    fits = b.icmp_unsigned("<=", count, last)
    shifted = shift(value, b.select(fits, count, last))
    return shifted if arithmetic else b.select(fits, shifted, constant(0, dtype, lanes))


def _divide(b: ir.IRBuilder, fn: Fn, dtype: DType, args: Values, lanes: int, in_float: bool = False) -> ir.Value:
    value, divisor = args

    def operation(x: ir.Value, y: ir.Value) -> ir.Value:
        if in_float:
            return _divide_in_float(b, fn, dtype, x, y, lanes)
        if dtype.is_signed:
            return b.sdiv(x, y) if fn is Fn.DIV else b.srem(x, y)
        return b.udiv(x, y) if fn is Fn.DIV else b.urem(x, y)

    literal = _literal(divisor)
    if literal is not None and literal not in (0, -1):
        return operation(value, divisor)
    zero, one = constant(0, dtype, lanes), constant(1, dtype, lanes)
    is_zero = b.icmp_unsigned("==", divisor, zero)
    if not dtype.is_signed:
        return b.select(is_zero, zero, operation(value, b.select(is_zero, one, divisor)))
    is_minus = b.icmp_unsigned("==", divisor, constant(-1, dtype, lanes))
    outcome = operation(value, b.select(b.or_(is_zero, is_minus), one, divisor))
    if fn is Fn.DIV:
        outcome = b.select(is_minus, b.sub(zero, value), outcome)
    return b.select(is_zero, zero, outcome)


def divide_lanes(b: ir.IRBuilder, fn: Fn, dtype: DType, args: Values, lanes: int) -> ir.Value:
    """Integer DIV or REM of vectors whose values are below 2**53 in magnitude, by way of float64.

    Machines divide vectors of floats, but integers one at a time. The quotient of such integers, rounded to float64,
    never crosses an integer, so that truncating it is exact.
    """
    return _divide(b, fn, dtype, args, lanes, in_float=True)


def _divide_in_float(b: ir.IRBuilder, fn: Fn, dtype: DType, value: ir.Value, divisor: ir.Value, lanes: int) -> ir.Value:
    wide, kind = register_type(dtypes.float64, lanes), value.type
    up, down = (b.sitofp, b.fptosi) if dtype.is_signed else (b.uitofp, b.fptoui)
    quotient = down(b.fdiv(up(value, wide), up(divisor, wide)), kind)
    return quotient if fn is Fn.DIV else b.sub(value, b.mul(quotient, divisor))
