"""An eager op on small tensors as one builtin function of Python: it looks at the operands, computes, makes the
result and, if a gradient may be asked for, the node on the tape.

    run = eager_op(Add(), 2, layout, objects, numbers)
    run(mode, x, y)       # the result; None, with nothing done, for what it does not take

It takes tensors in host memory of one type, float32, float64 or (if the op says so) int64, and a Python number as
one of two operands. Few
elements are computed here, by instructions that round as NumPy's do (`eager_loops`); more of them, and ops that have
no such instruction, by NumPy's function. What it leaves is what `jitgrad.fast_path` leaves, which says the same in
Python. It holds the GIL.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from . import driver
from . import llvm_ir as ir
from .builtin import builtin_of
from .cells import I64, PTR, Counted, byte_cell, call, cell
from .eager_few import DIMS, DTYPE, NDIM, NDIM_BITS, build_few
from .eager_layout import Cells, Words
from .eager_layout import Layout as Layout
from .eager_loops import build_loops, loop_name
from .eager_record import build_record
from .kernels import compile_module
from .object_code import CLASS
from .target import CompiledModule

_RUN_TYPE: Final = ir.FunctionType(I64, [PTR, PTR])  # cells, arguments
_ENTRY_TYPE: Final = ir.FunctionType(PTR, [PTR, PTR, I64])  # the array with the cells, arguments, how many


@functools.cache
def _module(layout: Layout) -> CompiledModule:
    return compile_module("jitgrad_eager", functools.partial(_build, layout=layout))


def eager_op(op: object, arity: int, layout: Layout, objects: Mapping[str, Any], numbers: Mapping[str, int]) -> Any:
    """The function of a mode and so many operands; the addresses of loops are added to `numbers`."""
    module = _module(layout)
    loops = {f"loop_{d}": (0 if (n := loop_name(op, d)) is None else module.address(n)) for d in ("f32", "f64")}
    return builtin_of(module.address(f"jitgrad_eager_{arity}"), Cells.of(objects, {**numbers, **loops}), several=True)


def _build(module: ir.Module, layout: Layout) -> None:
    build_loops(module)
    for arity in (1, 2):
        few, record = build_few(module, layout, arity), build_record(module, layout, arity)
        run = _build_run(module, layout, (few, _build_numpy(module, layout, arity), record))
        _build_entry(module, layout, run, arity)


def _build_entry(module: ir.Module, layout: Layout, run: ir.Function, arity: int) -> None:
    """What Python calls: 0 from `run` is None, unless an exception is set."""
    function = ir.Function(module, _ENTRY_TYPE, f"jitgrad_eager_{arity}")
    holder, args, _ = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    cells = b.inttoptr(byte_cell(b, holder, driver.ARRAY_DATA), PTR)
    made = b.call(run, [cells, args])
    with b.if_then(b.icmp_signed("!=", made, I64(0))):
        b.ret(b.inttoptr(made, PTR))
    code = Words(b, cells, layout)
    with b.if_then(b.icmp_signed("!=", code.result(code["PyErr_Occurred"], []), I64(0))):
        b.ret(b.inttoptr(I64(0), PTR))
    b.ret(b.inttoptr(code.none(), PTR))


def _build_run(module: ir.Module, layout: Layout, parts: tuple[ir.Function, ...]) -> ir.Function:
    few, numpy, record = parts
    arity = (len(few.args) - 2) // 2
    function = ir.Function(module, _RUN_TYPE, f"jitgrad_run_eager_{arity}")
    cells, args = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    code = Words(b, cells, layout)
    mode, *operands = [cell(b, args, k) for k in range(arity + 1)]
    code.go_on(code.is_a(code.get(mode, layout.tracer), "none"))
    code.go_on(code.is_a(code.get(mode, layout.watches), "false"))
    leading = code.place()
    b.store(I64(0), leading)
    arrays = [_array(code, x, k, leading) for k, x in enumerate(operands)]
    dtype = _common_dtype(code, operands, arrays)
    records = b.and_(code.is_a(code.get(mode, layout.grad), "true"), _holds(b, code["is_differentiable"]))
    records = b.and_(records, _holds(b, b.load(leading, typ=I64)))
    code.go_on(b.or_(b.xor(records, ir.IntType(1)(1)), _holds(b, code["is_recorded"])))
    out = code.place()
    b.store(b.call(few, [cells, *operands, *arrays, dtype]), out)
    with b.if_then(code.same(b.load(out, typ=I64), I64(0))):
        b.store(b.call(numpy, [cells, *operands, *arrays]), out)
    code.go_on(_holds(b, b.load(out, typ=I64)))
    made = _wrap(code, b.load(out, typ=I64))
    with b.if_then(records):
        code.go_on(_holds(b, b.call(record, [cells, made, b.load(leading, typ=I64), *operands, *arrays])))
    b.ret(made)
    return function


def _holds(b: ir.IRBuilder, word: ir.Value) -> ir.Value:
    return b.icmp_signed("!=", word, I64(0))


def _array(code: Words, x: ir.Value, k: int, leading: ir.Value) -> ir.Value:
    """The array of a tensor, 0 for what is none; a tensor that requires a gradient is noted."""
    b, layout, found = code.b, code.layout, code.place()
    b.store(I64(0), found)
    kind = code.get(x, CLASS)
    is_tensor = b.or_(code.is_a(kind, "tensor"), code.is_a(code.get(kind, layout.base), "tensor"))
    with b.if_then(is_tensor):
        array = code.get(x, layout.data)
        code.go_on(_holds(b, array))
        code.go_on(code.is_a(code.get(array, CLASS), "ndarray"))
        b.store(array, found)
        required = code.is_a(code.get(x, layout.requires_grad), "true")
        b.store(b.or_(b.load(leading, typ=I64), b.select(required, I64(1 << k), I64(0))), leading)
    return b.load(found, typ=I64)


def _common_dtype(code: Words, operands: list[ir.Value], arrays: list[ir.Value]) -> ir.Value:
    """The dtype of all arrays; the function ends if there is none, or if another operand is no number."""
    b = code.b
    first = arrays[0] if len(arrays) == 1 else b.select(_holds(b, arrays[0]), *arrays)
    code.go_on(_holds(b, first))
    dtype = code.get(first, DTYPE)
    is_real = b.or_(code.is_a(dtype, "f32"), code.is_a(dtype, "f64"))
    code.go_on(b.or_(is_real, code.is_a(dtype, "integers")))
    for x, array in zip(operands, arrays, strict=True):
        with b.if_else(_holds(b, array)) as (then, other):
            with then:
                code.go_on(code.same(code.get(array, DTYPE), dtype))
            with other:
                kind = code.get(x, CLASS)
                code.go_on(b.or_(code.is_a(kind, "int"), b.and_(code.is_a(kind, "float"), is_real)))
    return dtype


def _build_numpy(module: ir.Module, layout: Layout, arity: int) -> ir.Function:
    """`function(cells, operands, arrays or 0)`: what NumPy's function gives, as an array; 0 with nothing done."""
    function = ir.Function(module, ir.FunctionType(I64, [PTR, *[I64] * (2 * arity)]), f"jitgrad_numpy_{arity}")
    cells, *words = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    given = b.alloca(I64, arity + 1)
    code = Words(b, cells, layout)
    for k, (x, array) in enumerate(zip(words[:arity], words[arity:], strict=True)):
        with b.if_then(_holds(b, array)):
            _limit(code, array)
        b.store(b.select(_holds(b, array), array, x), b.gep(given, [I64(k)], source_etype=I64))
    made = code.result(code["PyObject_Vectorcall"], [code["numpy"], b.ptrtoint(given, I64), I64(arity), I64(0)])
    _forget_errors(code, made)
    with b.if_then(b.icmp_signed("!=", code.get(made, CLASS), code["ndarray"])):
        b.store(made, given)
        array = code.result(code["PyObject_Vectorcall"], [code["asarray"], b.ptrtoint(given, I64), I64(1), I64(0)])
        call(b, ir.FunctionType(ir.VoidType(), [I64]), code["Py_DecRef"], [made])
        _forget_errors(code, array)
        b.ret(array)
    b.ret(made)
    return function


