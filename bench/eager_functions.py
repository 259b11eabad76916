"""What eager functions cost beside PyTorch, function by function, in one process.

    python bench/eager_functions.py [small | medium | gradients] [--only TEXT] [--json FILE]

`small` calls some 240 functions on tensors of 10 elements, where next to nothing but the call itself is timed; `medium`
calls those that work on memory at 1e3 to 1e6 elements; `gradients` takes layers forwards and backwards. Each expression
is evaluated with `m` as jitgrad and as PyTorch, which take turns; figures are medians, in microseconds a call.
"""

from __future__ import annotations

import argparse
import json
import statistics
import timeit
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from function_tables import LAYERS, MEDIUM, SMALL

import jitgrad as jg

WARM_UP = 700  # calls, after which what is called often is native
ROUNDS = 9
ROUND_SECONDS = 1e-3
SIZES = (1_000, 10_000, 100_000, 1_000_000)
Row = tuple[str, float, float]


def numbers(m: Any, n: int) -> dict[str, Any]:
    """The tensors that expressions name, of some `n` elements: vectors x, y; a matrix A, square S; integers i."""
    rng = np.random.default_rng(0)
    k = max(int(n**0.5), 2)
    rows = 2 if n < 100 else k
    made: dict[str, np.ndarray[Any, Any]] = {
        "x": rng.uniform(0.1, 0.9, n), "y": rng.uniform(0.1, 0.9, n), "A": rng.uniform(0.1, 0.9, (rows, n // rows)),
        "B": rng.uniform(0.1, 0.9, (rows, n // rows)), "S": rng.uniform(0.1, 0.9, (k, k)) + k * np.eye(k),
        "one": rng.uniform(0.1, 0.9, 1), "T": rng.uniform(0.1, 0.9, (2, 5, 2)),
        "w": rng.uniform(-0.1, 0.1, (n // rows, n // rows if n < 10_000 else 64)),
    }  # fmt: skip
    out = {name: m.from_numpy(a.astype("f4")) for name, a in made.items()}
    out["s"] = out["one"][0].clone()
    out["i"], out["j"] = (m.from_numpy(rng.integers(0, 5, n)) for _ in range(2))
    out["p"] = m.from_numpy(rng.permutation(n))
    out["r"] = m.from_numpy(rng.integers(0, rows, rows))
    out["I"] = m.from_numpy(rng.integers(0, n // rows, (rows, n // rows)))
    out["b"], out["c"] = (m.from_numpy(rng.uniform(0, 1, n) > 0.5) for _ in range(2))
    out["M"] = m.from_numpy(rng.uniform(0, 1, (rows, n // rows)) > 0.5)
    side = max(int((n / 8) ** 0.5), 3)
    out["img"] = m.from_numpy(rng.uniform(-1, 1, (1, 8, side, side)).astype("f4"))
    out["ker"] = m.from_numpy(rng.uniform(-1, 1, (8, 8, 3, 3)).astype("f4"))
    out["labels"] = m.from_numpy(rng.integers(0, n // rows, rows))
    out["z"] = out["x"].clone()  # what in-place forms write to
    out["Z"] = out["A"].clone()
    return {**out, "m": m, "F": m.nn.functional, "n": n}


def evaluated(expression: str, scope: dict[str, Any]) -> Callable[[], Any]:
    """The expression as a function of no arguments."""
    return eval(f"lambda: {expression}", dict(scope))  # type: ignore[no-any-return]


def compared(ours: Callable[[], Any], theirs: Callable[[], Any], warm_up: int) -> tuple[float, float]:
    """Median microseconds a call of both, in turns."""
    calls = [max(1, min(500, int(ROUND_SECONDS / _seconds(f, warm_up)))) for f in (ours, theirs)]
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for f, count, taken in zip((ours, theirs), calls, times, strict=True):
            taken.append(timeit.timeit(f, number=count) / count * 1e6)
    return statistics.median(times[0]), statistics.median(times[1])


def _seconds(f: Callable[[], Any], warm_up: int) -> float:
    """About how long a call takes, after so many."""
    first = timeit.timeit(f, number=3) / 3
    timeit.timeit(f, number=max(3, min(warm_up, int(0.02 / first))) if warm_up < WARM_UP else warm_up)
    return timeit.timeit(f, number=3) / 3


def _load_code_generation() -> None:
    """What a program that computes for long has loaded at some time."""
    jg.compile(lambda x: x * 2 + 1)(jg.ones(3))


def small(only: str) -> Iterator[Row]:
    """Functions of 10 elements."""
    for group, expressions in SMALL.items():
        for e in expressions:
            if only in e or only == group:
                ours, theirs = (evaluated(e, numbers(m, 10)) for m in (jg, torch))
                yield e, *compared(ours, theirs, WARM_UP)


def medium(only: str) -> Iterator[Row]:
    """Functions of more elements."""
    for e in MEDIUM:
        if only in e:
            for n in SIZES:
                ours, theirs = (evaluated(e, numbers(m, n)) for m in (jg, torch))
                yield f"{e}  n={n}", *compared(ours, theirs, 50)


def gradients(only: str) -> Iterator[Row]:
    """Layers forwards and backwards."""
    for name, make in LAYERS.items():
        if only in name:
            yield name, *compared(make(jg), make(torch), WARM_UP)


def main() -> None:
    """Measure, print the rows, the median ratio, and how many are far off."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", default="small", choices=("small", "medium", "gradients"))
    parser.add_argument("--only", default="", help="rows whose expression has this, or a group of them")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.part != "medium":
        torch.set_num_threads(1)  # as the work is too small for more; its own idle threads would disturb
    _load_code_generation()
    rows = []
    for row in {"small": small, "medium": medium, "gradients": gradients}[args.part](args.only):
        rows.append(row)
        print(f"{row[0]:60s}{row[1]:10.2f}{row[2]:10.2f}{row[1] / row[2]:8.2f}", flush=True)
    ratios = [ours / theirs for _, ours, theirs in rows]
    above = {limit: sum(r > limit for r in ratios) for limit in (1.2, 2, 3)}
    print(f"{len(rows)} rows, median {statistics.median(ratios):.2f}; above " + str(above))
    if args.json:
        args.json.write_text(json.dumps({name: [round(a, 3), round(b, 3)] for name, a, b in rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
