"""`x * 2**n` in LLVM: one instruction where the machine has it, else two multiplications."""

from __future__ import annotations

from jitgrad.ir.dtypes import DType

from ..mathlib.formats import FLOAT32, FLOAT64
from . import llvm_ir as ir
from .emit_types import I8, I16, I32, lane_order, register_type, splat_constant, undefined

_WIDEST = 512


def scale(b: ir.IRBuilder, x: ir.Value, n: ir.Value, dtype: DType, lanes: int, one_instruction: bool) -> ir.Value:
    """`x * 2**n` rounded once, for a whole `n`. `one_instruction`: the machine has AVX-512's `vscalef`."""
    bits = lanes * 8 * dtype.itemsize
    if one_instruction and bits > _WIDEST:
        return _halves(b, x, n, dtype, lanes)
    if one_instruction and bits in (128, 256, _WIDEST):
        return _scalef(b, x, n, "ps" if dtype.itemsize == 4 else "pd", bits)
    fmt = FLOAT64 if dtype.itemsize == 8 else FLOAT32
    integer = register_type(fmt.integer, lanes)

    def number(value: int) -> ir.Value:
        return splat_constant(register_type(fmt.integer, 1), value, lanes)

    def power(exponent: ir.Value) -> ir.Value:
        shifted = b.shl(exponent, number(fmt.mantissa))
        return b.bitcast(b.add(shifted, number(fmt.bias << fmt.mantissa)), x.type)

    magic = splat_constant(register_type(dtype, 1), fmt.magic, lanes)
    whole = b.sub(b.bitcast(b.fadd(n, magic), integer), number(fmt.magic_bits))
    half = b.ashr(whole, number(1))
    return b.fmul(b.fmul(x, power(half)), power(b.sub(whole, half)))


def _halves(b: ir.IRBuilder, x: ir.Value, n: ir.Value, dtype: DType, lanes: int) -> ir.Value:
    """Two registers, one after the other."""
    orders = [lane_order(tuple(range(start, start + lanes // 2))) for start in (0, lanes // 2)]
    parts = [[b.shuffle_vector(v, undefined(v.type), order) for v in (x, n)] for order in orders]
    low, high = (scale(b, value, place, dtype, lanes // 2, True) for value, place in parts)
    return b.shuffle_vector(low, high, lane_order(tuple(range(lanes))))


def _scalef(b: ir.IRBuilder, x: ir.Value, n: ir.Value, kind: str, bits: int) -> ir.Value:
    """The instruction on all lanes, rounding as usual."""
    mask_type = I16 if x.type.count == 16 else I8
    args = [x, n, x, splat_constant(mask_type, -1, 1)]
    if bits == _WIDEST:
        args.append(I32(4))
    name = f"llvm.x86.avx512.mask.scalef.{kind}.{bits}"
    return b.call(b.module.declared(name, ir.FunctionType(x.type, [a.type for a in args])), args)
