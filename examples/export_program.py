"""Export a training step to a file, and go on training from the file alone, with batches of any size.

python examples/export_program.py
"""

import sys
import tempfile
from pathlib import Path

import jitgrad as jg
from jitgrad import nn, optim


def make_step():
    """A model that tells which of two numbers is greater, its optimizer, and a step that trains it."""
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
    optimizer = optim.AdamW(model.parameters(), lr=0.02)

    def step(x: jg.Tensor, target: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def batch(n: int) -> tuple[jg.Tensor, jg.Tensor]:
    """Pairs of numbers, and which is greater."""
    x = jg.randn(n, 2)
    return x, (x[:, 1] > x[:, 0]).long()


def main(folder: str) -> None:
    """Export, save, load, train."""
    jg.manual_seed(0)
    dynamic = {"x": {0: "batch"}, "target": {0: "batch"}}
    jg.export(make_step(), batch(8), dynamic=dynamic, metadata={"task": "greater"}).save(Path(folder) / "step.jg")

    # From here on nothing of the above is used: this could be another process, or another machine.
    program = jg.load_program(Path(folder) / "step.jg")
    print(program.signature)
    losses = [program(*batch(n)).item() for n in (32, 48, 64) * 30]
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} after {program.state['optimizer.step.0'].item():.0f} steps")
    program(*batch(32), lr=0.001)  # what a schedule changes is an argument
    program.save(Path(folder) / "trained.jg")
    print("\n".join(program.text.splitlines()[:8]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
