"""Train a character model on Tang poems, from the first step to poems of its own: an LSTM, or a small GPT.

    npm install --prefix out/data chinese-poetry     57,607 Tang poems (85 MB)
    python examples/write_poems.py                   embedding, LSTM, linear
    python examples/write_poems.py --model gpt       the same with a small GPT
    python examples/write_poems.py --data file.txt   any UTF-8 text, pieces apart by blank lines or lines of %

It takes a few steps eagerly, the same ones compiled (whole training steps: forward, backward, clipping, update), shows
that the losses are equal and how much faster a step is, and trains on. It ends with the loss of poems held out, a
picture of the losses, and poems at three temperatures, with how many of them keep the form of a Tang poem, and how many
of their lines the model has read rather than written.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
from tqdm import tqdm

import jitgrad as jg
from jitgrad import nn
from jitgrad.nn import functional as F
from jitgrad.utils.data import DataLoader, TensorDataset

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PLACES = (
    "out/data/node_modules/chinese-poetry/dist/quantangshi",
    "node_modules/chinese-poetry/dist/quantangshi",
    "/usr/share/games/fortunes/tang300",
)
TEMPERATURES = (0.5, 0.8, 1.1)
END, RARE = "\x03", "□"  # after each poem, and before the first; what stands for a character that is seldom seen
IGNORED = -100  # no target


# ---- The poems


def find_data(path: Path | None) -> Path:
    """Where the poems are; without any, how to get them."""
    for place in [path] if path else map(Path, PLACES):
        if place.exists():
            return place
    sys.exit(
        f"no poems at {path or ' or '.join(PLACES)}. Either of these brings some:\n"
        "  npm install --prefix out/data chinese-poetry   (57,607 poems, 85 MB)\n"
        "  apt-get install fortunes-zh                (300 poems)\n"
        "or name a UTF-8 text: --data file.txt"
    )


def read_poems(path: Path) -> list[str]:
    """The regular poems of a folder of JSON files, or the pieces of a text."""
    if path.is_dir():
        files = sorted(path.glob("poet.tang.*.json")) or sorted(path.glob("*.json"))
        poems = ["".join(p["paragraphs"]) for file in files for p in json.loads(file.read_text(encoding="utf-8"))]
        return list(dict.fromkeys(filter(is_regular, poems)))
    text = re.sub(r"\x1b\[[0-9;]*m", "", path.read_text(encoding="utf-8"))  # fortunes come in colours
    if path.name == "tang300":  # title and author are two lines of their own
        return ["".join(p.strip().splitlines()[2:]) for p in text.split("\n%\n") if p.strip()]
    return [piece.strip() for piece in re.split(r"\n%\n|\n\s*\n", text) if piece.strip()]


def lines_of(poem: str) -> list[str]:
    """The lines between punctuation marks."""
    return [line for line in re.split("[，。？！；、\n]", poem) if line]


def is_regular(poem: str) -> bool:
    """Four or eight lines, all of five or all of seven characters, each with its mark."""
    lines = lines_of(poem)
    even = {len(line) for line in lines} in ({5}, {7})
    return even and len(lines) in (4, 8) and len(poem) == len(lines) * (len(lines[0]) + 1)


@dataclass(frozen=True)
class Corpus:
    """Poems as numbers, and what they were made from."""

    characters: list[str]
    training: TensorDataset
    validation: TensorDataset
    known_lines: frozenset[str]  # those that the model has read
    frequencies_loss: float  # of a model that knows no more than how frequent characters are

    @property
    def width(self) -> int:
        """Characters in a row."""
        return self.training.tensors[0].shape[1]


def make_corpus(poems: list[str], vocabulary: int, context: int, seed: int) -> Corpus:
    """Split into poems to train on and, one in fifty, to validate with; make rows of `context` characters.

    A row of the training data starts at a poem and runs on into the next ones; that of a longer piece goes on in
    further rows. In the validation data each character counts once.
    """
    order = np.random.default_rng(seed).permutation(len(poems))
    held_out = max(1, len(poems) // 50)
    validation, training = ([poems[i] for i in part] for part in (order[:held_out], order[held_out:]))
    counts = Counter(itertools.chain.from_iterable(training))
    characters = [END, RARE, *(c for c, _ in counts.most_common(vocabulary) if c != RARE)]
    number = {c: i for i, c in enumerate(characters)}

    def rows(poems: list[str], run_on: bool) -> TensorDataset:
        stream = np.array([number.get(c, 1) for poem in poems for c in END + poem] + [0] * (context + 1))
        ends = np.cumsum([len(poem) + 1 for poem in poems])
        spans = [(s, end) for poem, end in zip(poems, ends) for s in range(end - len(poem) - 1, end, context)]
        starts, ends = np.array(spans).T
        at = starts[:, None] + np.arange(context + 1)
        targets = stream[at[:, 1:]]
        if not run_on:
            targets[at[:, 1:] > ends[:, None]] = IGNORED
        return TensorDataset(jg.from_numpy(stream[at[:, :-1]]), jg.from_numpy(targets))

    made = rows(training, True), rows(validation, False)
    known = frozenset(line for poem in training for line in lines_of(poem))
    return Corpus(characters, *made, known, frequencies_loss(*(data.tensors[1].numpy() for data in made)))


def frequencies_loss(seen: np.ndarray, told: np.ndarray) -> float:
    """The loss of guessing each character of `told` by how often it was `seen`."""
    seen, told = seen[seen != IGNORED], told[told != IGNORED]
    counts = np.bincount(seen, minlength=told.max() + 1) + 1
    return float(-np.log(counts[told] / counts.sum()).mean())


# ---- The models: logits [n, t, vocabulary] of tokens [n, t], and the state to go on from


class CharLSTM(nn.Module):
    """Embedding, LSTM, linear. The state is that of the LSTM."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens, state=None):
        hidden, state = self.lstm(self.dropout(self.embedding(tokens)), state)
        return self.out(self.dropout(hidden)), state


