"""Whole training steps of recurrent models (embedding, layer, linear, cross entropy, Adam): jitgrad beside PyTorch.

    python bench/recurrent.py [--rounds N] [--threads N] [--quick]

All take turns in every round, so that what else runs on the machine hits them alike; the best and the median round
count. "first" is the first two calls of the compiled step, of which one makes the optimizer's state, with the machine
code that is on disk already; "longer" the first call at another length of time, for which nothing is compiled.
Writes `bench/results/recurrent.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import jitgrad as jg

RESULTS = Path(__file__).resolve().parent / "results" / "recurrent.json"


class Row(NamedTuple):
    """A model: kind of layer, widths, items in a batch, steps of time."""

    kind: str
    inputs: int
    width: int
    batch: int
    length: int
    vocabulary: int = 65


ROWS = (
    Row("LSTM", 64, 256, 32, 64),
    Row("GRU", 64, 256, 32, 64),
    Row("RNN", 64, 256, 32, 64),
    Row("LSTM", 32, 64, 8, 200),
    Row("LSTM", 256, 512, 64, 32),
)


def step_of(lib: Any, row: Row, compiled: bool, seed: int) -> Callable[[int], Callable[[], float]]:
    """By length: a training step that gives the loss, in `lib`, PyTorch or jitgrad."""
    nn = lib.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(row.vocabulary, row.inputs)
            self.layer = getattr(nn, row.kind)(row.inputs, row.width)
            self.head = nn.Linear(row.width, row.vocabulary)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(self.embedding(x))[0])

    model = Model()
    fill(model, lib, seed)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, row.vocabulary), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = jg.compile(train) if compiled else train

    def at(length: int) -> Callable[[], float]:
        rng = np.random.default_rng(seed)
        x, y = (lib.tensor(rng.integers(0, row.vocabulary, (length, row.batch))) for _ in range(2))
        return lambda: float(run(x, y))

    return at


def fill(model: Any, lib: Any, seed: int) -> None:
    """The same parameters in both libraries."""
    rng = np.random.default_rng(seed)
    with lib.no_grad():
        for p in model.parameters():
            p.copy_(lib.tensor(rng.uniform(-0.1, 0.1, tuple(p.shape)).astype(np.float32)))


def timed(run: Callable[[], float]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def measure(row: Row, rounds: int) -> dict[str, Any]:
    """Milliseconds of one row by way."""
    ways = {"torch": step_of(torch, row, False, 0), "jitgrad": step_of(jg, row, True, 0),
            "jitgrad eager": step_of(jg, row, False, 0)}  # fmt: skip
    steps = {way: at(row.length) for way, at in ways.items()}
    first = sum(timed(steps["jitgrad"]) for _ in range(2))
    losses = [[steps[w]() for _ in range(3)] for w in ("torch", "jitgrad eager")]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    longer = timed(ways["jitgrad"](row.length + 7))
    times: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(rounds):
        for way, step in steps.items():
            time.sleep(0.01)  # the threads of the one before may still be spinning
            step()
            times[way] += [timed(step) for _ in range(2)]
    found: dict[str, Any] = {w: {"best_ms": min(t), "median_ms": statistics.median(t)} for w, t in times.items()}
    return {"row": row._asdict(), "ways": found, "first_ms": first, "longer_ms": longer}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="the first row alone, few rounds")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, rounds = (ROWS[:1], 3) if options.quick else (ROWS, options.rounds)
    print(f"{'':26}{'torch':>9}{'jitgrad':>9}{'ratio':>7}{'eager':>9}{'first':>8}{'longer':>8}   best of {2 * rounds}")
    found = []
    for row in rows:
        result = measure(row, rounds)
        best = {way: t["best_ms"] for way, t in result["ways"].items()}
        name = f"{row.kind} {row.inputs}->{row.width}, {row.batch}x{row.length}"
        print(
            f"{name:26}{best['torch']:9.2f}{best['jitgrad']:9.2f}{best['jitgrad'] / best['torch']:7.2f}"
            f"{best['jitgrad eager']:9.2f}{result['first_ms']:8.0f}{result['longer_ms']:8.0f}",
            flush=True,
        )
        found.append(result)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"threads": options.threads, "rows": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
