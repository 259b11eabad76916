"""How far the generated mathematical functions are from the exact values, in units of the last place.

    python bench/accuracy.py [FUNCTION ...] [--samples N] [--all] [--json FILE]

float32 is compared with float64 (NumPy's and SciPy's), on samples of every magnitude or, with `--all`, on each of the
2**32 values (some minutes a function); float64 with mpmath, on samples. Only finite results are counted; that special
values are right is the tests' business.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import scipy.special

from jitgrad.codegen.cpu import abi, kernels
from jitgrad.codegen.loops.ir import Buffer, Kernel, Loop, Store, load, loop_var, slot
from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Fn, apply, const

BLOCK = 1 << 22
PRECISION = 160
IN_FLOAT64: dict[Fn, Callable[..., Any]] = {
    Fn.EXP: np.exp, Fn.EXPM1: np.expm1, Fn.LOG: np.log, Fn.LOG1P: np.log1p, Fn.LOG2: np.log2, Fn.SIN: np.sin,
    Fn.COS: np.cos, Fn.TAN: np.tan, Fn.ASIN: np.arcsin, Fn.ACOS: np.arccos, Fn.ATAN: np.arctan, Fn.SINH: np.sinh,
    Fn.COSH: np.cosh, Fn.TANH: np.tanh, Fn.ERF: scipy.special.erf, Fn.ERFC: scipy.special.erfc,
    Fn.LGAMMA: scipy.special.gammaln, Fn.POW: np.power, Fn.ATAN2: np.arctan2,
}  # fmt: skip
IN_MPMATH: dict[Fn, Callable[..., Any]] = {
    Fn.LOG1P: lambda x: mpmath.log(1 + x), Fn.LOG2: lambda x: mpmath.log(x, 2), Fn.LGAMMA: mpmath.loggamma,
    Fn.POW: mpmath.power,
}  # fmt: skip
RANGE: dict[Fn, tuple[float, float]] = {
    Fn.EXP: (-104, 89), Fn.EXPM1: (-104, 89), Fn.LOG: (0, 1e30), Fn.LOG1P: (-1, 1e30), Fn.LOG2: (0, 1e30),
    Fn.SIN: (-1e5, 1e5), Fn.COS: (-1e5, 1e5), Fn.TAN: (-1e5, 1e5), Fn.ASIN: (-1, 1), Fn.ACOS: (-1, 1),
    Fn.ATAN: (-1e10, 1e10), Fn.SINH: (-89, 89), Fn.COSH: (-89, 89), Fn.TANH: (-20, 20), Fn.ERF: (-6, 6),
    Fn.ERFC: (-10, 10), Fn.LGAMMA: (0, 1e10),
}  # fmt: skip
"""Where the samples lie."""


def native(fn: Fn, dtype: DType) -> Callable[..., Any]:
    """The generated function on arrays."""
    i, count = loop_var("i"), 2 if fn in (Fn.POW, Fn.ATAN2) else 1
    value = apply(fn, *(load(k, dtype, i) for k in range(count)))
    buffers = (*(Buffer(dtype, "in") for _ in range(count)), Buffer(dtype, "out"))
    loop = Loop(i, const(0), slot(0), (Store(count, i, value),), "vector")
    address = kernels.compile_kernels([Kernel(buffers, 1, (), (loop,))])[0].address

    def run(*inputs: Any) -> Any:
        out = np.empty_like(inputs[0])
        abi.call_kernel(address, [*inputs, out], [len(out)])
        return out

    return run


def samples(fn: Fn, dtype: DType, size: int) -> tuple[Any, ...]:
    """Half of the values even over the function's range, half even over magnitudes."""
    rng = np.random.default_rng(0)
    if fn is Fn.ATAN2:
        return tuple((rng.standard_normal(size) * 10 ** rng.uniform(-5, 5, size)).astype(dtype.np) for _ in range(2))
    if fn is Fn.POW:
        base, exponent = np.exp(rng.uniform(-20, 20, size)), rng.uniform(-4, 4, size)
        base[::2], exponent[::2] = rng.uniform(0.5, 2, len(base[::2])), rng.uniform(-120, 120, len(base[::2]))
        return base.astype(dtype.np), exponent.astype(dtype.np)
    low, high = RANGE[fn]
    values = rng.uniform(max(low, -1e3), min(high, 1e3), size)
    spread = 10 ** rng.uniform(-12, np.log10(high), len(values[::2]))
    values[::2] = np.where((rng.random(len(spread)) < 0.5) & (low < 0), np.maximum(-spread, low), spread)
    return (values.astype(dtype.np),)