class Block(nn.Module):
    """Causal attention and an MLP, each behind a layer norm and beside a shortcut. The state is keys and values."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, past=None):
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = jg.cat([past[0], k], dim=2), jg.cat([past[1], v], dim=2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.dropout(self.project(mixed.transpose(1, 2).reshape(n, t, width)))
        return x + self.dropout(self.mlp(self.norm2(x))), (k, v)


class CharGPT(nn.Module):
    """A small GPT. Without a state it takes up to `context` tokens; with one, the next token."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, max(1, width // 48), dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocabulary)
        for name, parameter in self.named_parameters():
            if name.endswith("weight") and "norm" not in name:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, state=None):
        start = 0 if state is None else state[0][0].shape[2]
        x = self.embedding(tokens) + self.positions(jg.arange(start, start + tokens.shape[1]))
        x, kept = self.dropout(x), []
        for i, block in enumerate(self.blocks):
            x, past = block(x, None if state is None else state[i])
            kept.append(past)
        return self.out(self.norm(x)), kept


def make_model(args: argparse.Namespace, corpus: Corpus) -> nn.Module:
    """The model that the command line names."""
    sizes = len(corpus.characters), args.width, args.layers, args.dropout
    return CharLSTM(*sizes) if args.model == "lstm" else CharGPT(*sizes, corpus.width)


# ---- Training


@dataclass
class Run:
    """What one training showed."""

    model: nn.Module
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validation: dict[int, float] = field(default_factory=dict)  # after so many steps
    resident_mb: dict[int, float] = field(default_factory=dict)

    def step_ms(self, count: int) -> float:
        """The median time of the first `count` steps, without the two that compile."""
        return 1e3 * statistics.median(self.seconds[2:count] or self.seconds)


