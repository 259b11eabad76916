"""What an eager op, an import and a small backward cost, beside NumPy and (where installed) PyTorch.

    python bench/eager.py [--json FILE]

Ratios come from one run, the contestants taking turns; every figure is the best of several repetitions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import timeit
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad as jg

REPEAT = 15


def best(functions: dict[str, Callable[[], Any]], number: int) -> dict[str, float]:
    """Microseconds per call, the contestants alternating."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(REPEAT):
        for name, f in functions.items():
            times[name].append(timeit.timeit(f, number=number) / number * 1e6)
    return {name: min(t) for name, t in times.items()}


def small_ops(torch: Any) -> dict[str, dict[str, float]]:
    """Rows of ops on 10 float32 elements."""
    x, y = np.linspace(0.1, 1, 10, dtype="f4"), np.ones(10, "f4")
    a, b, g = jg.tensor(x), jg.tensor(y), jg.tensor(x, requires_grad=True)
    contestants: dict[str, dict[str, Callable[[], Any]]] = {
        "a + b": {"numpy": lambda: np.add(x, y), "jitgrad": lambda: a + b},
        "a * 2.0": {"numpy": lambda: np.multiply(x, 2.0), "jitgrad": lambda: a * 2.0},
        "a.exp()": {"numpy": lambda: np.exp(x), "jitgrad": lambda: a.exp()},
        "g * b, recorded": {"numpy": lambda: np.multiply(x, y), "jitgrad": lambda: g * b},
        "g.exp(), recorded": {"numpy": lambda: np.exp(x), "jitgrad": lambda: g.exp()},
        "10 x (mul, add, relu)": {"jitgrad": lambda: chain(a, b)},
        "the same and backward": {"jitgrad": lambda: chain(g, b).sum().backward()},
    }
    if torch is not None:
        ta, tb, tg = torch.tensor(x), torch.tensor(y), torch.tensor(x, requires_grad=True)
        peers = (
            lambda: ta + tb, lambda: ta * 2.0, lambda: ta.exp(), lambda: tg * tb, lambda: tg.exp(),
            lambda: chain(ta, tb), lambda: chain(tg, tb).sum().backward(),
        )  # fmt: skip
        for row, peer in zip(contestants.values(), peers, strict=True):
            row["torch"] = peer
    return {name: best(row, 200 if "x (" in name or "backward" in name else 2000) for name, row in contestants.items()}


def chain(a: Any, b: Any) -> Any:
    """Thirty small ops."""
    for _ in range(10):
        a = (a * b + b).relu()
    return a


def import_seconds(module: str) -> float:
    """Seconds that importing `module` takes in a fresh process, the interpreter's own start taken off."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return min(float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(7))


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        torch = None  # type: ignore[assignment]
    rows = small_ops(torch)
    print(f"{'microseconds per call':28s}{'numpy':>9s}{'jitgrad':>9s}{'torch':>9s}{'jitgrad/torch':>15s}")
    for name, row in rows.items():
        cells = "".join(f"{row[k]:9.2f}" if k in row else f"{'-':>9s}" for k in ("numpy", "jitgrad", "torch"))
        print(f"{name:28s}{cells}" + (f"{row['jitgrad'] / row['torch']:15.2f}" if "torch" in row else ""))
    imports = {m: import_seconds(m) for m in ("numpy", "jitgrad")}
    print(f"import: numpy {imports['numpy']:.3f} s, jitgrad {imports['jitgrad']:.3f} s")
    if args.json:
        machine = platform.processor() or platform.machine()
        report = {"date": str(date.today()), "machine": machine, "us": rows, "import_s": imports}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
