"""Every scalar function on every type, as source: the interpreter's values, exactly where they are exact."""

import numpy as np
import pytest
from codegen.kernels import ZERO, I, equal, pointwise, sample
from cuda_kernels import run_sequentially

from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.loops.ir import Buffer, Kernel, Loop, Store, load, param, slot
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import COMPARISONS, MATH, Fn, apply, const

REALS = tuple(d for d in dtypes.ALL if not d.is_complex)
INTEGERS = tuple(d for d in REALS if d.kind == "int")
FLOATS = tuple(d for d in REALS if d.is_floating_point)
SIZE = 40
UNARY = (Fn.NEG, Fn.ABS)
ROUNDING = (Fn.FLOOR, Fn.CEIL, Fn.TRUNC, Fn.ROUND)
BINARY = (Fn.ADD, Fn.SUB, Fn.MUL, Fn.MIN, Fn.MAX)
BITS = (Fn.AND, Fn.OR, Fn.XOR)
SHIFTS = (Fn.SHL, Fn.SHR, Fn.LSHR)


def check(inputs, fn, arrays=None):
    """The kernel of `fn` gives what the interpreter gives."""
    kernel = pointwise(inputs, fn)
    arrays = arrays or [sample(d, SIZE, seed) for seed, d in enumerate(inputs)]
    outs = [np.zeros(SIZE, kernel.buffers[-1].dtype.np) for _ in range(2)]
    run_sequentially(kernel, [*arrays, outs[0]], [SIZE])
    with np.errstate(all="ignore"):
        interpret(kernel, [*arrays, outs[1]], [SIZE])
    assert equal(outs[0], outs[1]), (outs, arrays)


