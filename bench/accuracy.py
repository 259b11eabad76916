"""How far the generated mathematical functions are from the exact values, in units of the last place.

    python bench/accuracy.py [FUNCTION ...] [--samples N] [--all] [--threads N] [--json FILE]

float32 is compared with float64, on samples of every magnitude or, with `--all`, on each of the 2**32 values (10 to 150
seconds a function); float64, which is generated too, with mpmath, on samples. Functions of two numbers are always
sampled. NaN or infinity in the wrong place counts as infinitely far; an infinity just where the largest number is
exceeded counts as the next number. `--json` replaces the rows of the functions measured and keeps the others.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from jitgrad.codegen.cpu import abi, kernels
from jitgrad.codegen.loops.ir import Buffer, Kernel, Loop, Store, load, loop_var, slot
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.registry import REGISTRY
from jitgrad.ir.scalar import Expr, Fn, apply, const, where

BLOCK = 1 << 20
PRECISION = 200
BINARY = ("pow", "atan2")
Row = dict[str, Any]
# Where the samples of each function lie, and the exact function where mpmath's name is another.
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-104, 89), "expm1": (-104, 89), "exp2": (-149, 128), "log": (0, 1e30), "log1p": (-1, 1e30),
    "log2": (0, 1e30), "log10": (0, 1e30), "rsqrt": (0, 1e30), "sin": (-1e5, 1e5), "cos": (-1e5, 1e5),
    "tan": (-1e5, 1e5), "asin": (-1, 1), "acos": (-1, 1), "atan": (-1e10, 1e10), "sinh": (-89, 89), "cosh": (-89, 89),
    "tanh": (-20, 20), "asinh": (-1e30, 1e30), "acosh": (1, 1e30), "atanh": (-1, 1), "sigmoid": (-104, 40),
    "erf": (-6, 6), "erfc": (-10, 10), "lgamma": (0, 1e10),
}  # fmt: skip
EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x), "log1p": lambda x: mpmath.log(1 + x), "log2": lambda x: mpmath.log(x, 2),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "lgamma": mpmath.loggamma,
    "pow": mpmath.power,
}  # fmt: skip


def native(stores: Callable[..., Expr], inputs: tuple[DType, ...], result: DType) -> Callable[..., Any]:
    """The generated loop that stores a function of the inputs' elements and of the element's place."""
    i = loop_var("i")
    place = i + slot(1)
    value = stores(place, *(load(k, dtype, i) for k, dtype in enumerate(inputs)))
    buffers = (*(Buffer(dtype, "in") for dtype in inputs), Buffer(result, "out"))
    loop = Loop(i, const(0), slot(0), (Store(len(inputs), i, value),), "vector")
    address = kernels.compile_kernels([Kernel(buffers, 2, (), (loop,))])[0].address

    def run(*arrays: Any, size: int = 0, start: int = 0) -> Any:
        out = np.empty(size or len(arrays[0]), result.np)
        abi.call_kernel(address, [*arrays, out], [len(out), start])
        return out

    return run


def function(name: str, *x: Expr) -> Expr:
    """The op's meaning for elements."""
    return REGISTRY[name]().scalar(*x)


def distance(narrow: Expr, exact: Expr) -> Expr:
    """How far a float32 is from a float64, in ulp of the latter."""
    beyond = 2.0**128
    result, exact = (
        where(scalar.absolute(v) >= beyond, apply(Fn.COPYSIGN, scalar.lift(beyond, v.dtype), v), v)
        for v in (scalar.convert(narrow, dtypes.float64), exact)
    )
    exponent = (scalar.bitcast(exact, dtypes.int64) >> 52) & 0x7FF
    exponent = where(exponent < 1023 - 126, 1023 - 126, where(exponent > 1023 + 127, 1023 + 127, exponent))
    places = scalar.absolute(result - exact) * scalar.bitcast((2 * 1023 + 23 - exponent) << 52, dtypes.float64)
    neither, either = scalar.is_nan(result) & scalar.is_nan(exact), scalar.is_nan(result) | scalar.is_nan(exact)
    return scalar.convert(where(neither, 0.0, where(either, math.inf, places)), dtypes.float32)


def errors_of(name: str, *x: Expr) -> Expr:
    """The distance of the function of float32 elements from that of the same elements as float64."""
    return distance(function(name, *x), function(name, *(scalar.convert(v, dtypes.float64) for v in x)))


def samples(name: str, dtype: DType, size: int) -> tuple[Any, ...]:
    """Half of the values even over the function's range, half even over magnitudes."""
    rng = np.random.default_rng(0)
    if name == "atan2":
        return tuple((rng.standard_normal(size) * 10 ** rng.uniform(-5, 5, size)).astype(dtype.np) for _ in range(2))
    if name == "pow":
        base, exponent = np.exp(rng.uniform(-20, 20, size)), rng.uniform(-4, 4, size)
        base[::2], exponent[::2] = rng.uniform(0.5, 2, len(base[::2])), rng.uniform(-120, 120, len(base[::2]))
        return base.astype(dtype.np), exponent.astype(dtype.np)
    low, high = RANGES[name]
    values = rng.uniform(max(low, -1e3), min(high, 1e3), size)
    spread = 10 ** rng.uniform(-12, np.log10(high), len(values[::2]))
    values[::2] = np.where((rng.random(len(spread)) < 0.5) & (low < 0), np.maximum(-spread, low), spread)
    values[::4] = rng.uniform(max(low, -3), min(high, 3), len(values[::4]))
    return (np.maximum(values, low).astype(dtype.np),)


