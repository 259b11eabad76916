"""Loops, reductions, strides, masks and in-place updates as machine code against the interpreter."""

import re

import numpy as np
import pytest
from codegen.kernels import ZERO, I, all_options, equal, run_both, sample

from jitgrad.codegen.cpu import kernels, target
from jitgrad.codegen.cpu.emit import emit_kernel
from jitgrad.codegen.cpu.emit_square import square_of
from jitgrad.codegen.cpu.options import EmitOptions
from jitgrad.codegen.loops.analysis import step
from jitgrad.codegen.loops.ir import (
    Buffer,
    Init,
    Kernel,
    Load,
    Loop,
    Store,
    Update,
    acc_ref,
    load,
    loop_var,
    param,
    slot,
)  # fmt: skip
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import const, convert, where

J, K = loop_var("j"), loop_var("k")
F32, F64, I64, I32, BOOL = dtypes.float32, dtypes.float64, dtypes.int64, dtypes.int32, dtypes.bool_
SIZES = [0, 1, 3, 15, 16, 17, 63, 64, 65, 200]
OPTIONS = pytest.mark.parametrize("options", all_options(), ids=["host", "narrow", "strict"])


def loop(var, stop, *body, kind="serial", start=ZERO):
    return Loop(var, start, stop, body, kind)


def close(native, expected, rtol=1e-5):
    for a, b in zip(native, expected):
        np.testing.assert_allclose(a.astype("d"), b.astype("d"), rtol=rtol, atol=rtol)


def exact(native, expected):
    assert all(equal(a, b) for a, b in zip(native, expected))


@OPTIONS
@pytest.mark.parametrize("size", SIZES)
def test_sum_of_rows_with_epilogue(size, options):
    """out[i] = sqrt(sum_j x[i,j]**2) / p0"""
    acc = acc_ref(0, F32)
    x = load(0, F32, I * slot(1) + J)
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out")), 2, (F32,),
        (loop(I, slot(0),
            Init(0, const(0.0, F32)),
            loop(J, slot(1), Update((0,), (acc + x * x,)), kind="vector"),
            Store(1, I, scalar.sqrt(acc) / param(0, F32)), kind="parallel"),),
    )  # fmt: skip
    values = np.random.default_rng(0).standard_normal(5 * size).astype("f")
    out = np.full(5, 7, "f")
    close(*run_both(kernel, [values, out], [5, size], [2.5], (1, 4), options=options))


@OPTIONS
@pytest.mark.parametrize("dtype", [dtypes.uint8, I32, I64, F32, F64, BOOL], ids=lambda d: d.short)
@pytest.mark.parametrize(
    "fn", [scalar.Fn.ADD, scalar.Fn.MUL, scalar.Fn.MIN, scalar.Fn.MAX, scalar.Fn.AND, scalar.Fn.OR]
)
def test_every_reduction(fn, dtype, options):
    if dtype.is_floating_point and fn in (scalar.Fn.AND, scalar.Fn.OR):
        pytest.skip("bits of floats")
    start = const({"bool": True, "int": 3, "float": 1.5}[dtype.kind], dtype)
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out")), 1, (),
        (Init(0, start),
         loop(J, slot(0), Update((0,), (scalar.apply(fn, acc_ref(0, dtype), load(0, dtype, J)),)), kind="vector"),
         Store(1, ZERO, acc_ref(0, dtype))),
    )  # fmt: skip
    for size in (1, 5, 100, 131):
        values = sample(dtype, size + 6)[6:]
        if dtype.is_floating_point:
            values = np.random.default_rng(size).uniform(0.9, 1.1, size).astype(dtype.np)
        close(*run_both(kernel, [values, np.zeros(1, dtype.np)], [size], options=options))


@OPTIONS
def test_extremes_pass_nan_on(options):
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out")), 1, (),
        (Init(0, const(float("-inf"), F32)),
         loop(J, slot(0), Update((0,), (scalar.maximum(acc_ref(0, F32), load(0, F32, J)),)), kind="vector"),
         Store(1, ZERO, acc_ref(0, F32))),
    )  # fmt: skip
    for place in (0, 3, 40, 99):
        values = np.arange(100, dtype="f")
        values[place] = np.nan
        exact(*run_both(kernel, [values, np.zeros(1, "f")], [100], options=options))


@OPTIONS
@pytest.mark.parametrize("size", SIZES)
def test_column_sums_keep_one_accumulator_per_lane(size, options):
    """A vector loop around a serial one: out[j] = max_i x[i,j], and its row."""
    acc, row = acc_ref(0, F32), acc_ref(1, I64)
    x = load(0, F32, I * slot(1) + J)
    better = x > acc
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out"), Buffer(I64, "out")), 2, (),
        (loop(J, slot(1),
            Init(0, const(float("-inf"), F32)), Init(1, const(-1)),
            loop(I, slot(0), Update((0, 1), (where(better, x, acc), where(better, I, row)))),
            Store(1, J, acc), Store(2, J, row), kind="parallel_vector"),),
    )  # fmt: skip
    values = np.random.default_rng(0).standard_normal(7 * size).astype("f")
    exact(
        *run_both(
            kernel, [values, np.zeros(size, "f"), np.zeros(size, "q")], [7, size], span=(0, size), options=options
        )
    )


