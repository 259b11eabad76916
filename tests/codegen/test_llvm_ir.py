"""LLVM's language as text: what is built is what LLVM reads, and runs."""

import ctypes
import struct

import numpy as np
import pytest

from jitgrad.codegen.cpu import llvm_ir as ir
from jitgrad.codegen.cpu import target

I1, I32, I64, F32, F64, PTR = (
    ir.IntType(1),
    ir.IntType(32),
    ir.IntType(64),
    ir.FloatType(),
    ir.DoubleType(),
    ir.PointerType(),
)


def run(result, args, values, build):
    """What a function of one block, or more, gives: `build(builder, arguments)` returns from it."""
    module = target.new_module(f"test_{build.__qualname__}_{len(values)}")
    name = f"f_{abs(hash((build.__qualname__, values)))}"
    function = ir.Function(module, ir.FunctionType(result, args), name)
    build(ir.IRBuilder(function.append_basic_block("entry")), function.args)
    kinds = {I32: ctypes.c_int32, I64: ctypes.c_int64, F32: ctypes.c_float, F64: ctypes.c_double, PTR: ctypes.c_void_p}
    kinds[ir.VoidType()] = None
    address = target.compile_module(module).address(name)
    return ctypes.CFUNCTYPE(kinds[result], *[kinds[a] for a in args])(address)(*values)


def test_equal_types_are_the_same_object():
    assert ir.IntType(32) is I32 and ir.VectorType(F32, 4) is ir.VectorType(F32, 4)
    assert ir.FunctionType(I32, [I64]) is ir.FunctionType(I32, [I64])
    assert ir.VectorType(F32, 4) is not ir.VectorType(F32, 8) and I64(3) is I64(3)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, 0.1, float("inf"), float("nan"), 1e-45, 3.4e38])
def test_float_literals_keep_each_bit(number):
    found = run(F32, [], (), lambda b, _: b.ret(F32(number)))
    assert struct.pack("f", found) == struct.pack("f", np.float32(number))


def test_frozen_values_are_the_same():
    assert run(F64, [F64], (1.5,), lambda b, x: b.ret(b.freeze(x[0]))) == 1.5


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and_", "or_", "xor", "shl", "lshr", "ashr"]
)
def test_integers(name):
    want = {
        "add": 23, "sub": 17, "mul": 60, "sdiv": 6, "udiv": 6, "srem": 2, "urem": 2, "and_": 0, "or_": 23, "xor": 23,
        "shl": 160, "lshr": 2, "ashr": 2,
    }  # fmt: skip
    assert run(I64, [I64, I64], (20, 3), lambda b, x: b.ret(getattr(b, name)(*x))) == want[name]


@pytest.mark.parametrize(("sign", "want"), [("==", 0), ("!=", 1), ("<", 1), ("<=", 1), (">", 0), (">=", 0)])
def test_comparisons(sign, want):
    def choose(b, condition):
        b.ret(b.select(condition, I64(1), I64(0)))

    assert run(I64, [I64, I64], (-1, 1), lambda b, x: choose(b, b.icmp_signed(sign, *x))) == want
    assert run(I64, [F64, F64], (-1.0, 1.0), lambda b, x: choose(b, b.fcmp_ordered(sign, *x))) == want
    nan = (float("nan"), 1.0)
    assert run(I64, [F64, F64], nan, lambda b, x: choose(b, b.fcmp_ordered(sign, *x))) == 0
    assert run(I64, [F64, F64], nan, lambda b, x: choose(b, b.fcmp_unordered(sign, *x))) == 1


def test_a_loop_with_memory_and_a_choice():
    """The sum of the odd numbers below n, by way of a stack cell."""

    def build(b, args):
        (stop,) = args
        cell = b.alloca(I64)
        cell.align = 64
        b.store(I64(0), cell)
        entry, body, done = b.block, b.append_basic_block("body"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        k = b.phi(I64)
        k.add_incoming(I64(0), entry)
        with b.if_else(b.icmp_unsigned("==", b.and_(k, I64(1)), I64(1))) as (odd, even):
            with odd:
                b.store(b.add(b.load(cell, typ=I64), k), cell)
            with even:
                pass
        following = b.add(k, I64(1))
        k.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, stop), body, done)
        b.position_before_end(done.function.entry_basic_block)
        b.position_at_end(done)
        b.ret(b.load(cell, typ=I64))

    assert run(I64, [I64], (10,), build) == 25


def test_what_is_built_in_front_of_the_end():
    def build(b, args):
        entry, after = b.block, b.append_basic_block("after")
        b.branch(after)
        b.position_before_end(entry)
        doubled = b.add(args[0], args[0])
        b.position_at_end(after)
        b.ret(doubled)

    assert run(I64, [I64], (21,), build) == 42


def test_vectors():
    def build(b, args):
        kind = ir.VectorType(F32, 4)
        undefined = ir.Constant(kind, ir.Undefined)
        spread = b.shuffle_vector(
            b.insert_element(undefined, args[0], I32(0)), undefined, ir.Constant(ir.VectorType(I32, 4), [0] * 4)
        )
        scaled = b.fmul(
            spread, ir.Constant.of_text(kind, "<float 1.0, float 2.0, float 3.0, float 4.0>"), flags=("contract",)
        )
        b.ret(b.fadd(b.extract_element(scaled, I32(3)), b.fneg(b.extract_element(scaled, I32(1)))))

    assert run(F32, [F32], (10.0,), build) == 20.0


def test_a_switch_and_atomic_memory():
    def build(b, args):
        memory, chosen = args
        one, two, done = (b.append_basic_block(n) for n in ("one", "two", "done"))
        table = b.switch(chosen, done)
        table.add_case(I64(1), one)
        table.add_case(I64(2), two)
        b.position_at_end(one)
        b.atomic_rmw("add", memory, I64(5), "acq_rel")
        b.branch(done)
        b.position_at_end(two)
        b.extract_value(b.cmpxchg(memory, I64(7), I64(100), "acq_rel", "acquire"), 1)
        b.branch(done)
        b.position_at_end(done)
        b.ret(b.load_atomic(memory, "acquire", 8, typ=I64))

    for chosen, want in ((0, 7), (1, 12), (2, 100)):
        cell = ctypes.c_int64(7)
        assert run(I64, [PTR, I64], (ctypes.addressof(cell), chosen), build) == want


def test_conversions():
    def build(b, args):
        wide = b.sext(b.trunc(args[0], I32), I64)
        b.ret(b.fptosi(b.fadd(b.sitofp(wide, F64), F64(0.75)), I64))

    assert run(I64, [I64], (-3,), build) == -2
    assert run(I64, [I64], (9,), lambda b, x: b.ret(b.bitcast(x[0], I64))) == 9
