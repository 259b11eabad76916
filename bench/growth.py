"""Cost as work grows: sizes over five decades, and compile time for graphs of 10 to 10,000 nodes.

    python bench/growth.py [--quick]

For each kind of work, the median time of a compiled call by size, beside eager PyTorch where it is installed, and the
time per element; for graphs, the first call's time (tracing, passes, machine code) and that of a new batch size, which
compiles no kernel. Writes `bench/results/growth.json` and `growth.png`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from roofline import cpu_name
from rows.models import perceptron

RESULTS = Path(__file__).resolve().parent / "results"
Run = Callable[[], Any]


def pointwise(m: Any, n: int) -> Run:
    """`tanh(x) * x + 1` on n elements."""
    x = m.ones(n)
    return lambda: _compiled(m, _pointwise)(x)


def reduction(m: Any, n: int) -> Run:
    """The sum of squares of n elements."""
    x = m.ones(n)
    return lambda: _compiled(m, _reduction)(x)


def product(m: Any, n: int) -> Run:
    """A product of square matrices of about n elements each."""
    side = max(1, round(n**0.5))
    x = m.ones(side, side)
    return lambda: _compiled(m, _product)(x)


def model(m: Any, n: int) -> Run:
    """A perceptron of about n weights on 32 rows."""
    width = max(1, round((n / 3) ** 0.5))
    net, x = perceptron(m.nn, (width,) * 4, m.nn.ReLU), m.ones(32, width)
    run = m.compile(net) if m.__name__ == "jitgrad" else net

    def call() -> Any:
        with m.no_grad():
            return run(x)

    return call


def _pointwise(x: Any) -> Any:
    return x.tanh() * x + 1


def _reduction(x: Any) -> Any:
    return (x * x).sum()


def _product(x: Any) -> Any:
    return x @ x


_FUNCTIONS: dict[Any, Any] = {}


def _compiled(m: Any, f: Any) -> Any:
    """`f`, compiled once where `m` is jitgrad."""
    if m.__name__ != "jitgrad":
        return f
    if f not in _FUNCTIONS:
        _FUNCTIONS[f] = m.compile(f)
    return _FUNCTIONS[f]


WORK = {"pointwise": pointwise, "reduction": reduction, "product": product, "model": model}


def median_us(run: Run, seconds: float) -> float:
    """Microseconds of a call."""
    for _ in range(3):
        run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 2000):
        start = time.perf_counter()
        run()
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def sizes(quick: bool) -> dict[str, list[dict[str, float]]]:
    """Times by size."""
    import jitgrad as jg

    frameworks = [("jitgrad", jg)]
    if importlib.util.find_spec("torch"):
        import torch

        frameworks.append(("torch", torch))
    found: dict[str, list[dict[str, float]]] = {}
    for name, work in WORK.items():
        found[name] = []
        for exponent in range(2, 7 if quick else 8):
            row: dict[str, float] = {"n": 10**exponent}
            for framework, m in frameworks:
                row[f"{framework}_us"] = median_us(work(m, 10**exponent), 0.1 if quick else 0.5)
            found[name].append(row)
            print(f"{name:10} {row['n']:>10.0f}  " + "  ".join(f"{k} {v:12.2f}" for k, v in row.items() if k != "n"))
    return found


def chain(nodes: int) -> Callable[[Any, Any], Any]:
    """A function of about `nodes` nodes: a product, a bias and an activation, again and again, of changing kinds."""

    def f(x: Any, w: Any) -> Any:
        for i in range(nodes // 5):
            x = (x @ w).tanh() * 0.5 + x if i % 2 else (x * w[i % 8]).sigmoid() + x.mean(1, keepdim=True)
        return x.sum()

    return f


def graphs(quick: bool) -> list[dict[str, float]]:
    """Milliseconds of first calls by nodes: forward and backward, an empty cache."""
    import jitgrad as jg

    found = []
    for nodes in (10, 100, 1000) if quick else (10, 30, 100, 300, 1000, 3000, 10000):
        forward = chain(nodes)

        def step(x: Any, w: Any, forward: Any = forward) -> Any:
            return jg.autograd.grad(forward(x, w), (x, w))

        run = jg.compile(step)
        w = (jg.eye(8) * 0.5).requires_grad_()
        row: dict[str, float] = {"nodes": nodes}
        for key, batch in (("first_ms", 4), ("new_batch_ms", 7)):
            x = jg.ones(batch, 8, requires_grad=True)
            start = time.perf_counter()
            run(x, w)
            row[key] = 1e3 * (time.perf_counter() - start)
        found.append(row)
        print("graph      " + "  ".join(f"{k} {v:10.1f}" for k, v in row.items()), flush=True)
    return found


def chart(found: dict[str, Any], path: Path) -> None:
    """Log-log lines."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no chart: Matplotlib isn't installed")
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for colour, (name, rows) in zip(("C0", "C1", "C2", "C3"), found["sizes"].items(), strict=False):
        left.loglog([r["n"] for r in rows], [r["jitgrad_us"] for r in rows], colour, label=name)
        if "torch_us" in rows[0]:
            left.loglog([r["n"] for r in rows], [r["torch_us"] for r in rows], colour, ls=":", lw=1)
    left.set(xlabel="elements", ylabel="us a call (dotted: PyTorch eager)")
    left.legend()
    for key in ("first_ms", "new_batch_ms"):
        right.loglog([r["nodes"] for r in found["graphs"]], [r[key] for r in found["graphs"]], marker="o", label=key)
    right.set(xlabel="nodes traced, forward", ylabel="ms, forward and backward")
    right.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, default=RESULTS / "growth.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["JITGRAD_CACHE_DIR"] = cache
        found: dict[str, Any] = {"date": str(date.today()), "cpu": cpu_name()}
        found |= {"sizes": sizes(options.quick), "graphs": graphs(options.quick)}
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps(found, indent=1) + "\n")
    chart(found, options.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