def _forget_errors(code: Words, made: ir.Value) -> None:
    """Give 0 for what failed, so that the way in Python says why."""
    b = code.b
    with b.if_then(code.same(made, I64(0))):
        call(b, ir.FunctionType(ir.VoidType(), []), code["PyErr_Clear"], [])
        b.ret(I64(0))


def _limit(code: Words, array: ir.Value) -> None:
    """The function ends for more elements than it takes."""
    b = code.b
    count = code.place()
    b.store(I64(1), count)
    dims = b.inttoptr(code.get(array, DIMS), PTR)
    with Counted(b.function, b, b.and_(code.get(array, NDIM), I64(NDIM_BITS)), "axis") as k:
        b.store(b.mul(b.load(count, typ=I64), cell(b, dims, k)), count)
    code.go_on(b.icmp_signed("<=", b.load(count, typ=I64), code["limit"]))


def _wrap(code: Words, array: ir.Value) -> ir.Value:
    """A tensor of an array, to which the reference goes."""
    layout = code.layout
    made = code.made(code["new_object"], [code["tensor"], code["empty"], I64(0)])
    code.put(made, layout.data, array)
    for offset in layout.cleared:
        code.put(made, offset, code.none())
    code.put(made, layout.index, code.hold(code["zero"]))
    code.put(made, layout.requires_grad, code.hold(code["false"]))
    return made