def resident_mb() -> float:
    """The memory that this process holds, where the system tells it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else math.nan


def batches(data: TensorDataset, size: int):
    """Batches without end, in another order each time."""
    while True:
        yield from DataLoader(data, batch_size=size, shuffle=True, drop_last=len(data) >= size)


def loss_of(model: nn.Module, tokens: jg.Tensor, targets: jg.Tensor, reduction: str = "mean") -> jg.Tensor:
    """Cross entropy, in nats."""
    logits, _ = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction, ignore_index=IGNORED)


def train(corpus: Corpus, args: argparse.Namespace, compiled: bool, steps: int) -> Run:
    """Train from the seed."""
    jg.manual_seed(args.seed)
    model = make_model(args, corpus)
    optimizer = jg.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    schedule = jg.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, args.steps, pct_start=0.1, cycle_momentum=False)

    def step(tokens: jg.Tensor, targets: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if compiled:
        step = jg.compile(step, fullgraph=True)
    measure = jg.compile(loss_of) if compiled else loss_of
    run = Run(model)
    with tqdm(total=steps, desc=f"{args.model} {'compiled' if compiled else 'eager'}", ncols=100) as bar:
        for tokens, targets in itertools.islice(batches(corpus.training, args.batch_size), steps):
            start = time.perf_counter()
            run.losses.append(step(tokens, targets).item())
            run.seconds.append(time.perf_counter() - start)
            schedule.step()
            bar.update()
            bar.set_postfix(loss=f"{run.losses[-1]:.3f}", refresh=False)
            done = len(run.losses)
            if compiled and (done % args.every == 0 or done == steps):
                run.validation[done] = validate(model, corpus, args.batch_size, measure)
                run.resident_mb[done] = resident_mb()
                bar.write(f"step {done}: held out {run.validation[done]:.3f}  {write(model, corpus, [0.8])[0]!r}")
    return run


@jg.no_grad()
def validate(model: nn.Module, corpus: Corpus, batch_size: int, measure=loss_of) -> float:
    """The mean loss of a character held out, in nats."""
    model.eval()
    total = sum(measure(model, *batch, "sum").item() for batch in DataLoader(corpus.validation, batch_size=batch_size))
    model.train()
    return total / int((corpus.validation.tensors[1] >= 0).sum())


# ---- Writing


@jg.no_grad()
def write(model: nn.Module, corpus: Corpus, temperatures: list[float], opening: str = "") -> list[str]:
    """A poem for each of the temperatures, all starting with `opening`."""
    model.eval()
    n = len(temperatures)
    divisor = jg.tensor(temperatures).unsqueeze(1)
    number = {c: i for i, c in enumerate(corpus.characters)}
    opening = END + opening
    tokens = jg.tensor([[number.get(c, 1) for c in opening]] * n)
    written, state = [], None
    for _ in range(corpus.width - len(opening) + 1):
        logits, state = model(tokens, state)
        logits = logits[:, -1] / divisor
        logits[:, 1] = -math.inf  # no gaps
        tokens = jg.multinomial(F.softmax(logits, dim=-1), 1)
        written.append(tokens)
        if all((jg.cat(written, dim=1) == 0).any(dim=1).tolist()):
            break
    model.train()
    rows = jg.cat(written, dim=1).tolist()
    return [opening[1:] + "".join(corpus.characters[i] for i in row).partition(END)[0] for row in rows]


def judge(poems: list[str], corpus: Corpus) -> str:
    """How many poems keep the form, and how many of their lines were read rather than written."""
    lines = [line for poem in poems for line in lines_of(poem)]
    regular = sum(map(is_regular, poems)) / len(poems)
    known = sum(line in corpus.known_lines for line in lines) / max(1, len(lines))
    return f"{regular:.0%} keep the form; {known:.1%} of {len(lines)} lines are in the training data"


# ---- The report


def picture(path: Path, run: Run, corpus: Corpus, model: str) -> None:
    """The losses against steps as a PNG."""
    width = max(1, len(run.losses) // 100)
    smooth = np.convolve(run.losses, np.ones(width) / width, mode="valid")
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(range(1, len(run.losses) + 1), run.losses, color="C0", alpha=0.25, linewidth=0.6)
    axes.plot(np.arange(len(smooth)) + (width + 1) / 2, smooth, color="C0", label="training")
    axes.plot(list(run.validation), list(run.validation.values()), "o-", color="C1", label="held out", markersize=3)
    axes.axhline(corpus.frequencies_loss, color="grey", linestyle=":", label="frequencies alone")
    axes.set(title=f"Characters of Tang poems: {model}", xlabel="step", ylabel="cross entropy (nats per character)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def poems_text(run: Run, corpus: Corpus, args: argparse.Namespace) -> str:
    """Poems at each temperature, a sentence a line, and how good the form of many is."""
    text = []
    for temperature in TEMPERATURES:
        poems = write(run.model, corpus, [temperature] * args.poems, args.opening)
        text.append(f"\ntemperature {temperature}: of {len(poems)} poems {judge(poems, corpus)}")
        text += ["\n" + re.sub("([。？！；])(?=.)", "\\1\n", poem) for poem in poems[:4]]
    return "\n".join(text)


def report(eager: Run, compiled: Run, corpus: Corpus, args: argparse.Namespace) -> None:
    """Print and store what the runs showed."""
    apart = max(abs(a - b) / abs(a) for a, b in zip(eager.losses, compiled.losses))
    eager_ms, compiled_ms = (run.step_ms(len(eager.losses)) for run in (eager, compiled))  # the same steps of both
    loss, base = list(compiled.validation.values())[-1], corpus.frequencies_loss
    picture(args.out / f"{args.model}-loss.png", compiled, corpus, args.model)
    poems = poems_text(compiled, corpus, args)
    (args.out / f"{args.model}-poems.txt").write_text(poems.lstrip() + "\n", encoding="utf-8")
    jg.save(compiled.model.state_dict(), args.out / f"{args.model}.safetensors")
    print(poems)
    memory = [f"{mb:.0f}" for mb in compiled.resident_mb.values()]
    print(
        f"\n  held out            {loss:.3f} nats per character, perplexity {math.exp(loss):.1f}; "
        f"by frequencies alone {base:.3f}, {math.exp(base):.0f}\n"
        f"  losses              relative difference of eager and compiled at most {apart:.1e} "
        f"in the first {len(eager.losses)} steps\n"
        f"  a step (median)     eager {eager_ms:.0f} ms, compiled {compiled_ms:.0f} ms: "
        f"{eager_ms / compiled_ms:.2f} times as fast; "
        f"the first two, which compile, {compiled.seconds[0]:.1f} s and {max(compiled.seconds[1:2], default=0):.1f} s\n"
        f"  memory              {memory[0]} MB after {args.every} steps, {memory[-1]} MB at the end\n"
        f"  files               {args.out}/{args.model}-loss.png, -poems.txt, .safetensors"
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("lstm", "gpt"), default="lstm")
    parser.add_argument("--data", type=Path, help="a folder of JSON files, or a UTF-8 text")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--context", type=int, default=64, help="characters in a row")
    parser.add_argument("--vocabulary", type=int, default=3000, help="the most frequent characters, so many")
    parser.add_argument("--width", type=int, help="features (lstm: 320, gpt: 192)")
    parser.add_argument("--layers", type=int, help="(lstm: 1, gpt: 4)")
    parser.add_argument("--dropout", type=float, default=0.15)
    parser.add_argument("--lr", type=float, help="(lstm: 4e-3, gpt: 1e-3)")
    parser.add_argument("--every", type=int, default=200, help="steps from one validation to the next")
    parser.add_argument("--compare", type=int, default=8, help="steps taken eagerly too")
    parser.add_argument("--poems", type=int, default=100, help="poems to judge at each temperature; four are shown")
    parser.add_argument("--opening", default="", help="how the poems begin")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a tiny model and 30 steps, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("out/write_poems"), help="folder for what is stored")
    args = parser.parse_args(arguments)
    if args.quick:
        args.steps, args.every, args.context, args.batch_size, args.vocabulary, args.poems = 30, 15, 24, 16, 500, 8
        args.width, args.layers = args.width or 48, args.layers or 1
    width, layers, lr = (320, 1, 4e-3) if args.model == "lstm" else (192, 4, 1e-3)
    args.width, args.layers, args.lr = args.width or width, args.layers or layers, args.lr or lr
    return args


def main(arguments: list[str] | None = None) -> tuple[Run, Run]:
    """Run the example; the eager and the compiled run."""
    args = parse(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    poems = read_poems(find_data(args.data))
    corpus = make_corpus(poems, args.vocabulary, args.context, args.seed)
    parameters = sum(p.numel() for p in make_model(args, corpus).parameters())
    print(
        f"{len(poems)} poems, {sum(map(len, poems))} characters, {len(corpus.characters)} different ones kept; "
        f"{args.model} with {parameters / 1e6:.1f} million parameters"
    )
    eager = train(corpus, args, False, args.compare)
    compiled = train(corpus, args, True, args.steps)
    report(eager, compiled, corpus, args)
    print(f"\n{time.perf_counter() - start:.0f} s in all")
    return eager, compiled


if __name__ == "__main__":
    main()
