"""The result of an eager op on few elements, computed by a loop of its own: see `eager_op`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from . import driver
from . import llvm_ir as ir
from .cells import I64, PTR, Counted, call, cell
from .eager_layout import Layout, Words
from .eager_loops import LOOP_TYPE
from .object_code import CLASS

FEW: Final = 64  # elements; with more, NumPy's vectors make up for its call
DTYPE: Final = object.__basicsize__ + 40
NDIM, DIMS, _FLAGS = (object.__basicsize__ + k for k in (8, 16, 48))
NDIM_BITS, _PLAIN = (1 << 32) - 1, 0x0101  # C-contiguous and aligned
_NUMBER: Final = object.__basicsize__  # where a float has its value
_F32, _F64 = ir.FloatType(), ir.DoubleType()
_MOST, _MOST_INTEGER = 3e38, float(1 << 24)  # numbers up to these are converted to float32 as NumPy does


@dataclass(frozen=True, slots=True)
class _Operand:
    """Cells on the stack: where the elements are, how many, and the axes."""

    data: ir.Value
    count: ir.Value
    ndim: ir.Value
    dims: ir.Value


def build_few(module: ir.Module, layout: Layout, arity: int) -> ir.Function:
    """`function(cells, operands, their arrays or 0 for numbers, dtype)`: an array, or 0 with nothing done."""
    function = ir.Function(module, ir.FunctionType(I64, [PTR, *[I64] * (2 * arity + 1)]), f"jitgrad_few_{arity}")
    cells, *words, dtype = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    scratch = [b.alloca(_F64) for _ in range(arity)]
    code = Words(b, cells, layout)
    *places, free = [[code.place() for _ in range(4)] for _ in range(arity + 1)]
    single = code.is_a(dtype, "f32")
    loop = b.select(single, code["loop_f32"], b.select(code.is_a(dtype, "f64"), code["loop_f64"], I64(0)))
    code.go_on(b.icmp_signed("!=", loop, I64(0)))
    operands = []
    for x, array, place, number in zip(words[:arity], words[arity:], places, scratch, strict=True):
        operand = _Operand(*place)
        is_number = code.same(array, I64(0))
        with b.if_else(is_number) as (then, other):
            with then:
                _put_number(code, operand, x, single, number)
            with other:
                _put_array(code, operand, array)
        operands.append(operand)
    lead = operands[0]
    if arity > 1:
        lead = _Operand(*free)
        _lead(code, operands[0], operands[1], lead)
    _finish(code, operands, lead, loop, dtype)
    return function


def _put_number(code: Words, operand: _Operand, x: ir.Value, single: ir.Value, free: ir.Value) -> None:
    """A Python number as an operand without axes; the function ends for one that NumPy would round in two steps."""
    b = code.b
    with b.if_else(code.same(code.get(x, CLASS), code["float"])) as (then, other):
        with then:
            b.store(b.load(b.inttoptr(b.add(x, I64(_NUMBER)), PTR), typ=_F64), free)
        with other:
            value = call(b, ir.FunctionType(_F64, [I64]), code["PyLong_AsDouble"], [x])
            with b.if_then(b.fcmp_ordered("==", value, _F64(-1.0))):
                failed = code.result(code["PyErr_Occurred"], [])
                with b.if_then(b.icmp_signed("!=", failed, I64(0))):
                    call(b, ir.FunctionType(ir.VoidType(), []), code["PyErr_Clear"], [])
                    b.ret(I64(0))
            code.go_on(_is_within(b, value, _MOST_INTEGER))
            b.store(value, free)
    value = b.load(free, typ=_F64)
    code.go_on(_is_within(b, value, _MOST))
    with b.if_then(single):
        b.store(b.fptrunc(value, _F32), free)
    b.store(b.ptrtoint(free, I64), operand.data)
    b.store(I64(1), operand.count)
    b.store(I64(0), operand.ndim)
    b.store(I64(0), operand.dims)


def _is_within(b: ir.IRBuilder, value: ir.Value, most: float) -> ir.Value:
    return b.and_(b.fcmp_ordered("<=", value, _F64(most)), b.fcmp_ordered(">=", value, _F64(-most)))


def _put_array(code: Words, operand: _Operand, array: ir.Value) -> None:
    """An array as an operand; the function ends for one that has gaps or many elements."""
    b = code.b
    flags = b.and_(code.get(array, _FLAGS), I64(_PLAIN))
    code.go_on(b.icmp_signed("==", flags, I64(_PLAIN)))
    ndim, dims = b.and_(code.get(array, NDIM), I64(NDIM_BITS)), code.get(array, DIMS)
    b.store(I64(1), operand.count)
    with Counted(b.function, b, ndim, "axis") as k:
        length = cell(b, b.inttoptr(dims, PTR), k)
        b.store(b.mul(b.load(operand.count, typ=I64), length), operand.count)
    code.go_on(b.icmp_signed("<=", b.load(operand.count, typ=I64), I64(FEW)))
    b.store(code.get(array, driver.ARRAY_DATA), operand.data)
    b.store(ndim, operand.ndim)
    b.store(dims, operand.dims)


def _lead(code: Words, x: _Operand, y: _Operand, lead: _Operand) -> None:
    """Put into `lead` the operand with the result's shape; the function ends if the other is neither like it nor one
    element.
    """
    b = code.b
    ndims, counts = [b.load(o.ndim, typ=I64) for o in (x, y)], [b.load(o.count, typ=I64) for o in (x, y)]
    differ = lead.data  # which nobody needs
    b.store(b.zext(b.icmp_signed("!=", *ndims), I64), differ)
    with b.if_then(b.icmp_signed("==", *ndims)):
        dims = [b.inttoptr(b.load(o.dims, typ=I64), PTR) for o in (x, y)]
        with Counted(b.function, b, ndims[0], "pair") as k:
            other = b.zext(b.icmp_signed("!=", *[cell(b, d, k) for d in dims]), I64)
            b.store(b.or_(b.load(differ, typ=I64), other), differ)
    alike = b.icmp_signed("==", b.load(differ, typ=I64), I64(0))
    repeated = [
        b.and_(b.icmp_signed("==", counts[i], I64(1)), b.icmp_signed("<=", ndims[i], ndims[1 - i])) for i in range(2)
    ]
    code.go_on(b.or_(alike, b.or_(*repeated)))
    first = b.or_(alike, repeated[1])
    for target, one, other in (
        (lead.count, x.count, y.count),
        (lead.ndim, x.ndim, y.ndim),
        (lead.dims, x.dims, y.dims),
    ):
        b.store(b.select(first, b.load(one, typ=I64), b.load(other, typ=I64)), target)


def _finish(code: Words, operands: list[_Operand], lead: _Operand, loop: ir.Value, dtype: ir.Value) -> None:
    """Make the result, run the loop and return."""
    b = code.b
    own = code["result_dtype"]
    count, ndim, dims = (b.load(place, typ=I64) for place in (lead.count, lead.ndim, lead.dims))
    result_type = code.hold(b.select(code.is_a(own, "none"), dtype, own))  # the reference goes to the array
    args = [code["ndarray"], result_type, ndim, dims, I64(0), I64(0), I64(0), I64(0)]
    out = code.result(code["new_array"], args)
    with b.if_then(code.same(out, I64(0))):
        call(b, ir.FunctionType(ir.VoidType(), []), code["PyErr_Clear"], [])
        b.ret(I64(0))
    data = [b.inttoptr(b.load(o.data, typ=I64), PTR) for o in operands]
    steps = [b.zext(b.icmp_signed("!=", b.load(o.count, typ=I64), I64(1)), I64) for o in operands]
    result = b.inttoptr(code.get(out, driver.ARRAY_DATA), PTR)
    call(b, LOOP_TYPE, loop, [data[0], data[-1], result, count, steps[0], steps[-1]])
    b.ret(out)
