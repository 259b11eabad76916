"""Mathematical functions as functions of the module, one per function, type and number of lanes; LLVM inlines them.

Random words are one, too, which LLVM does not: keys stay in registers there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jitgrad.ir import scalar
from jitgrad.ir.dtypes import DType, int64
from jitgrad.ir.ops.random import first_word
from jitgrad.ir.scalar import Arg, Expr, Fn

from .. import mathlib
from ..loops import walk
from . import llvm_ir as ir
from .emit_scalar import Values, emit_closed, intrinsic, type_suffix
from .emit_types import I64, register_type, splat, splat_constant


def math_function(module: ir.Module, fn: Fn, dtype: DType, lanes: int, scales: bool) -> ir.Function:
    """The module's own `fn` on `lanes` values of float32 or float64, emitted on first use. `scales`: `EmitOptions`'."""
    name = f"{fn.value}.{dtype.short}x{lanes}"
    found = module.globals.get(name)
    if found is not None:
        return found
    kind, expansion = register_type(dtype, lanes), mathlib.expand(fn, dtype)
    arity = sum(isinstance(e, Arg) for e in expansion.nodes)
    function = _internal(module, name, kind, [kind] * arity)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    values = emit_closed(b, expansion.nodes, function.args, lanes, scales)
    result = values[expansion.value]
    if expansion.beyond is None:
        b.ret(result)
    else:
        _call_library_beyond(b, fn, values[expansion.beyond], result, function.args, lanes)
    return function


def random_word(module: ir.Module, lanes: int) -> ir.Function:
    """The module's own function of a seed and counters, <lanes x i64>, that gives the first words of Philox."""
    name = f"random_word.x{lanes}"
    found = module.globals.get(name)
    if found is not None:
        return found
    kind = register_type(int64, lanes)
    function = _internal(module, name, kind, [I64, kind])
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    nodes, (seed, counters) = _nodes_of_a_random_word(), function.args
    b.ret(emit_closed(b, nodes, [splat(b, seed, lanes), counters], lanes)[nodes[-1]])
    return function


@functools.cache
def _nodes_of_a_random_word() -> tuple[Expr, ...]:
    return tuple(walk.postorder([first_word(*(scalar.arg(i, int64) for i in range(2)))]))


def _internal(module: ir.Module, name: str, kind: ir.Type, operands: Sequence[ir.Type]) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(kind, operands), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    return function


def _call_library_beyond(
    b: ir.IRBuilder, fn: Fn, beyond: ir.Value, result: ir.Value, args: tuple[ir.Value, ...], lanes: int
) -> None:
    """Return `result`, corrected by the C library in the lanes where `beyond` holds, if there are any."""
    function, start = b.function, b.block
    slow, leave = b.append_basic_block("beyond"), b.append_basic_block("leave")
    some = beyond
    if lanes > 1:
        bits = b.bitcast(beyond, ir.IntType(lanes))
        some = b.icmp_unsigned("!=", bits, splat_constant(bits.type, 0, 1))
    b.cbranch(some, slow, leave)
    b.position_at_end(slow)
    library = _library_function(b.module, f"{function.name}.library", fn, result.type, len(args), lanes)
    corrected = b.select(beyond, b.call(library, args), result)
    b.branch(leave)
    b.position_at_end(leave)
    merged = b.phi(result.type)
    merged.add_incoming(result, start)
    merged.add_incoming(corrected, slow)
    b.ret(merged)


def _library_function(module: ir.Module, name: str, fn: Fn, kind: ir.Type, arity: int, lanes: int) -> ir.Function:
    """The C library's `fn` on every lane, in a loop; never inlined, as it hardly ever runs."""
    function = _internal(module, name, kind, [kind] * arity)
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    if lanes == 1:
        b.ret(_library_call(b, fn, function.args))
        return function
    cells = [b.alloca(kind) for _ in function.args]
    for argument, cell in zip(function.args, cells):
        b.store(argument, cell)
    entry, body, leave = b.block, b.append_basic_block("lane"), b.append_basic_block("leave")
    b.branch(body)
    b.position_at_end(body)
    lane = b.phi(I64)
    lane.add_incoming(I64(0), entry)
    places = [b.gep(cell, [lane], source_etype=kind.element) for cell in cells]
    b.store(_library_call(b, fn, [b.load(p, typ=kind.element) for p in places]), places[0])
    following = b.add(lane, I64(1))
    lane.add_incoming(following, body)
    b.cbranch(b.icmp_unsigned("<", following, I64(lanes)), body, leave)
    b.position_at_end(leave)
    b.ret(b.load(cells[0], typ=kind))
    return function


def _library_call(b: ir.IRBuilder, fn: Fn, args: Values) -> ir.Value:
    """`fn` of one lane; LLVM makes calls of C's functions of these."""
    if fn is Fn.REM:
        return b.frem(*args)
    return intrinsic(b, f"llvm.{fn.value}.{type_suffix(args[0].type)}", args[0].type, args)
