"""Convolutions and both their gradients beside PyTorch's, in one process, taking turns.

    python bench/convolution.py [--threads N] [--rounds N] [--only TEXT] [--cpu-time]

Prints best milliseconds, their ratio and GFLOP/s, and writes `bench/results/convolution.json`. With `--cpu-time` (and
one thread) what counts is the thread's own time, for a machine that is busy with other things.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "convolution.json"
PARTS = ("forward", "input gradient", "weight gradient")
Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """What is convolved: `shape` is that of the input, `kernel` is square."""

    name: str
    shape: tuple[int, ...]
    channels: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        """Half the kernel, so that lengths stay."""
        return self.kernel // 2

    @property
    def weight(self) -> tuple[int, ...]:
        """The weight's shape."""
        return (self.channels, self.shape[1] // self.groups, self.kernel, self.kernel)

    @property
    def output(self) -> tuple[int, ...]:
        """The output's shape."""
        lengths = ((n + 2 * self.padding - self.kernel) // self.stride + 1 for n in self.shape[2:])
        return (self.shape[0], self.channels, *lengths)

    @property
    def flops(self) -> int:
        """Of each part."""
        return 2 * math.prod(self.output) * math.prod(self.weight[1:])


CASES = (
    Case("64 channels, 32 x 32", (32, 64, 32, 32), 64),
    Case("ResNet-20, first", (64, 3, 32, 32), 16),
    Case("ResNet-20, 16 channels", (64, 16, 32, 32), 16),
    Case("ResNet-20, to 32 channels", (64, 16, 32, 32), 32, stride=2),
    Case("ResNet-20, 32 channels", (64, 32, 16, 16), 32),
    Case("ResNet-20, 64 channels", (64, 64, 8, 8), 64),
    Case("ResNet-50, first", (8, 3, 224, 224), 64, 7, 2),
    Case("ResNet-50, 1 x 1", (8, 256, 56, 56), 64, 1),
    Case("ResNet-50, 128 channels", (8, 128, 28, 28), 128),
    Case("ResNet-50, 512 channels", (8, 512, 7, 7), 512),
    Case("MobileNet, 96 channels", (8, 96, 56, 56), 96, groups=96),
    Case("MobileNet, to half", (8, 144, 56, 56), 144, stride=2, groups=144),
    Case("MobileNet, 576 channels", (8, 576, 14, 14), 576, groups=576),
    Case("ResNeXt, groups of 4", (8, 128, 56, 56), 128, groups=32),
    Case("to 3 channels", (16, 64, 64, 64), 3),
    Case("5 x 5, odd sizes", (7, 19, 37, 41), 23, 5),
)


def arrays(case: Case) -> list[Any]:
    """Input, weight, gradient of the output."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for shape in (case.shape, case.weight, case.output)]


def jitgrad_runs(case: Case, threads: int) -> dict[str, Run]:
    """The code generator, one graph for each part."""
    from jitgrad.codegen import compile_graph, set_num_threads
    from jitgrad.ir import dtypes
    from jitgrad.ir.builder import Builder
    from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
    from jitgrad.ir.types import TensorType

    set_num_threads(threads)
    x, weight, y = arrays(case)
    numbers = (case.stride,) * 2, (case.padding,) * 2, (1, 1), case.groups
    works = (
        (Conv(*numbers), (x, weight)),
        (ConvInputGrad(case.shape[2:], *numbers), (y, weight)),
        (ConvWeightGrad(case.weight[2:], *numbers), (x, y)),
    )
    runs: dict[str, Run] = {}
    for part, (op, operands) in zip(PARTS, works, strict=True):
        b = Builder()
        graph = b.build([b(op, *(b.input(TensorType(a.shape, dtypes.float32)) for a in operands))])
        runs[part] = functools.partial(compile_graph(graph), list(operands))
    return runs


def torch_runs(case: Case, threads: int) -> dict[str, Run]:
    """PyTorch's operators."""
    import torch

    torch.set_num_threads(threads)
    x, weight, y = map(torch.from_numpy, arrays(case))
    stride, padding = (case.stride,) * 2, (case.padding,) * 2

    def backward(*wanted: bool) -> Run:
        return lambda: torch.ops.aten.convolution_backward(
            y, x, weight, None, stride, padding, (1, 1), False, (0, 0), case.groups, wanted
        )

    forward = lambda: torch.nn.functional.conv2d(x, weight, None, stride, padding, 1, case.groups)  # noqa: E731
    return dict(zip(PARTS, (forward, backward(True, False, False), backward(False, True, False)), strict=True))


def best_of(runs: dict[str, Run], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Milliseconds of the best of `rounds`, in which each takes its turn."""
    found = dict.fromkeys(runs, math.inf)
    for count in range(rounds + 2):
        for name, run in runs.items():
            start = clock()
            run()
            if count >= 2:
                found[name] = min(found[name], 1e3 * (clock() - start))
    return found


def measure(case: Case, threads: int, rounds: int, clock: Callable[[], float]) -> dict[str, dict[str, float]]:
    """For each part the figures."""
    ours, theirs = jitgrad_runs(case, threads), torch_runs(case, threads)
    figures = {}
    for part in PARTS:
        best = best_of({"jitgrad": ours[part], "torch": theirs[part]}, rounds, clock)
        figures[part] = {
            "jitgrad ms": best["jitgrad"], "torch ms": best["torch"], "ratio": best["jitgrad"] / best["torch"],
            "gflops": case.flops / best["jitgrad"] / 1e6,
        }  # fmt: skip
    return figures


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    threads, clock = (1, time.thread_time) if options.cpu_time else (options.threads, time.perf_counter)
    results, ratios = {}, []
    print(f"{'ms: jitgrad / torch = ratio (GFLOP/s)':34}" + "".join(f"{part:>32}" for part in PARTS))
    for case in CASES:
        if options.only not in case.name:
            continue
        figures = results[case.name] = measure(case, threads, options.rounds, clock)
        ratios += [f["ratio"] for f in figures.values()]
        cells = (
            f"{f['jitgrad ms']:9.2f} /{f['torch ms']:7.2f} ={f['ratio']:5.2f} ({f['gflops']:4.0f})"
            for f in figures.values()
        )
        print(f"{case.name:34}" + "".join(f"{cell:>32}" for cell in cells), flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of {len(ratios)} ratios: {mean:.2f}")
    about = {"machine": platform.processor(), "threads": threads, "cpu time": options.cpu_time, "mean ratio": mean}
    RESULTS.write_text(json.dumps({"about": about, "cases": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
