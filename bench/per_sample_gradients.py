"""Gradients of each sample of a batch by themselves, `vmap(grad(loss))`, beside `torch.func`: one process, in turns.

    python bench/per_sample_gradients.py [--rounds 30] [--json out.json]

Prints the best time of each, and ratios to PyTorch's eager time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch

import jitgrad as jg

SIZES = {"small": (16, (64, 64, 10)), "medium": (64, (784, 256, 10)), "large": (128, (784, 512, 256, 10))}


def networks(widths: tuple[int, ...]) -> tuple[Any, Any]:
    """The same multi-layer perceptron twice."""

    def layers(nn: Any) -> list[Any]:
        found: list[Any] = []
        for n, m in pairwise(widths):
            found += [nn.Linear(n, m), nn.Tanh()]
        return found[:-1]

    theirs, ours = torch.nn.Sequential(*layers(torch.nn)), jg.nn.Sequential(*layers(jg.nn))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        a.data = jg.from_numpy(b.detach().numpy().copy())
    return ours, theirs


def transformed(module: Any, functions: Any, cross_entropy: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function from parameters, inputs and targets to gradients of each sample, and the parameters."""
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(p: Any, x: Any, y: Any) -> Any:
        return cross_entropy(functions.functional_call(module, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    return functions.vmap(functions.grad(loss), in_dims=(None, 0, 0)), parameters


def best(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The best time of each in milliseconds, taken in turns."""
    times = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name] = min(times[name], (time.perf_counter() - start) * 1e3)
    return times


def measure(size: str, rounds: int) -> dict[str, float]:
    """Times by way, after a check that the gradients are equal."""
    batch, widths = SIZES[size]
    ours, theirs = networks(widths)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch, widths[0])).astype(np.float32), rng.integers(0, widths[-1], batch)
    f, p = transformed(ours, jg.func, jg.nn.functional.cross_entropy)
    g, q = transformed(theirs, torch.func, torch.nn.functional.cross_entropy)
    compiled = jg.compile(f)
    a, b, c, d = jg.from_numpy(x), jg.from_numpy(y), torch.from_numpy(x), torch.from_numpy(y)
    want = g(q, c, d)
    for name, found in compiled(p, a, b).items():
        np.testing.assert_allclose(found.numpy(), want[name].numpy(), atol=1e-5)
    return best(
        {"torch.func": lambda: g(q, c, d), "jitgrad eager": lambda: f(p, a, b), "compiled": lambda: compiled(p, a, b)},
        rounds,
    )


def main() -> None:
    """Print a row per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json")
    given = parser.parse_args()
    found = {size: measure(size, given.rounds) for size in SIZES}
    for size, times in found.items():
        row = "   ".join(f"{name} {t:7.2f} ms ({t / times['torch.func']:.2f})" for name, t in times.items())
        print(f"{size:8}{row}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