@OPTIONS
@pytest.mark.parametrize("dtype", [F32, F64, I32, dtypes.float16, dtypes.uint8], ids=lambda d: d.short)
def test_argmax_keeps_the_better_candidate_with_its_place(dtype, options):
    """Ties go to the first place, NaN is the largest; the choice says so itself, and may so be made in any order."""
    acc, place = acc_ref(0, dtype), acc_ref(1, I64)
    x = load(0, dtype, J)
    nan, had_nan = x.ne(x), acc.ne(acc)
    better = (x > acc) | (nan & ~had_nan) | ((x.eq(acc) | (nan & had_nan)) & (place > J))
    lowest = const(float("-inf") if dtype.is_floating_point else np.iinfo(dtype.np).min, dtype)
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out"), Buffer(I64, "out")), 1, (),
        (Init(0, lowest), Init(1, const(2**63 - 1)),
         loop(J, slot(0), Update((0, 1), (where(better, x, acc), where(better, J, place))), kind="vector"),
         Store(1, ZERO, acc), Store(2, ZERO, place)),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for size in (1, 5, 64, 133, 300):
        values = rng.integers(0, 40, size).astype(dtype.np)
        exact(*run_both(kernel, [values, np.zeros(1, dtype.np), np.zeros(1, "q")], [size], options=options))
        if dtype.is_floating_point:
            values[[size // 2, size - 1]] = np.nan
            exact(*run_both(kernel, [values, np.zeros(1, dtype.np), np.zeros(1, "q")], [size], options=options))


@OPTIONS
@pytest.mark.parametrize("dtype", [BOOL, dtypes.uint8, dtypes.float16, F32, F64], ids=lambda d: d.short)
@pytest.mark.parametrize("step", ["1", "-1", "2", "slot", "0", "modulo"])
def test_strides_of_loads(step, dtype, options):
    size = 77
    index = {
        "1": I, "-1": slot(1) - I, "2": I * 2, "slot": I * slot(2), "0": const(3),
        "modulo": scalar.apply(scalar.Fn.REM, I, slot(3)),
    }[step]  # fmt: skip
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out")), 4, (),
        (loop(I, slot(0), Store(1, I, load(0, dtype, index)), kind="vector"),),
    )  # fmt: skip
    out = np.zeros(size, dtype.np)
    exact(*run_both(kernel, [sample(dtype, 3 * size), out], [size, size - 1, 3, 10], options=options))


def test_what_lies_at_equal_distances_is_not_gathered():
    """But in the rest of a loop, under its mask."""
    value = load(0, F32, I * slot(1) + slot(2))
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out")), 3, (), (loop(I, slot(0), Store(1, I, value), kind="vector"),)
    )
    options = EmitOptions("default", 256, True)
    module = target.new_module("strided")
    emit_kernel(module, "strided", kernel, options)
    assert len(re.findall("call .*llvm.masked.gather", str(module))) == 1
    assert step(value.args[0], I) is not None and step(I * I, I) is None and step(load(1, I64, I), I) is None


@OPTIONS
@pytest.mark.parametrize("dtype", [BOOL, dtypes.bfloat16, F32, I64], ids=lambda d: d.short)
@pytest.mark.parametrize("step", ["-1", "2", "slot"])
def test_strides_of_stores(step, dtype, options):
    size = 77
    index = {"-1": slot(1) - I, "2": I * 2, "slot": I * slot(2)}[step]
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out")), 3, (),
        (loop(I, slot(0), Store(1, index, load(0, dtype, I)), kind="vector"),),
    )  # fmt: skip
    exact(*run_both(kernel, [sample(dtype, size), np.zeros(3 * size, dtype.np)], [size, size - 1, 3], options=options))


@OPTIONS
@pytest.mark.parametrize("dtype", [BOOL, dtypes.float16, F32, F64], ids=lambda d: d.short)
@pytest.mark.parametrize("kind", ["vector", "serial"])
def test_masked_loads_read_nothing_outside(kind, dtype, options):
    """Padding: out[i] = x[i - 5] where that exists; the input is exactly as long as it must be."""
    inside = (I >= 5) & (slot(1) + 5 > I)
    fill = const({"bool": True, "float": 9.0}[dtype.kind], dtype)
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out")), 2, (),
        (loop(I, slot(0), Store(1, I, load(0, dtype, I - 5, inside, fill)), kind=kind),),
    )  # fmt: skip
    for size in (0, 1, 30, 64):
        out = np.zeros(size + 10, dtype.np)
        exact(*run_both(kernel, [sample(dtype, size), out], [size + 10, size], options=options))


