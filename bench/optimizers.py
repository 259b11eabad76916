"""What an optimizer's step costs in an eager script and compiled, and clipping, beside PyTorch where installed.

    python bench/optimizers.py [--json FILE]

Microseconds, best of many, the contestants taking turns in one run, with one thread each (on a busy machine threads
wait for one another). PyTorch runs with its defaults (`foreach`).
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from eager import best

import jitgrad as jg

MLP = [(512, 784), (512,), (512, 512), (512,), (10, 512), (10,)]
SMALL = [(8, 8) if i % 2 else (16,) for i in range(200)]


def resnet_20() -> list[tuple[int, ...]]:
    """Shapes of the parameters of a ResNet-20 of 16, 32 and 64 channels."""
    shapes: list[tuple[int, ...]] = [(16, 3, 3, 3), (16,), (16,)]
    before = 16
    for width in (16, 32, 64):
        for _ in range(3):
            shapes += [(width, before, 3, 3), (width,), (width,), (width, width, 3, 3), (width,), (width,)]
            shapes += [(width, before, 1, 1)] if before != width else []
            before = width
    return [*shapes, (10, 64), (10,)]


ROWS: dict[str, tuple[list[tuple[int, ...]], Callable[[Any, Any], Any]]] = {
    "MLP 784-512-512-10, Adam": (MLP, lambda lib, p: lib.optim.Adam(p)),
    "200 small parameters, AdamW": (SMALL, lambda lib, p: lib.optim.AdamW(p)),
    "ResNet-20, SGD with momentum": (resnet_20(), lambda lib, p: lib.optim.SGD(p, lr=1e-3, momentum=0.9)),
    "ResNet-20, RMSprop": (resnet_20(), lambda lib, p: lib.optim.RMSprop(p)),
}


def parameters(lib: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Tensors with gradients."""
    rng = np.random.default_rng(0)
    made = []
    for shape in shapes:
        p = lib.tensor(rng.standard_normal(shape).astype("f4")).requires_grad_()
        p.grad = lib.tensor(rng.standard_normal(shape).astype("f4") * 1e-3)
        made.append(p)
    return made


def contestants(shapes: list[tuple[int, ...]], make: Any, torch: Any) -> dict[str, Callable[[], Any]]:
    """Steps of each, warmed up."""
    libraries = [("jitgrad", jg)] + ([("torch", torch)] if torch else [])
    found: dict[str, Callable[[], Any]] = {}
    for name, lib in libraries:
        params = parameters(lib, shapes)
        found[name] = make(lib, params).step
        found[f"{name} clip"] = lambda lib=lib, params=params: lib.nn.utils.clip_grad_norm_(params, 1.0)
    if len(shapes) < 100:  # a trace of 200 updates takes seconds
        optimizer = make(jg, parameters(jg, shapes))
        found["compiled"] = jg.compile(lambda: optimizer.step())
    for step in found.values():
        for _ in range(4):
            step()
    return found


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
    jg.set_num_threads(1)
    columns = ("jitgrad", "compiled", "torch", "jitgrad clip", "torch clip")
    print(f"{'microseconds':30s}" + "".join(f"{c:>14s}" for c in columns) + f"{'step / torch':>14s}")
    rows = {name: best(contestants(shapes, make, torch), 10) for name, (shapes, make) in ROWS.items()}
    for name, row in rows.items():
        cells = "".join(f"{row[c]:14.1f}" if c in row else f"{'-':>14s}" for c in columns)
        print(f"{name:30s}{cells}" + (f"{row['jitgrad'] / row['torch']:14.2f}" if "torch" in row else ""))
    if args.json:
        report = {"date": str(date.today()), "machine": platform.processor() or platform.machine(), "us": rows}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
