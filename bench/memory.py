"""Whether training keeps its memory: resident size over thousands of steps, eagerly, compiled, and by the `Trainer`.

    python bench/memory.py [--steps 2000] [--json FILE]

A small CNN with batch norm and dropout, Adam, a schedule, a last batch that is smaller, losses kept as numbers. Each
way runs in a process of its own. Shown are megabytes after a quarter, a half, three quarters and all of the steps, and
the growth in the second half, which should be nothing but noise; objects alive say whether Python keeps what it should
not.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np

import jitgrad as jg
from jitgrad import nn
from jitgrad.utils.data import DataLoader, TensorDataset

WAYS = ("eager", "compiled", "trainer")


def resident_mb() -> float:
    """Megabytes of this process that are in memory (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def make_model() -> nn.Module:
    """Two convolutions."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(),
        nn.Linear(8 * 36, 10),
    )  # fmt: skip


def make_loader() -> DataLoader:
    """Five batches, of which the last is smaller."""
    rng = np.random.default_rng(0)
    images = jg.from_numpy(rng.normal(size=(72, 1, 12, 12)).astype(np.float32))
    return DataLoader(TensorDataset(images, jg.from_numpy(rng.integers(0, 10, 72))), 16, shuffle=True)


def measured(way: str, steps: int) -> list[tuple[int, float, int]]:
    """Steps done, megabytes and objects, four times on the way."""
    jg.manual_seed(0)
    rows: list[tuple[int, float, int]] = []

    def note(done: int) -> None:
        if done % (steps // 4) == 0:
            gc.collect()
            rows.append((done, resident_mb(), len(gc.get_objects())))

    model = make_model()
    optimizer = jg.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = jg.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    if way == "trainer":
        watch = jg.train.Callback()
        watch.on_step_end = lambda trainer, values: note(trainer.step)  # type: ignore[method-assign]
        trainer = jg.train.Trainer(
            model, nn.CrossEntropyLoss(), optimizer, scheduler, clip_norm=1.0, callbacks=[watch], progress=False
        )
        trainer.fit(make_loader(), make_loader(), steps=steps)
        return rows

    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jg.compile(step, fullgraph=True) if way == "compiled" else step
    losses: list[float] = []
    loader = make_loader()
    while len(losses) < steps:
        for x, y in loader:
            losses.append(run(x, y).item())
            note(len(losses))
        scheduler.step()
    return rows


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--way", choices=WAYS, help="only this one, in this process, as JSON")
    args = parser.parse_args()
    if args.way:
        print(json.dumps(measured(args.way, args.steps)))
        return
    results = {}
    for way in WAYS:
        command = [sys.executable, __file__, "--way", way, "--steps", str(args.steps)]
        rows = results[way] = json.loads(subprocess.check_output(command, text=True))
        shown = "  ".join(f"{done}: {size:.1f} MB, {objects} objects" for done, size, objects in rows)
        print(f"{way:10}{shown}   second half {rows[-1][1] - rows[1][1]:+.2f} MB")
    if args.json:
        columns = ["steps", "megabytes", "objects"]
        args.json.write_text(json.dumps({"date": str(date.today()), "columns": columns, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
