"""Every scalar function, on every dtype it takes, as machine code against the interpreter."""

import dataclasses
import itertools

import numpy as np
import pytest
from codegen.kernels import all_options, equal, pointwise, run_both, sample

from jitgrad.codegen.cpu import abi, emit_half, kernels, target
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Expr, Fn, apply, const, convert, where

INTEGERS = [dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64]
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
NUMBERS = INTEGERS + FLOATS
ALL = [dtypes.bool_, *NUMBERS]
SIZE = 203
CASES = (
    [(f, d) for f in (Fn.ADD, Fn.SUB, Fn.MUL, Fn.MIN, Fn.MAX, Fn.NEG, Fn.ABS) for d in NUMBERS]
    + [(f, d) for f in (Fn.DIV, Fn.SQRT, Fn.FLOOR, Fn.CEIL, Fn.TRUNC, Fn.ROUND, Fn.COPYSIGN) for d in FLOATS]
    + [(f, d) for f in (Fn.AND, Fn.OR, Fn.XOR, Fn.NOT) for d in [dtypes.bool_, *INTEGERS]]
    + [(f, d) for f in scalar.COMPARISONS for d in ALL]
    + [(Fn.REM, d) for d in (dtypes.float32, dtypes.float64)]
)
UNARY = {Fn.NEG, Fn.ABS, Fn.SQRT, Fn.FLOOR, Fn.CEIL, Fn.TRUNC, Fn.ROUND, Fn.NOT}


def check(kernel, arrays, options=None):
    native, expected = run_both(kernel, arrays, [SIZE], options=options)
    assert equal(native[-1], expected[-1])


def shuffled(dtype, seed=1):
    values = sample(dtype, SIZE, seed)
    return np.concatenate([values[7:], values[:7]])


@pytest.mark.parametrize(("fn", "dtype"), sorted(set(CASES), key=str), ids=lambda v: str(getattr(v, "name", v)))
def test_function(fn, dtype):
    inputs = [dtype] if fn in UNARY else [dtype, dtype]
    kernel = pointwise(inputs, lambda *a: apply(fn, *a))
    arrays = [sample(dtype, SIZE), shuffled(dtype)][: len(inputs)]
    if fn in (Fn.MIN, Fn.MAX) and dtype.is_floating_point:
        for a in arrays:
            a[a == 0] = 0.5  # which of two zeros is smaller is nobody's business
    check(kernel, [*arrays, np.zeros(SIZE, kernel.buffers[-1].dtype.np)])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("options", all_options(), ids=str)
def test_scaling_rounds_once(dtype, options):
    """Into denormal numbers and beyond both ends."""
    values, most = sample(dtype, SIZE), 2 * (np.finfo(dtype.np).maxexp - 2)
    places = np.resize(np.arange(-most, most + 1, dtype=dtype.np), SIZE)
    places[::3] = np.resize(np.arange(-most, -most // 2, dtype=dtype.np)[:: 1 + most // 999], len(places[::3]))
    places[1::3] = np.round(np.resize(np.linspace(np.log2(np.finfo(dtype.np).tiny) - 30, 30, 61), len(places[1::3])))
    kernel = pointwise([dtype, dtype], lambda x, n: apply(Fn.SCALE, x, n))
    check(kernel, [values, places, np.zeros(SIZE, dtype.np)], options)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ALL, ALL)), ids=lambda d: d.short)
def test_convert(source, target):
    kernel = pointwise([source], lambda x: convert(x, target))
    values = sample(source, SIZE)
    if source.is_floating_point and target.kind == "int":  # beyond the range NumPy itself is not portable
        limit = np.iinfo(target.np)
        inside = (values.astype("d") > limit.min) & (values.astype("d") < limit.max)
        values = np.where(inside, values, np.ones_like(values))
    check(kernel, [values, np.zeros(SIZE, target.np)])


@pytest.mark.parametrize("target", [dtypes.int32, dtypes.int64])
@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64])
def test_floats_outside_an_integer_give_its_smallest(source, target):
    kernel = pointwise([source], lambda x: convert(x, target))
    values = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, 2.0**63, -(2.0**31), -(2.0**63), 1.5], source.np)
    out = np.zeros(len(values), target.np)
    native, _ = run_both(kernel, [values, out], [len(values)])
    low, info = np.iinfo(target.np).min, np.iinfo(target.np)
    wide = values.astype("d")
    inside = (wide >= info.min) & (wide < float(info.max))
    expected = [int(v) if ok else low for v, ok in zip(wide, inside)]
    assert native[1].tolist() == expected