def test_masked_loads_of_nothing_go_where_memory_is():
    """No fault comes of masked lanes, but an address without a page costs processors hundreds of cycles."""
    value = load(0, F32, I + slot(1), slot(2) > I, const(0.0, F32))
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out")), 3, (), (loop(I, slot(0), Store(1, I, value), kind="vector"),)
    )
    module = target.new_module("masked")
    emit_kernel(module, "masked", kernel, kernels.default_options())
    text = str(module)
    addresses = re.findall(r"call .*llvm\.masked\.load\S*\(\S+ (%\S+?),", text)
    assert addresses and all(f"{a} = select " in text for a in addresses)


@OPTIONS
def test_gathered_masked_loads(options):
    index = load(0, I64, I)
    valid = (index >= 0) & (index < slot(1))
    kernel = Kernel(
        (Buffer(I64, "in"), Buffer(F32, "in"), Buffer(F32, "out")), 2, (),
        (loop(I, slot(0), Store(2, I, load(1, F32, index, valid, const(-1.0, F32))), kind="vector"),),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    places = rng.integers(-(10**12), 10**12, 75)
    places[::3] = rng.integers(0, 20, 25)
    exact(*run_both(kernel, [places, sample(F32, 20), np.zeros(75, "f")], [75, 20], options=options))


@OPTIONS
def test_in_place_updates_see_what_was_stored(options):
    """x = x * 2; y = x (new) + 1; x = x (new) - y, all in one pass over an inout buffer."""
    x = load(0, F32, I)
    kernel = Kernel(
        (Buffer(F32, "inout"), Buffer(F32, "out")), 1, (),
        (loop(I, slot(0), Store(0, I, x * 2.0), Store(1, I, x + 1.0), Store(0, I, x - load(1, F32, I)),
              kind="vector"),),
    )  # fmt: skip
    exact(*run_both(kernel, [np.arange(50, dtype="f"), np.zeros(50, "f")], [50], options=options))


@OPTIONS
def test_softmax_rows_with_a_local_buffer(options):
    """Three passes over a row kept in scratch, with values that are invariant in the later passes."""
    length = 40
    m, s = acc_ref(0, F32), acc_ref(1, F32)
    x = load(0, F32, I * slot(1) + J)
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out"), Buffer(F32, "local", length)), 2, (),
        (loop(I, slot(0),
            Init(0, const(float("-inf"), F32)),
            loop(J, slot(1), Update((0,), (scalar.maximum(m, x),)), kind="vector"),
            Init(1, const(0.0, F32)),
            loop(J, slot(1), Store(2, J, (x - m) * 0.5), kind="vector"),
            loop(J, slot(1), Update((1,), (s + load(2, F32, J),)), kind="vector"),
            loop(J, slot(1), Store(1, I * slot(1) + J, load(2, F32, J) / s), kind="vector"), kind="parallel"),),
    )  # fmt: skip
    for columns in (1, 7, 16, length):
        values = np.random.default_rng(columns).standard_normal(6 * columns).astype("f") + 3
        out = np.zeros(6 * columns, "f")
        native, expected = run_both(kernel, [values, out], [6, columns], span=(0, 6), options=options)
        np.testing.assert_allclose(native[1], expected[1], rtol=2e-5, equal_nan=True)


@OPTIONS
def test_serial_recurrence(options):
    """Running sums: the accumulator is read by a store in the loop, so nothing may be reordered."""
    acc = acc_ref(0, I64)
    body = (Update((0,), (acc + load(0, I64, I),)), Store(1, I, acc))
    for kind in ("serial", "vector"):
        kernel = Kernel(
            (Buffer(I64, "in"), Buffer(I64, "out")), 1, (), (Init(0, const(0)), loop(I, slot(0), *body, kind=kind))
        )
        exact(*run_both(kernel, [np.arange(90), np.zeros(90, "q")], [90], options=options))


@OPTIONS
def test_scatter_add_in_order(options):
    """out[index[i]] += x[i] with repeated indices, in a serial loop."""
    place = load(0, I64, I)
    kernel = Kernel(
        (Buffer(I64, "in"), Buffer(F32, "in"), Buffer(F32, "inout")), 1, (),
        (loop(I, slot(0), Store(2, place, load(2, F32, place) + load(1, F32, I))),),
    )  # fmt: skip
    places = np.random.default_rng(0).integers(0, 5, 100)
    exact(*run_both(kernel, [places, sample(F32, 106)[6:], np.ones(5, "f")], [100], options=options))