class Worst:
    """The largest of the errors seen, where it was, and their mean."""

    def __init__(self) -> None:
        self.largest, self.where, self.total, self.count = -1.0, "", 0.0, 0

    def add(self, errors: Any, inputs: Callable[[int], tuple[float, ...]]) -> None:
        """Count errors; `inputs` gives the arguments at a place."""
        place = int(np.argmax(errors))
        if errors[place] > self.largest:
            self.largest, self.where = float(errors[place]), ", ".join(repr(float(x)) for x in inputs(place))
        self.total, self.count = self.total + float(errors.sum(dtype=np.float64)), self.count + len(errors)

    def row(self, dtype: str) -> Row:
        """As entries of a row."""
        mean = round(self.total / self.count, 3)
        return {f"{dtype} max": round(self.largest, 3), f"{dtype} mean": mean, f"{dtype} at": self.where}


def every_float32(name: str, threads: int) -> Worst:
    """All errors of a function of one number."""
    run = native(
        lambda place: errors_of(name, scalar.bitcast(scalar.convert(place, dtypes.int32), dtypes.float32)),
        (), dtypes.float32,
    )  # fmt: skip
    worst = Worst()
    with ThreadPoolExecutor(threads) as pool:
        for some in _batches(range(0, 1 << 32, BLOCK), 4 * threads):
            for start, errors in zip(some, pool.map(lambda start: run(size=BLOCK, start=start), some), strict=True):
                bits = start  # of the block's first number
                worst.add(errors, lambda k: (np.uint32(bits + k).view(np.float32),))  # noqa: B023
    return worst


def _batches(items: range, size: int) -> Iterator[range]:
    return (items[i : i + size] for i in range(0, len(items), size))


def some_float32(name: str, size: int) -> Worst:
    """The errors of samples."""
    inputs, worst = samples(name, dtypes.float32, size), Worst()
    run = native(lambda _, *x: errors_of(name, *x), (dtypes.float32,) * len(inputs), dtypes.float32)
    worst.add(run(*inputs), lambda k: tuple(x[k] for x in inputs))
    return worst


def some_float64(name: str, size: int) -> Worst:
    """The distances of samples from mpmath's values; 0 where the result is not finite."""
    inputs, worst = samples(name, dtypes.float64, size), Worst()
    run = native(lambda _, *x: function(name, *x), (dtypes.float64,) * len(inputs), dtypes.float64)
    exactly = EXACT.get(name) or getattr(mpmath, name)
    errors = []
    with mpmath.workprec(PRECISION):
        for got, *row in zip(run(*inputs).tolist(), *(x.tolist() for x in inputs)):
            exact = mpmath.re(exactly(*map(mpmath.mpf, row))) if np.isfinite(got) else mpmath.mpf(0)
            place = mpmath.mpf(2) ** (max(mpmath.frexp(exact)[1] - 1, -1022) - 52)
            errors.append(float(abs(mpmath.mpf(got) - exact) / place) if exact else 0.0)
    worst.add(np.array(errors), lambda k: tuple(x[k] for x in inputs))
    return worst


def measure(name: str, size: int, everything: bool, threads: int) -> Row:
    """The row of one function."""
    exhaustive = everything and name not in BINARY
    single = every_float32(name, threads) if exhaustive else some_float32(name, size)
    kind = {"function": name, "float32 inputs": "all" if exhaustive else f"{single.count} samples"}
    return kind | single.row("float32") | some_float64(name, max(1000, size // 100)).row("float64")


def keep(path: Path, rows: list[Row]) -> None:
    """Replace the rows of the functions measured, in the table's order."""
    known = {row["function"]: row for row in (json.loads(path.read_text()) if path.exists() else [])}
    known |= {row["function"]: row for row in rows}
    path.write_text(json.dumps([known[name] for name in (*RANGES, *BINARY) if name in known], indent=1) + "\n")


def line(row: Row) -> str:
    """A row of the table."""
    return (
        f"{row['function']:8} {row['float32 max']:12.3f} {row['float32 mean']:6.3f} {row['float32 inputs']:>14}"
        f" {row['float64 max']:12.3f} {row['float64 mean']:6.3f}   {row['float32 at']}; {row['float64 at']}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("functions", nargs="*", help="names such as exp; all by default")
    parser.add_argument("--samples", type=int, default=500_000)
    parser.add_argument("--all", action="store_true", help="every float32 there is")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{'':8} {'float32: max':>12} {'mean':>6} {'inputs':>14} {'float64: max':>12} {'mean':>6}   worst at")
    for name in arguments.functions or (*RANGES, *BINARY):
        row = measure(name, arguments.samples, arguments.all, arguments.threads)
        print(line(row), flush=True)
        if arguments.json:
            keep(arguments.json, [row])


if __name__ == "__main__":
    main()