def test_doubles_round_once_to_half():
    """1 + 2**-11 + 2**-40 lies above the middle of two halves; rounding through float32 would lose that."""
    values = np.array(
        [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, -(1 + 3 * 2.0**-11 - 2.0**-40), 1e-30, 65519.999, 65520.0]
    )
    for half in (dtypes.float16, dtypes.bfloat16):
        native, expected = run_both(
            pointwise([dtypes.float64], lambda x, t=half: convert(x, t)), [values, np.zeros(6, half.np)], [6]
        )
        if half is dtypes.float16:
            assert equal(native[1], expected[1])
    assert native[1][0] == 1


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.short)
@pytest.mark.parametrize("fn", [Fn.DIV, Fn.REM])
def test_integer_division_never_traps(fn, dtype):
    def guarded(x: Expr, y: Expr) -> Expr:
        return where(y.eq(0), 0, apply(fn, x, where(y.eq(0), 1, y)))

    x, y = sample(dtype, SIZE), shuffled(dtype) % np.array(11, dtype.np)
    x[:4], y[:4] = np.iinfo(dtype.np).min, [0, 1, 2, 3]
    check(pointwise([dtype, dtype], guarded), [x, y, np.zeros(SIZE, dtype.np)])
    raw = pointwise([dtype, dtype], lambda x, y: apply(fn, x, y))
    y[:2] = [0, 255 if dtype is dtypes.uint8 else -1]
    out = np.zeros(SIZE, dtype.np)
    abi.call_kernel(kernels.compile_kernels([raw])[0].address, [x, y, out], [SIZE], None, 0, SIZE)
    assert out[0] == 0
    if dtype.is_signed:
        assert out[1] == (np.iinfo(dtype.np).min if fn is Fn.DIV else 0)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.short)
@pytest.mark.parametrize("fn", [Fn.SHL, Fn.SHR, Fn.LSHR])
def test_shifts(fn, dtype):
    width = 8 * dtype.itemsize
    counts = (np.arange(SIZE) % width).astype(dtype.np)
    check(
        pointwise([dtype, dtype], lambda x, n: apply(fn, x, n)), [sample(dtype, SIZE), counts, np.zeros(SIZE, dtype.np)]
    )
    check(pointwise([dtype], lambda x: apply(fn, x, 3)), [sample(dtype, SIZE), np.zeros(SIZE, dtype.np)])


@pytest.mark.parametrize("options", all_options(), ids=str)
def test_select_fma_and_bitcast(options):
    f32, i32 = dtypes.float32, dtypes.int32
    x, y = sample(f32, SIZE), shuffled(f32)
    out = np.zeros(SIZE, "f")
    check(pointwise([f32, f32], lambda a, b: where(a < b, a, b * 2.0)), [x, y, out], options)
    check(pointwise([f32, f32], lambda a, b: scalar.fma(a, b, a)), [x, y, out], options)
    check(pointwise([f32], lambda a: scalar.bitcast(scalar.bitcast(a, i32) ^ const(1, i32), f32)), [x, out], options)


@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.short)
def test_half_types_round_after_every_operation(half):
    x, y = sample(half, SIZE), shuffled(half)
    check(pointwise([half, half], lambda a, b: (a + b) * a - b / (a + 3.0)), [x, y, np.zeros(SIZE, half.np)])
    bits = dtypes.int16
    check(
        pointwise([half], lambda a: scalar.bitcast(scalar.bitcast(a, bits) & 0x7FFF, half)),
        [x, np.zeros(SIZE, half.np)],
    )


def test_strict_numerics_round_the_product():
    f32 = dtypes.float32
    x, y, z = (np.random.default_rng(k).standard_normal(SIZE).astype("f") for k in range(3))
    kernel = pointwise([f32, f32, f32], lambda a, b, c: a * b + c)
    strict = all_options()[-1]
    assert strict.strict
    native, expected = run_both(kernel, [x, y, z, np.zeros(SIZE, "f")], [SIZE], options=strict)
    assert equal(native[3], expected[3])


def test_half_conversions_without_instructions(monkeypatch):
    """Machines without float16 conversions do them with integers; every half there is, and floats around each."""
    without = dataclasses.replace(target.host(), half_conversions=False)
    monkeypatch.setattr(emit_half, "host", lambda: without)
    options = kernels.default_options()
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    widened, expected = run_both(
        pointwise([dtypes.float16], lambda x: convert(x, dtypes.float32)),
        [halves, np.zeros(1 << 16, "f")], [1 << 16], options=options,
    )  # fmt: skip
    assert equal(widened[1], expected[1])
    bits = expected[1].view(np.int32)
    around = np.concatenate([bits + d for d in (0, 1, -1, 1 << 12, (1 << 12) - 1, (1 << 12) + 1)]).view(np.float32)
    narrowed, expected = run_both(
        pointwise([dtypes.float32], lambda x: convert(x, dtypes.float16)),
        [around, np.zeros(len(around), np.float16)], [len(around)], options=options,
    )  # fmt: skip
    assert equal(narrowed[1], expected[1])