@OPTIONS
def test_chunks_of_a_flat_loop(options):
    """A parallel loop over chunks, a vector loop inside whose bounds are computed."""
    start = K * slot(1)
    stop = scalar.minimum(start + slot(1), slot(2))
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F64, "out")), 3, (),
        (loop(K, slot(0), loop(I, stop, Store(1, I, convert(load(0, F32, I), F64) * 3.0), kind="vector", start=start),
              kind="parallel"),),
    )  # fmt: skip
    exact(*run_both(kernel, [sample(F32, 100), np.zeros(100)], [4, 30, 100], span=(1, 4), options=options))


@OPTIONS
def test_accumulators_reset_in_each_iteration(options):
    """Two sibling reductions that share names, inside a serial loop."""
    acc = acc_ref(0, I32)
    kernel = Kernel(
        (Buffer(I32, "in"), Buffer(I32, "out")), 2, (),
        (loop(I, slot(0),
            Init(0, const(0, I32)),
            loop(J, slot(1), Update((0,), (acc + load(0, I32, J),)), kind="vector"),
            Store(1, I * 2, acc),
            Init(0, acc * 2),
            loop(J, slot(1), Update((0,), (acc - load(0, I32, J),)), kind="vector"),
            Store(1, I * 2 + 1, acc)),),
    )  # fmt: skip
    exact(*run_both(kernel, [sample(I32, 50), np.zeros(6, "i")], [3, 50], options=options))


def test_empty_loops_read_nothing():
    """A load that no iteration needs is not made, though it is the same in all of them."""
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out")), 2, (),
        (loop(I, slot(0), loop(J, slot(1), Store(1, J, load(0, F32, slot(1) * (1 << 40))), kind="vector")),),
    )  # fmt: skip
    run_both(kernel, [np.zeros(0, "f"), np.zeros(0, "f")], [3, 0])
    assert isinstance(load(0, F32, I), Load)


def test_deep_expressions_do_not_exhaust_the_stack():
    x = load(0, F32, I)
    value = x
    for _ in range(3000):
        value = value * 0.5 + x
    kernel = Kernel(
        (Buffer(F32, "in"), Buffer(F32, "out")), 1, (), (loop(I, slot(0), Store(1, I, value), kind="vector"),)
    )
    emit_kernel(target.new_module("deep"), "deep", kernel, kernels.default_options())


@OPTIONS
def test_indices_divided_in_lanes(options):
    """A reshape: out[i] = x[(i rem s1) * s2 + i div s1], whose divisions run in float64 where that is exact."""
    column, row = scalar.apply(scalar.Fn.REM, I, slot(1)), scalar.apply(scalar.Fn.DIV, I, slot(1))
    kernel = Kernel(
        (Buffer(I32, "in"), Buffer(I32, "out")), 3, (),
        (loop(I, slot(0), Store(1, I, load(0, I32, column * slot(2) + row)), kind="vector"),),
    )  # fmt: skip
    exact(*run_both(kernel, [np.arange(11 * 13, dtype="i"), np.zeros(143, "i")], [143, 13, 11], options=options))
    bounds = Kernel((Buffer(I64, "out"),), 2, (), (loop(I, slot(0), Store(0, I, row), kind="vector"),))
    big = 2**50
    exact(*run_both(bounds, [np.zeros(70, "q")], [70, big], options=options))
    offset = scalar.apply(scalar.Fn.DIV, I * slot(1) - 1, slot(1))  # the worst case: one below a multiple
    near = Kernel((Buffer(I64, "out"),), 2, (), (loop(I, slot(0), Store(0, I, offset), kind="vector"),))
    exact(*run_both(near, [np.zeros(70, "q")], [70, 2**46 + 1], options=options))


@OPTIONS
@pytest.mark.parametrize("dtype", [F32, F64, dtypes.bfloat16, I32, I64], ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (5, 16), (16, 3), (0, 7)])
def test_squares_turned_in_registers(rows, columns, dtype, options):
    """local[column, row] = source[row, column], zero where there is none; then the local buffer as it is."""
    side = 16 if dtype.itemsize < 8 else 8
    inside = (slot(0) > J) & (slot(1) > K)
    value = load(0, dtype, J * slot(2) + K, inside, const(0, dtype))
    turn = loop(J, const(side), loop(K, const(side), Store(2, K * const(side) + J, value), kind="vector"))
    copy = loop(J, const(side * side), Store(1, J, load(2, dtype, J)), kind="vector")
    buffers = (Buffer(dtype, "in"), Buffer(dtype, "out"), Buffer(dtype, "local", side * side))
    kernel = Kernel(buffers, 3, (), (turn, copy))
    assert square_of(turn, kernel) is not None
    arrays = [sample(dtype, 20 * side), np.zeros(side * side, dtype.np)]
    native, expected = run_both(kernel, arrays, [min(rows, side), min(columns, side), 20], options=options)
    assert equal(native[1], expected[1])
