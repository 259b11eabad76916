"""The mathematical functions: error in ulp against mpmath and float64, special values against C's."""

import math

import ml_dtypes
import mpmath
import numpy as np
import pytest
from codegen.kernels import pointwise

from jitgrad.codegen import mathlib
from jitgrad.codegen.cpu import abi, kernels
from jitgrad.ir import dtypes, scalar, special
from jitgrad.ir.registry import REGISTRY
from jitgrad.ir.scalar import Fn, apply

F32, F64 = dtypes.float32, dtypes.float64
# For each function: where it is sampled, and the largest error allowed in float32 and float64, in ulp.
DOMAINS = {
    Fn.EXP: ((-104, 89), 1.2, 1.2),
    Fn.EXPM1: ((-90, 88), 1.3, 1.5),
    Fn.LOG: ((1e-3, 1e3), 1.0, 1.0),
    Fn.LOG1P: ((-0.999, 1e3), 1.2, 1.2),
    Fn.LOG2: ((1e-3, 1e3), 1.0, 1.0),
    Fn.SIN: ((-100, 100), 1.5, 1.0),
    Fn.COS: ((-100, 100), 1.5, 1.0),
    Fn.TAN: ((-100, 100), 1.0, 1.0),
    Fn.ASIN: ((-1, 1), 1.5, 1.5),
    Fn.ACOS: ((-1, 1), 1.5, 1.5),
    Fn.ATAN: ((-50, 50), 1.5, 1.5),
    Fn.SINH: ((-80, 80), 1.3, 1.3),
    Fn.COSH: ((-80, 80), 1.3, 1.3),
    Fn.TANH: ((-12, 12), 1.5, 1.5),
    Fn.ERF: ((-5, 5), 1.5, 1.5),
    Fn.ERFC: ((-9, 9), 1.0, 2.0),
    Fn.LGAMMA: ((1e-3, 100), 1.0, 2.0),
}
WIDE = {
    Fn.EXP: np.exp, Fn.EXPM1: np.expm1, Fn.LOG: np.log, Fn.LOG1P: np.log1p, Fn.LOG2: np.log2, Fn.SIN: np.sin,
    Fn.COS: np.cos, Fn.TAN: np.tan, Fn.ASIN: np.arcsin, Fn.ACOS: np.arccos, Fn.ATAN: np.arctan, Fn.SINH: np.sinh,
    Fn.COSH: np.cosh, Fn.TANH: np.tanh, Fn.ERF: special.erf, Fn.ERFC: special.erfc, Fn.LGAMMA: special.lgamma,
    Fn.POW: np.power, Fn.ATAN2: np.arctan2,
}  # fmt: skip
EXACT = {
    Fn.LOG1P: lambda x: mpmath.log(1 + x), Fn.LOG2: lambda x: mpmath.log(x, 2), Fn.LGAMMA: mpmath.loggamma,
    Fn.POW: mpmath.power,
}  # fmt: skip


def run(fn, dtype, *inputs):
    arrays = [np.asarray(a, dtype.np) for a in inputs]
    kernel = pointwise([dtype] * len(arrays), lambda *a: apply(fn, *a))
    out = np.zeros_like(arrays[0])
    abi.call_kernel(kernels.compile_kernels([kernel])[0].address, [*arrays, out], [len(out)], None, 0, len(out))
    return out


def samples(fn, dtype, size):
    low, high = DOMAINS[fn][0]
    rng = np.random.default_rng(0)
    values = rng.uniform(low, high, size)
    values[::3] *= 10.0 ** rng.uniform(-8, 0, len(values[::3]))  # many close to 0
    return np.clip(values, low, high).astype(dtype.np)


def error_in_ulp(result, exact):
    """The largest distance from float64 or mpmath values, in units of the last place of the exact value."""
    info = np.finfo(result.dtype)
    worst = 0.0
    for got, want in zip(result.tolist(), exact):
        if want == 0:
            assert got == 0
            continue
        place = max(mpmath.frexp(want)[1] - 1, info.minexp) - info.nmant
        worst = max(worst, float(abs(mpmath.mpf(got) - want) / mpmath.mpf(2) ** place))
    return worst


def in_mpmath(fn, *inputs):
    function = EXACT.get(fn) or getattr(mpmath, fn.value)
    with mpmath.workprec(150):
        return [mpmath.re(function(*map(mpmath.mpf, row))) for row in zip(*(a.tolist() for a in inputs))]


