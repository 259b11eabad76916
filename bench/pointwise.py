"""`gelu(a + b)` on 4M float32: NumPy, jitgrad, and PyTorch and JAX where they are installed, side by side.

    python bench/pointwise.py [--size N] [--rounds N] [--threads N]

All take turns in every round, so that what else runs on the machine hits them alike; the best and the median round
count. First calls are timed in processes of their own, with an empty kernel cache and the libraries already
imported. Writes `bench/results/pointwise.json`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "pointwise.json"
Run = Callable[[], Any]


def gelu_numpy(a: Any, b: Any) -> Any:
    """GELU by tanh, of a sum."""
    x = a + b
    return (
        x
        * np.float32(0.5)
        * (np.float32(1) + np.tanh((x + x * x * x * np.float32(0.044715)) * np.float32(0.7978845608)))
    )


def numpy_run(a: Any, b: Any, threads: int) -> Run:
    """NumPy has one thread."""
    return lambda: gelu_numpy(a, b)


def jitgrad_run(a: Any, b: Any, threads: int) -> Run:
    """The code generator alone."""
    from jitgrad.codegen import compile_graph, set_num_threads
    from jitgrad.ir import dtypes
    from jitgrad.ir.builder import Builder
    from jitgrad.ir.ops.activation import Gelu
    from jitgrad.ir.ops.arithmetic import Add
    from jitgrad.ir.types import TensorType

    set_num_threads(threads)
    builder = Builder()
    x, y = (builder.input(TensorType(v.shape, dtypes.float32)) for v in (a, b))
    run = compile_graph(builder.build([builder(Gelu("tanh"), builder(Add(), x, y))]))
    return lambda: run([a, b])[0]


def torch_run(a: Any, b: Any, threads: int) -> Run:
    """PyTorch, eager."""
    import torch

    torch.set_num_threads(threads)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    return lambda: torch.nn.functional.gelu(x + y, approximate="tanh").numpy()


def jax_run(a: Any, b: Any, threads: int) -> Run:
    """JAX, jitted."""
    import jax

    run = jax.jit(lambda x, y: jax.nn.gelu(x + y, approximate=True))
    x, y = jax.numpy.asarray(a), jax.numpy.asarray(b)
    return lambda: run(x, y).block_until_ready()


WAYS: dict[str, Callable[[Any, Any, int], Run]] = {
    "numpy": numpy_run,
    "jitgrad": jitgrad_run,
    "torch": torch_run,
    "jax": jax_run,
}
IMPORTS = {
    "numpy": "numpy",
    "jitgrad": "jitgrad.codegen.compile, jitgrad.codegen.cpu.threads",
    "torch": "torch",
    "jax": "jax",
}


def inputs(size: int) -> tuple[Any, Any]:
    """Normal numbers."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(size, np.float32), rng.standard_normal(size, np.float32)


def first_call(way: str, size: int, threads: int) -> float:
    """Milliseconds that the first call, compiling included, takes more than a later one."""
    code = (
        f"import sys, time; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import {IMPORTS[way]}\nimport pointwise\n"
        f"a, b = pointwise.inputs({size})\n"
        "start = time.perf_counter()\n"
        f"run = pointwise.WAYS[{way!r}](a, b, {threads}); run()\n"
        "first = time.perf_counter() - start\n"
        "later = min(pointwise.timed(run) for _ in range(20))\n"
        "print(1e3 * (first - later))\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "JITGRAD_CACHE_DIR": cache}
        out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return float(out.stdout.split()[-1])


def timed(run: Run) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(size: int, rounds: int, threads: int) -> dict[str, dict[str, float]]:
    """Milliseconds by way."""
    a, b = inputs(size)
    ways = [w for w in WAYS if w == "jitgrad" or importlib.util.find_spec(w)]
    runs = {w: WAYS[w](a, b, threads) for w in ways}
    expected = np.asarray(runs["numpy"]())
    for run in runs.values():
        np.testing.assert_allclose(np.asarray(run()), expected, rtol=1e-4, atol=1e-5)
    times: dict[str, list[float]] = {w: [] for w in ways}
    for _ in range(rounds):
        for way, run in runs.items():
            time.sleep(0.02)  # the threads of the one before may still be spinning
            run()
            times[way] += [1e3 * timed(run) for _ in range(3)]
    return {
        way: {"best_ms": min(t), "median_ms": statistics.median(t), "first_call_ms": first_call(way, size, threads)}
        for way, t in times.items()
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4 * 1024 * 1024)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    found = measure(options.size, options.rounds, options.threads)
    ours = found["jitgrad"]["best_ms"]
    print(f"gelu(a + b), {options.size} float32, {options.threads} threads")
    print(f"{'':10}{'best ms':>10}{'median ms':>12}{'first call ms':>16}{'ratio to jitgrad':>19}")
    for way, t in found.items():
        t["ratio"] = t["best_ms"] / ours
        print(f"{way:10}{t['best_ms']:10.2f}{t['median_ms']:12.2f}{t['first_call_ms']:16.1f}{t['ratio']:19.2f}")
    RESULTS.parent.mkdir(exist_ok=True)
    record = {"size": options.size, "threads": options.threads, "machine": platform.processor(), "ways": found}
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
