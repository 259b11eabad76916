"""What a call of a compiled function costs beside its work: guards for modules of 1, 10 and 100 parts, on tiny tensors.

    python bench/overhead.py [--rounds N]

jitgrad's compiled and eager calls, and JAX's `jit` and PyTorch's eager mode where they are installed, take turns in
every round, so that what else runs on the machine hits them alike; the best and the median round count. The models are
chains of N modules that add a parameter of 8 elements, so that next to nothing but the call itself is timed. Also
measured: a call while nothing of `jitgrad.profiler` or `check=True` is on, against one after a profiler has run. Writes
`bench/results/overhead.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "overhead.json"
SIZES = (1, 10, 100)
WIDTH = 8
CALLS = 200
SETTLED = 40  # calls, after which none goes another way than the one before
Run = Callable[[], Any]


def jitgrad_runs(count: int) -> dict[str, Run]:
    """Compiled with all guards, compiled without gradients, and eager."""
    import jitgrad as jg

    class Shift(jg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = jg.nn.Parameter(jg.ones(WIDTH))

        def forward(self, x: Any) -> Any:
            return x + self.shift

    x = jg.ones(WIDTH)
    compiled = jg.compile(jg.nn.Sequential(*[Shift() for _ in range(count)]))
    plain = jg.nn.Sequential(*[Shift() for _ in range(count)])

    def without_gradients() -> Any:
        with jg.no_grad():
            return compiled(x)

    return {
        "jitgrad compiled": lambda: compiled(x), "jitgrad compiled, no_grad": without_gradients,
        "jitgrad eager": lambda: plain(x),
    }  # fmt: skip


def jitgrad_checks(count: int) -> dict[str, Run]:
    """What a call checks, by itself: all of it as a call that comes again does, and its two parts as others do."""
    import jitgrad as jg
    from jitgrad.compiler.key import call_key, flatten_call

    model = jg.compile(jg.nn.Sequential(*[jg.nn.Linear(WIDTH, WIDTH) for _ in range(count)]))
    x = jg.ones(WIDTH)
    for _ in range(SETTLED):
        model(x)
    function = model._compiled_call
    (spec,) = model.explain().specialisations
    (shortcut,) = function._shortcuts.checks()
    args = (x,)

    def key() -> Any:
        leaves, structure = flatten_call(args, {})
        return call_key(function._f, leaves, structure, known=function._recollections.recall())

    return {
        "guards and key": lambda: shortcut(args, {}), "guards, at length": lambda: spec.guards.hold(args),
        "key of the arguments, at length": key,
    }  # fmt: skip


def jax_run(count: int) -> Run:
    """`jax.jit` with the parameters as an argument, as is usual there."""
    import jax
    import jax.numpy as jnp

    parameters = [{"shift": jnp.ones(WIDTH)} for _ in range(count)]

    @jax.jit
    def f(parameters: Any, x: Any) -> Any:
        for p in parameters:
            x = x + p["shift"]
        return x

    x = jnp.ones(WIDTH)
    return lambda: f(parameters, x).block_until_ready()


def torch_run(count: int) -> Run:
    """PyTorch's eager mode."""
    import torch

    class Shift(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = torch.nn.Parameter(torch.ones(WIDTH))

        def forward(self, x: Any) -> Any:
            return x + self.shift

    model, x = torch.nn.Sequential(*[Shift() for _ in range(count)]), torch.ones(WIDTH)
    return lambda: model(x)


def runs(count: int) -> dict[str, Run]:
    """Everything that can be measured here."""
    found = {**jitgrad_checks(count), **jitgrad_runs(count)}
    for name, make in (("JAX jit", jax_run), ("PyTorch eager", torch_run)):
        try:
            found[name] = make(count)
        except ImportError:
            print(f"{name} is not installed")
    return found


def microseconds(run: Run, calls: int) -> float:
    """Of one call, over a stretch of them."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls * 1e6


def measure(found: dict[str, Run], rounds: int) -> dict[str, dict[str, float]]:
    """The best and the median of each, in turns."""
    for run in found.values():
        for _ in range(SETTLED):
            run()
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, run in found.items():
            times[name].append(microseconds(run, CALLS))
    return {name: {"best": min(t), "median": statistics.median(t)} for name, t in times.items()}


def measure_profiler(rounds: int) -> dict[str, dict[str, float]]:
    """A compiled call in a process that never had a profiler, and after one has come and gone, in turns of rounds."""
    import jitgrad as jg

    run = jitgrad_runs(10)["jitgrad compiled"]
    before = measure({"before any profiler": run}, rounds)
    with jg.profiler.profile():
        run()
    return {**before, **measure({"after a profiler": run}, rounds)}


def main() -> None:
    """Measure, print a table, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    off = measure_profiler(rounds)
    results = {count: measure(runs(count), rounds) for count in SIZES}
    names = list(dict.fromkeys(name for row in results.values() for name in row))
    print(f"microseconds a call, best (median) of {rounds} rounds; NumPy {np.__version__}, {os.cpu_count()} cores")
    print("".join([f"{'modules':34}", *(f"{count:>20}" for count in SIZES)]))
    for name in names:
        cells = (results[count].get(name) for count in SIZES)
        texts = (f"{c['best']:.2f} ({c['median']:.2f})" if c else "-" for c in cells)
        print("".join([f"{name:34}", *(f"{text:>20}" for text in texts)]))
    for name, c in off.items():
        print(f"{name:34}{c['best']:.2f} ({c['median']:.2f})")
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps({**machine, "modules": results, "profiler": off}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
