"""Loops of single ops over few elements, one element after the other: what eager code computes natively.

Only ops are here that are one instruction, or a comparison and a choice, and round as NumPy's functions do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops.activation import Relu
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Mul, Neg, Sub
from jitgrad.ir.ops.comparison import Eq, Ge, Gt, Le, Lt, Ne

from . import llvm_ir as ir
from .cells import I8, I64, PTR, Counted

LOOP_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, I64, I64, I64])  # x, y, out, count, steps of x and y
TYPES: Final = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
Build = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


def _arithmetic(name: str) -> Build:
    return lambda b, x, y: getattr(b, name)(x, y)


def _ordered(sign: str) -> Build:
    return lambda b, x, y: b.zext(b.fcmp_ordered(sign, x, y), I8)


def _relu(b: ir.IRBuilder, x: ir.Value, _: ir.Value) -> ir.Value:
    """NaN stays NaN; both zeros give 0."""
    return b.select(b.fcmp_ordered("<=", x, x.type(0.0)), x.type(0.0), x)


def _abs(b: ir.IRBuilder, x: ir.Value, _: ir.Value) -> ir.Value:
    bits = ir.IntType(32 if x.type is TYPES["f32"] else 64)
    return b.bitcast(b.lshr(b.shl(b.bitcast(x, bits), bits(1)), bits(1)), x.type)


_BUILDS: Final[dict[type[Pointwise], Build]] = {
    Add: _arithmetic("fadd"),
    Sub: _arithmetic("fsub"),
    Mul: _arithmetic("fmul"),
    Div: _arithmetic("fdiv"),
    Neg: lambda b, x, _: b.fneg(x),
    Abs: _abs,
    Relu: _relu,
    Eq: _ordered("=="),
    Ne: lambda b, x, y: b.zext(b.fcmp_unordered("!=", x, y), I8),
    Lt: _ordered("<"),
    Le: _ordered("<="),
    Gt: _ordered(">"),
    Ge: _ordered(">="),
}


def loop_name(op: object, dtype: str) -> str | None:
    """The symbol of an op's loop on elements of a type; None if there is none."""
    return f"jitgrad_loop_{type(op).__name__}_{dtype}" if type(op) in _BUILDS else None


def build_loops(module: ir.Module) -> None:
    """All of them, as functions of `LOOP_TYPE`."""
    for kind, build in _BUILDS.items():
        for dtype, type_ in TYPES.items():
            _build_loop(module, f"jitgrad_loop_{kind.__name__}_{dtype}", type_, build)


def _build_loop(module: ir.Module, name: str, type_: ir.Type, build: Build) -> None:
    function = ir.Function(module, LOOP_TYPE, name)
    x, y, out, count, step_x, step_y = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def load(base: ir.Value, place: ir.Value) -> ir.Value:
        return b.load(b.gep(base, [place], source_etype=type_), typ=type_)

    with Counted(function, b, count, "element") as k:
        value = build(b, load(x, b.mul(k, step_x)), load(y, b.mul(k, step_y)))
        b.store(value, b.gep(out, [k], source_etype=value.type))
    b.ret_void()
