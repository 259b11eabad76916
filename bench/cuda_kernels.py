"""What kernels reach on a GPU: copy bandwidth, launches, whole steps beside PyTorch. Without a GPU it says so.

    python bench/cuda_kernels.py [--json FILE]

Contestants take turns in one run; every figure is the best of several repetitions. Bandwidth counts each operand and
each result once, and stands beside that of a copy within device memory, which is the goal's measure (90 %).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad as jg

REPEAT, CALLS = 10, 20
MEGA = 1 << 20


def best(functions: dict[str, Callable[[], Any]], wait: Callable[[], None]) -> dict[str, float]:
    """Microseconds per call, the contestants alternating."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for f in functions.values():
        for _ in range(3):
            f()
    for _ in range(REPEAT):
        for name, f in functions.items():
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                f()
            wait()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: min(t) for name, t in times.items()}


def on_gpu(*shape: int) -> jg.Tensor:
    """Normal numbers on the device."""
    return jg.tensor(np.random.default_rng(0).standard_normal(shape, np.float32), device="cuda")


@jg.compile
def gelu_of_sum(a, b):
    return jg.nn.functional.gelu(a + b)


@jg.compile
def softmax_rows(x):
    return jg.softmax(x, -1)


@jg.compile
def total(x):
    return x.sum()


@jg.compile
def column_sums(x):
    return x.sum(0)


@jg.compile
def transposed(x):
    return x.t() + 1


def bandwidth() -> list[dict[str, Any]]:
    """Gigabytes a second of fused kernels, and of a copy of as much."""
    side = 8192
    x, y = on_gpu(side, side), on_gpu(side, side)
    copied = jg.empty_like(x)
    moved = 4 * side * side
    cases = {
        "device copy": (lambda: copied.copy_(x), 2 * moved),
        "gelu(a + b)": (lambda: gelu_of_sum(x, y), 3 * moved),
        "softmax of rows": (lambda: softmax_rows(x), 2 * moved),
        "sum of all": (lambda: total(x), moved),
        "sums of columns": (lambda: column_sums(x), moved),
        "transposed + 1": (lambda: transposed(x), 2 * moved),
    }
    times = best({name: f for name, (f, _) in cases.items()}, jg.cuda.synchronize)
    figures = {name: nbytes / times[name] / 1e3 for name, (_, nbytes) in cases.items()}
    return [
        {"what": name, "GB/s": round(figure, 1), "of a copy": round(figure / figures["device copy"], 3)}
        for name, figure in figures.items()
    ]


def launches() -> list[dict[str, Any]]:
    """Microseconds of a call that does next to nothing: one kernel, and a step of several."""
    x = on_gpu(16)
    step = jg.compile(lambda v: ((v * 2).sum() + v).softmax(0))
    functions = {
        "eager a + a": lambda: x + x,
        "compiled a + a": lambda: small(x),
        "compiled, 3 kernels": lambda: step(x),
    }
    return [{"what": name, "us": round(t, 2)} for name, t in best(functions, jg.cuda.synchronize).items()]


@jg.compile
def small(x):
    return x + x


def step_of(lib: Any, device: str) -> tuple[Any, Callable[[], Any]]:
    """A perceptron's training step in `lib`, which is jitgrad or PyTorch."""
    net = lib.nn.Sequential(lib.nn.Linear(784, 1024), lib.nn.GELU(), lib.nn.Linear(1024, 10)).to(device)
    update = lib.optim.AdamW(net.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    x = lib.tensor(rng.standard_normal((256, 784), np.float32), device=device)
    y = lib.tensor(rng.integers(0, 10, 256), device=device)

    def step() -> Any:
        update.zero_grad()
        loss = lib.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        update.step()
        return loss

    return net, step


def steps() -> list[dict[str, Any]]:
    """Microseconds of whole training steps, beside PyTorch eager and compiled where it is installed."""
    functions = {"jitgrad eager": step_of(jg, "cuda")[1], "jitgrad compiled": jg.compile(step_of(jg, "cuda")[1])}
    wait = jg.cuda.synchronize
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        print("PyTorch is not installed: its columns are left out")
    else:
        if torch.cuda.is_available():
            functions["PyTorch eager"] = step_of(torch, "cuda")[1]
            functions["torch.compile"] = torch.compile(step_of(torch, "cuda")[1])

            def wait() -> None:
                jg.cuda.synchronize()
                torch.cuda.synchronize()

    return [{"what": name, "us": round(t, 1)} for name, t in best(functions, wait).items()]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not jg.cuda.is_available():
        sys.exit("no CUDA device here: nothing is measured (a simulated one has no times worth printing)")
    if "simulat" in jg.cuda.get_device_name().lower():
        sys.exit("the CUDA device is simulated, and has no times worth printing: nothing is measured")
    report = {"device": jg.cuda.get_device_name(), "bandwidth": bandwidth(), "launches": launches(), "steps": steps()}
    for part in ("bandwidth", "launches", "steps"):
        print(f"\n{part} on {report['device']}")
        for row in report[part]:
            print("  " + "  ".join(f"{k}: {v}" for k, v in row.items()))
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