def every_float32() -> Iterator[tuple[Any]]:
    """All values of float32, block by block."""
    for start in range(0, 1 << 32, BLOCK):
        yield (np.arange(start, start + BLOCK, dtype=np.uint32).view(np.float32),)


def float32_errors(fn: Fn, result: Any, inputs: tuple[Any, ...]) -> Any:
    """The distance from float64's value in ulp; 0 where either is not finite."""
    with np.errstate(all="ignore"):
        exact = IN_FLOAT64[fn](*(x.astype(np.float64) for x in inputs))
        exponent = np.maximum(np.frexp(exact)[1], -125)
        errors = np.ldexp(np.abs(result - exact), 24 - exponent)
    return np.where(np.isfinite(result) & np.isfinite(exact), errors, 0.0)


def float64_errors(fn: Fn, result: Any, inputs: tuple[Any, ...]) -> Any:
    """The distance from mpmath's value in ulp; 0 where the result is not finite."""
    function = IN_MPMATH.get(fn) or getattr(mpmath, fn.value)
    errors = []
    with mpmath.workprec(PRECISION):
        for got, *row in zip(result.tolist(), *(x.tolist() for x in inputs)):
            exact = mpmath.re(function(*map(mpmath.mpf, row))) if np.isfinite(got) else mpmath.mpf(0)
            place = mpmath.mpf(2) ** (max(mpmath.frexp(exact)[1] - 1, -1022) - 52)
            errors.append(float(abs(mpmath.mpf(got) - exact) / place) if exact else 0.0)
    return np.array(errors)


def measure(fn: Fn, size: int, everything: bool) -> dict[str, Any]:
    """The row of one function."""
    run, row = native(fn, dtypes.float32), {"function": fn.value}
    blocks = every_float32() if everything and fn in RANGE else iter([samples(fn, dtypes.float32, size)])
    worst, total, count, where = 0.0, 0.0, 0, ""
    for inputs in blocks:
        errors = float32_errors(fn, run(*inputs), inputs)
        place = int(np.argmax(errors))
        if errors[place] > worst:
            worst, where = float(errors[place]), ", ".join(repr(float(x[place])) for x in inputs)
        total, count = total + float(errors.sum()), count + len(errors)
    row |= {"float32 max": round(worst, 3), "float32 mean": round(total / count, 3), "float32 at": where}
    inputs = samples(fn, dtypes.float64, max(1000, size // 100))
    errors = float64_errors(fn, native(fn, dtypes.float64)(*inputs), inputs)
    place = int(np.argmax(errors))
    where = ", ".join(repr(float(x[place])) for x in inputs)
    return row | {"float64 max": round(float(errors[place]), 3), "float64 mean": round(float(errors.mean()), 3),
                  "float64 at": where}  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("functions", nargs="*", help="names such as exp; all by default")
    parser.add_argument("--samples", type=int, default=500_000)
    parser.add_argument("--all", action="store_true", help="every float32 there is")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    chosen = [fn for fn in IN_FLOAT64 if not arguments.functions or fn.value in arguments.functions]
    print(f"{'':8} {'float32: max':>12} {'mean':>6}  {'float64: max':>12} {'mean':>6}   worst at")
    rows = []
    for fn in chosen:
        row = measure(fn, arguments.samples, arguments.all)
        rows.append(row)
        print(
            f"{fn.value:8} {row['float32 max']:12.3f} {row['float32 mean']:6.3f}  {row['float64 max']:12.3f} "
            f"{row['float64 mean']:6.3f}   {row['float32 at']}; {row['float64 at']}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