def defined(fn, dtype):
    if dtype is dtypes.bool_:
        return fn not in (Fn.NEG, Fn.SUB)
    return True


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("fn", UNARY, ids=str)
def test_unary(fn, dtype):
    if defined(fn, dtype):
        check([dtype], lambda x: apply(fn, x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", ROUNDING, ids=str)
def test_rounding(fn, dtype):
    check([dtype], lambda x: apply(fn, x))
    run_sequentially(pointwise([dtypes.int32], lambda x: apply(fn, x)), [np.arange(3, dtype="i4")] * 2, [3])


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("fn", [*BINARY, *sorted(COMPARISONS, key=str)], ids=str)
def test_binary(fn, dtype):
    if defined(fn, dtype):
        check([dtype, dtype], lambda x, y: apply(fn, x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", [Fn.DIV, Fn.REM, Fn.COPYSIGN], ids=str)
def test_binary_on_floats(fn, dtype):
    check([dtype, dtype], lambda x, y: apply(fn, x, y))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_scaling(dtype):
    places = np.resize(np.arange(-160, 160), SIZE).astype(dtype.np)
    check([dtype, dtype], lambda x, n: apply(Fn.SCALE, x, n), [sample(dtype, SIZE), places])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_square_root_and_fma(dtype):
    check([dtype], scalar.sqrt)
    check([dtype] * 3, scalar.fma)


@pytest.mark.parametrize("dtype", (dtypes.bool_, *INTEGERS), ids=str)
@pytest.mark.parametrize("fn", BITS, ids=str)
def test_bits(fn, dtype):
    check([dtype, dtype], lambda x, y: apply(fn, x, y))
    check([dtype], lambda x: ~x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("fn", [Fn.DIV, Fn.REM], ids=str)
def test_integer_division(fn, dtype):
    divisors = sample(dtype, SIZE, 3)
    divisors[divisors == 0] = 3
    if dtype.is_signed:
        divisors[::5] = -3
        divisors[divisors == -1] = 7
    check([dtype, dtype], lambda x, y: apply(fn, x, y), [sample(dtype, SIZE), divisors])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_has_a_result_for_every_divisor(dtype):
    low = np.iinfo(dtype.np).min
    x = np.array([5, low, 0, low], dtype.np)
    y = np.array([0, -1 if dtype.is_signed else 1, 0, 1], dtype.np)
    quotient, rest = np.zeros(4, dtype.np), np.zeros(4, dtype.np)
    for fn, out in ((Fn.DIV, quotient), (Fn.REM, rest)):
        run_sequentially(pointwise([dtype, dtype], lambda a, b, fn=fn: apply(fn, a, b)), [x, y, out], [4])
    assert quotient.tolist() == [0, low, 0, low]
    assert rest[1] == 0 and rest[3] == 0


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("fn", SHIFTS, ids=str)
def test_shifts(fn, dtype):
    width = 8 * dtype.itemsize
    counts = (np.arange(SIZE) % width).astype(dtype.np)
    check([dtype, dtype], lambda x, n: apply(fn, x, n), [sample(dtype, SIZE), counts])
    check([dtype], lambda x: apply(fn, x, width - 1))
    far = np.array([width, width + 1, 100, 3], dtype.np)
    out = np.zeros(4, dtype.np)
    value = np.full(4, -8 if dtype.is_signed else 200, dtype.np)
    run_sequentially(pointwise([dtype, dtype], lambda x, n: apply(fn, x, n)), [value, far, out], [4])
    assert out[:3].tolist() == [-1 if fn is Fn.SHR and dtype.is_signed else 0] * 3


@pytest.mark.parametrize("target", REALS, ids=str)
@pytest.mark.parametrize("source", REALS, ids=str)
def test_conversions(source, target):
    values = sample(source, SIZE)
    if source.is_floating_point and target.kind == "int":
        values = (np.arange(SIZE) - (0 if target is dtypes.uint8 else 20)).astype(source.np) * source.np.type(1.25)
    check([source], lambda x: scalar.convert(x, target), [values])


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_conversions_of_what_no_integer_is(source):
    values = np.array([np.nan, np.inf, -np.inf, 3.5], np.float64).astype(source.np)
    for target, lowest in ((dtypes.int64, -(2**63)), (dtypes.int32, -(2**31)), (dtypes.int8, 0), (dtypes.uint8, 0)):
        out = np.zeros(4, target.np)
        run_sequentially(pointwise([source], lambda x, t=target: scalar.convert(x, t)), [values, out], [4])
        assert out.tolist() == [lowest] * 3 + [3]


def test_half_types_are_rounded_once_from_float64():
    for half, bits in ((dtypes.float16, 10), (dtypes.bfloat16, 7)):
        above = 1.0 + 2.0 ** -(bits + 1) + 2.0**-40  # a float32 on the way would be a tie, and round to 1
        x, out = np.array([above, -above, 1e300, np.nan]), np.zeros(4, half.np)
        run_sequentially(pointwise([dtypes.float64], lambda v, h=half: scalar.convert(v, h)), [x, out], [4])
        want = [1.0 + 2.0**-bits, -1.0 - 2.0**-bits, np.inf, np.nan]
        np.testing.assert_array_equal(out.astype(np.float64), want)


@pytest.mark.parametrize(
    ("source", "target"),
    [(a, b) for a in REALS for b in REALS if a.itemsize == b.itemsize and dtypes.bool_ not in (a, b)],
    ids=str,
)
def test_bitcasts(source, target):
    values = sample(source, SIZE)
    if source.is_floating_point:
        values[np.isnan(values.astype(np.float64))] = 1.5  # a NaN's payload may change on the way
    else:
        values &= source.np.type(0x3F)
    check([source], lambda x: scalar.bitcast(x, target), [values])


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_select_and_masked_loads(dtype):
    check([dtypes.bool_, dtype, dtype], scalar.where)
    value = load(0, dtype, I + 1, slot(0) > (I + 1), const(1, dtype))
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out")), 1, (), (Loop(I, ZERO, slot(0), (Store(1, I, value),), "parallel"),)
    )
    x, out = sample(dtype, SIZE), np.zeros(SIZE, dtype.np)
    run_sequentially(kernel, [x, out], [SIZE])
    assert equal(out[:-1], x[1:]) and out[-1] == 1


def test_selects_inside_selects():
    flag = dtypes.bool_
    check([flag] * 3, lambda a, b, c: scalar.where(scalar.where(a, b, c), c, scalar.where(b, ~a, a)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", sorted(MATH, key=str), ids=str)
def test_mathematical_functions(fn, dtype):
    """The stand-ins are NumPy's functions: what is tested is that the right one is called, and rounds to its type."""
    count = 2 if fn in (Fn.POW, Fn.ATAN2) else 1
    x = [np.linspace(0.1, 0.9, SIZE).astype(dtype.np), np.linspace(0.2, 2.0, SIZE).astype(dtype.np)][:count]
    kernel = pointwise([dtype] * count, lambda *xs: apply(fn, *xs))
    outs = [np.zeros(SIZE, dtype.np) for _ in range(2)]
    run_sequentially(kernel, [*x, outs[0]], [SIZE])
    interpret(kernel, [*x, outs[1]], [SIZE])
    a, b = (o.astype(np.float64) for o in outs)
    np.testing.assert_allclose(a, b, rtol=4 * float(np.finfo(np.float64).eps if dtype is dtypes.float64 else
                                                   np.finfo(np.float32).eps if dtype is dtypes.float32 else
                                                   2.0**-10 if dtype is dtypes.float16 else 2.0**-7))  # fmt: skip


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_params_and_literals(dtype):
    number = {"bool": True, "int": 3, "float": 0.7}[dtype.kind]
    fn = Fn.OR if dtype is dtypes.bool_ else Fn.MUL
    value = apply(fn, apply(fn, load(0, dtype, I), param(0, dtype)), const(number, dtype))
    kernel = Kernel(
        (Buffer(dtype, "in"), Buffer(dtype, "out")), 1, (dtype,),
        (Loop(I, ZERO, slot(0), (Store(1, I, value),), "parallel_vector"),),
    )  # fmt: skip
    x, outs = sample(dtype, SIZE), [np.zeros(SIZE, dtype.np) for _ in range(2)]
    run_sequentially(kernel, [x, outs[0]], [SIZE], [number])
    with np.errstate(all="ignore"):
        interpret(kernel, [x, outs[1]], [SIZE], [number])
    assert equal(*outs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 1e-300, -1.5])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_literal_floats(dtype, value):
    check([dtype], lambda x: scalar.where(x.eq(x), const(value, dtype), x))


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, -1, 0])
def test_literal_integers(value):
    check([dtypes.int64], lambda x: x ^ value)