def test_every_function_has_an_expansion():
    assert set(DOMAINS) | {Fn.POW, Fn.ATAN2} == scalar.MATH
    for fn in scalar.MATH:
        for dtype in (F32, F64):
            assert not (scalar.MATH | {Fn.REM}) & {e.fn for e in mathlib.expand(fn, dtype).nodes}


@pytest.mark.parametrize("fn", DOMAINS, ids=lambda f: f.value)
def test_accuracy_in_float32(fn):
    x = samples(fn, F32, 20000)
    exact = WIDE[fn](x.astype("d"))
    result = run(fn, F32, x)
    normal = np.abs(exact) < np.finfo("f").max
    error = np.abs(result[normal] - exact[normal]) / np.spacing(np.abs(exact[normal]).astype("f"))
    assert np.max(error) <= DOMAINS[fn][1]
    np.testing.assert_array_equal(np.isinf(result), ~normal)


@pytest.mark.parametrize("fn", DOMAINS, ids=lambda f: f.value)
def test_accuracy_in_float64(fn):
    x = samples(fn, F64, 1000)
    assert error_in_ulp(run(fn, F64, x), in_mpmath(fn, x)) <= DOMAINS[fn][2]


@pytest.mark.parametrize(("dtype", "size"), [(F32, 4000), (F64, 1000)], ids=["f32", "f64"])
def test_accuracy_of_pow_and_atan2(dtype, size):
    rng = np.random.default_rng(1)
    base, exponent = np.exp(rng.uniform(-20, 20, size)).astype(dtype.np), rng.uniform(-4, 4, size).astype(dtype.np)
    base[::2], exponent[::2] = rng.uniform(0.5, 2, size // 2), rng.uniform(-100, 100, size // 2)
    assert error_in_ulp(run(Fn.POW, dtype, base, exponent), in_mpmath(Fn.POW, base, exponent)) <= 1.2
    y, x = rng.standard_normal((2, size)).astype(dtype.np)
    assert error_in_ulp(run(Fn.ATAN2, dtype, y, x), in_mpmath(Fn.ATAN2, y, x)) <= 1.5


@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("fn", [Fn.SIN, Fn.COS, Fn.TAN], ids=lambda f: f.value)
def test_huge_angles(fn, dtype):
    limit = 38 if dtype is F32 else 308
    x = (10.0 ** np.random.default_rng(2).uniform(3, limit, 300)).astype(dtype.np)
    with mpmath.workprec(1200):
        exact = [getattr(mpmath, fn.value)(mpmath.mpf(v)) for v in x.tolist()]
    assert error_in_ulp(run(fn, dtype, x), exact) <= 2.0


def special_values(dtype):
    info = np.finfo(dtype.np)
    small = [0.0, -0.0, float(info.smallest_subnormal), -float(info.smallest_subnormal), float(info.tiny) / 2]
    plain = [0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 3.0, -3.0, 7.25, -2.5, 1e-10, -1e-10]
    large = [88.0, -88.0, 103.0, -104.0, 710.0, -746.0, 1e5, -1e5, float(info.max), -float(info.max)]
    return np.array([*small, *plain, *large, np.inf, -np.inf, np.nan], dtype.np)


def assert_alike(result, expected, inputs):
    """NaN where NaN, infinite where infinite with the sign, zero where zero with the sign, else close."""
    for got, want, *given in zip(result, expected, *inputs):
        message = f"{given}: {got} instead of {want}"
        assert np.isnan(got) == np.isnan(want), message
        if np.isnan(want):
            continue
        if want == 0 or np.isinf(want):
            assert got == want and np.signbit(got) == np.signbit(want), message
        else:
            relative = 1e-6 if result.dtype == np.float32 else 1e-14  # Python's lgamma is not closer
            assert math.isclose(float(got), float(want), rel_tol=relative, abs_tol=1e-45), message


@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("fn", DOMAINS, ids=lambda f: f.value)
def test_special_values(fn, dtype):
    x = special_values(dtype)
    with np.errstate(all="ignore"):
        expected = WIDE[fn](x.astype("d")).astype(dtype.np)
    assert_alike(run(fn, dtype, x), expected, [x])


@pytest.mark.parametrize("dtype", [F32, F64], ids=["f32", "f64"])
@pytest.mark.parametrize("fn", [Fn.POW, Fn.ATAN2], ids=lambda f: f.value)
def test_special_values_of_two(fn, dtype):
    values = special_values(dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    function = {Fn.POW: math.pow, Fn.ATAN2: math.atan2}[fn]
    with np.errstate(all="ignore"):
        expected = np.array([_c_result(function, a, b) for a, b in zip(x.tolist(), y.tolist())]).astype(dtype.np)
    assert_alike(run(fn, dtype, x, y), expected, [x, y])


def _c_result(function, a, b):
    """What C gives where Python raises."""
    try:
        return function(a, b)
    except (OverflowError, ValueError):
        with np.errstate(all="ignore"):
            return float(np.power(a, b))


def test_denormals_in_and_out():
    tiny = np.array([1e-40, 3e-42, 1.4e-45], "f")
    np.testing.assert_allclose(run(Fn.LOG, F32, tiny), np.log(tiny.astype("d")), rtol=1e-7)
    np.testing.assert_allclose(run(Fn.LOG2, F64, np.array([5e-324])), [-1074.0], rtol=0)
    x = np.linspace(-103.5, -87, 500).astype("f")
    error = np.abs(run(Fn.EXP, F32, x) - np.exp(x.astype("d"))) / 2.0**-149
    assert error[x < -90].max() <= 0.55 and error.max() <= 1.2
    assert run(Fn.EXP, F64, np.array([-745.0]))[0] == 5e-324


def test_powers_of_two_are_exact():
    n = np.arange(-126, 128)
    np.testing.assert_array_equal(run(Fn.LOG2, F32, 2.0**n), n)
    np.testing.assert_array_equal(run(Fn.POW, F32, np.full(len(n), 2.0), n), (2.0**n).astype("f"))
    np.testing.assert_array_equal(run(Fn.POW, F64, np.full(len(n), 2.0), n), 2.0**n)


@pytest.mark.parametrize("dtype", [F32, F64, dtypes.float16], ids=lambda d: d.short)
def test_remainders_are_exact(dtype):
    rng = np.random.default_rng(3)
    size, spread = 5000, {2: 4, 4: 30, 8: 250}[dtype.itemsize]
    with np.errstate(all="ignore"):
        x, y = (rng.standard_normal((2, size)) * 10.0 ** rng.uniform(-spread, spread, (2, size))).astype(dtype.np)
        y[::2] = (x[::2] / rng.integers(1, 2000, size // 2)).astype(dtype.np)  # close to whole quotients
        x[::7] = (y[::7] * rng.integers(1, 2**10, len(x[::7]))).astype(dtype.np)
        values = special_values(F32 if dtype is dtypes.float16 else dtype).astype(dtype.np)
        x, y = (np.concatenate([a, b.ravel()]) for a, b in zip((x, y), np.meshgrid(values, values)))
        expected = np.fmod(x, y)
    result = run(Fn.REM, dtype, x, y)
    np.testing.assert_array_equal(result, expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(expected[zeros]))


UNARY = [*(fn.value for fn in DOMAINS), "exp2", "log10", "rsqrt", "sqrt", "sigmoid", "asinh", "acosh", "atanh"]


def run_op(name, dtype, x):
    kernel = pointwise([dtype], REGISTRY[name]().scalar)
    out = np.zeros_like(x)
    abi.call_kernel(kernels.compile_kernels([kernel])[0].address, [x, out], [len(x)], None, 0, len(x))
    return out


@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("name", UNARY)
def test_every_value_of_the_half_types(name, half):
    x = np.arange(1 << 16, dtype=np.uint16).view(half.np)
    info = ml_dtypes.finfo(half.np)
    with np.errstate(all="ignore"):
        result, exact = run_op(name, half, x).astype("d"), run_op(name, F64, x.astype("d"))
        places = np.maximum(np.frexp(exact)[1] - 1, info.minexp) - info.nmant
        inside = np.abs(exact) <= float(info.max)
        error = np.ldexp(np.abs(result - exact), -places)[inside]
        beyond = exact.astype(half.np).astype("d")[~inside]
    assert np.max(error) <= 0.501  # float32's 1.5 ulp are 2**-12 of float16's, and of bfloat16's less
    np.testing.assert_array_equal(result[~inside], beyond)  # NaN and infinity, or the largest number
