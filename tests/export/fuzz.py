"""Broken program files by the thousand: each must load, or give one error that names the place.

    python tests/export/fuzz.py --count 100000 --seed 0 --jobs 2

Files are made from programs by mutations that a seed decides, and read by processes of their own, whose memory and
time for each file are bounded. The last line printed is a summary; the exit status is 1 if something else happened
than a program or an error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SECONDS = 10.0
MEGABYTES = 1024  # beside what the process has when it starts
PLACE = re.compile(r"line \d+(, column \d+)?: |weights: |the text is longer|.* is no jitgrad program: ")
NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "7",
    "64",
    "4294967296",
    "9223372036854775807",
    "99999999999999999999",
    "1e308",
    "nan",
    "inf",
    "-inf",
    "0.5",
    "1" * 500,
    "{n}",
    "{n//0}",
    "{pow(n,64)}",
    "n*n*n*n*n*n*n*n",
    "(1, 2)",
    "none",
    '"x"',
)
WORDS = (
    "graph",
    "return",
    "add",
    "reshape",
    "matmul",
    "f32",
    "i64[]",
    "none",
    "true",
    "output 0",
    "output 99",
    "%x",
    "argument",
    "state",
    'weights here 0, bytes 8, sha256 ""',
    "dim n = 3, min 1",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ":",
    "=",
    "@cuda:0",
    "#",
    '"',
    "\\",
    "\x00",
    "é",
    "require n > 2",
    "size(n)",
    "split[sizes=(1, 2), axis=0]",
)


def corpus(folder: Path) -> list[bytes]:
    """Small programs that between them use most of the format."""
    import jitgrad as jg
    from jitgrad import nn

    jg.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2))
    layer, w = nn.Linear(3, 2), jg.ones(3, dtype=jg.complex64)
    optimizer = jg.optim.Adam(layer.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = nn.functional.dropout(layer(x), 0.5).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def nested(inputs, k):
        if inputs["a"].shape[0] > 2:
            return {"sum": inputs["a"].sum(0) * k, "parts": [inputs["b"][::2], None, inputs["a"].shape[0] * 2]}
        return inputs["a"]

    programs = [
        jg.export(lambda x: x.softmax(-1), (jg.ones(2, 3),)),
        jg.export(model.eval(), (jg.ones(2, 1, 8, 8),), dynamic={"input": {0: "n"}}),
        jg.export(step, (jg.ones(4, 3),), dynamic={"x": {0: "n"}}),
        jg.export(lambda x: (x * w).abs().sort().values.cumsum(0), (jg.ones(3, dtype=jg.complex64),)),
        jg.export(nested, ({"a": jg.ones(4, 3), "b": jg.ones(6)}, 2.5), metadata={"a": [1, {"b": None}]},
                  dynamic={"inputs": {"a": {0: "n"}, "b": {0: jg.export.Dim("m", 2, 64, 2)}}}),
    ]  # fmt: skip
    found = []
    for i, program in enumerate(programs):
        program.save(folder / f"{i}.jg")
        found.append((folder / f"{i}.jg").read_bytes())
    return found * 30 + every_op()


def every_op() -> list[bytes]:
    """A program of one node for samples of every op, so that each op's rules meet broken fields and types."""
    from ops.samples import samples_of

    from jitgrad.export.spec import Argument, Spec
    from jitgrad.export.trees import Container, Leaf
    from jitgrad.export.writer import program_text
    from jitgrad.ir.builder import Builder
    from jitgrad.ir.ops import REGISTRY

    found = []
    for name in REGISTRY:
        for sample in samples_of(name)[:3]:
            b = Builder()
            operands = [b.input(t) for t in sample.types]
            graph = b.build(b.emit(sample.op, *operands))
            arguments = tuple([Argument(f"x{i}", Leaf(i)) for i in range(len(operands))])
            result = Container("tuple", tuple([Leaf(i) for i in range(len(graph.outputs))]))
            found.append(program_text(Spec(name, {}, (), arguments, (), (), result, graph)).encode())
    return found


class Mutator:
    """Mutated files, each decided by its number."""

    def __init__(self, files: list[bytes], seed: int) -> None:
        self.files = files
        self.seed = seed
        self.kinds = (self.flip, self.truncate, self.swap_tokens, self.blow_up, self.repeat_lines, self.drop_line,
                      self.insert, self.edit_header, self.splice, self.nest,
                      self.rename, self.rename)  # fmt: skip

    def file(self, number: int) -> tuple[str, bytes]:
        """What was done, and the bytes."""
        self.random = random.Random(self.seed * 1_000_003 + number)
        data = self.random.choice(self.files)
        names = []
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            kind = self.random.choice(self.kinds)
            names.append(kind.__name__)
            data = kind(data)
        return "+".join(names), data

    def flip(self, data: bytes) -> bytes:
        """Some bytes become others, most of them in the text."""
        out = bytearray(data)
        for _ in range(self.random.choice((1, 2, 8))):
            if out:
                out[self.random.randrange(len(out))] = self.random.choice(
                    (self.random.randrange(256), 0x30, 0x2C, 0x20)
                )
        return bytes(out)

    def truncate(self, data: bytes) -> bytes:
        """The beginning."""
        return data[: self.random.randrange(len(data) + 1)]

    def _tokens(self, data: bytes) -> tuple[list[str], bytes]:
        text, rest = split(data)
        return re.findall(r"\s+|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?|.", text, re.DOTALL), rest

    def swap_tokens(self, data: bytes) -> bytes:
        """Two tokens change places."""
        tokens, rest = self._tokens(data)
        if len(tokens) > 1:
            i, j = (self.random.randrange(len(tokens)) for _ in range(2))
            tokens[i], tokens[j] = tokens[j], tokens[i]
        return "".join(tokens).encode() + rest

    def blow_up(self, data: bytes) -> bytes:
        """A number becomes another, perhaps a huge one."""
        tokens, rest = self._tokens(data)
        places = [i for i, t in enumerate(tokens) if t.lstrip("-")[:1].isdigit()]
        for i in self.random.sample(places, min(len(places), self.random.choice((1, 1, 3)))):
            tokens[i] = self.random.choice(NUMBERS)
        return "".join(tokens).encode() + rest

    def rename(self, data: bytes) -> bytes:
        """A number or a word becomes another wherever it occurs, so that the file may stay consistent."""
        tokens, rest = self._tokens(data)
        words = sorted({t for t in tokens if t.strip() and (t[0].isalnum() or t[0] == "-")})
        if not words:
            return data
        old = self.random.choice(words)
        pool = NUMBERS if old.lstrip("-")[:1].isdigit() else tuple(words)
        new = self.random.choice(pool)
        return "".join([new if t == old else t for t in tokens]).encode() + rest

    def repeat_lines(self, data: bytes) -> bytes:
        """A line, or a block of them, is there again, once or many times."""
        text, rest = split(data)
        lines = text.splitlines(keepends=True)
        if lines:
            i = self.random.randrange(len(lines))
            block = lines[i : i + self.random.choice((1, 1, 5))]
            lines[i:i] = block * self.random.choice((1, 2, 200))
        return "".join(lines).encode() + rest

    def drop_line(self, data: bytes) -> bytes:
        """A line is missing."""
        text, rest = split(data)
        lines = text.splitlines(keepends=True)
        if lines:
            del lines[self.random.randrange(len(lines))]
        return "".join(lines).encode() + rest

    def insert(self, data: bytes) -> bytes:
        """A word where none belongs."""
        tokens, rest = self._tokens(data)
        tokens.insert(self.random.randrange(len(tokens) + 1), " " + self.random.choice(WORDS) + " ")
        return "".join(tokens).encode() + rest

    def edit_header(self, data: bytes) -> bytes:
        """The JSON header of the weights has another value somewhere, or its length is another."""
        at = data.find(b'{"')
        start = data.rfind(b"weights here")
        if start < 0 or at < start:
            at = data.find(b'{"', max(start, 0))
        if at < 8:
            return self.flip(data)
        length = int.from_bytes(data[at - 8 : at], "little")
        if self.random.random() < 0.2 or length > len(data):
            wrong = self.random.choice((0, 1, length + 1, 2**31, 2**63, 2**64 - 1))
            return data[: at - 8] + (wrong % 2**64).to_bytes(8, "little") + data[at:]
        header = data[at : at + length].decode(errors="replace")
        numbers = list(re.finditer(r"\d+|\"[^\"]*\"", header))
        if numbers:
            m = self.random.choice(numbers)
            new = self.random.choice((*NUMBERS, '"F64"', '"weight"', "[0, 4]", "{}", "-8", "[" * 2000))
            header = header[: m.start()] + new + header[m.end() :]
        raw = header.encode()[:length].ljust(length) if self.random.random() < 0.7 else header.encode()
        return data[: at - 8] + len(raw).to_bytes(8, "little") + raw + data[at + length :]

    def splice(self, data: bytes) -> bytes:
        """The beginning of one file and the end of another."""
        other = self.random.choice(self.files)
        return data[: self.random.randrange(len(data) + 1)] + other[self.random.randrange(len(other) + 1) :]

    def nest(self, data: bytes) -> bytes:
        """Brackets in brackets in brackets."""
        tokens, rest = self._tokens(data)
        mark = self.random.choice(("(", "[", "{", "graph(", 'record "a" {"b": ', "min(", "-", "1+(", "%x = "))
        tokens.insert(self.random.randrange(len(tokens) + 1), mark * self.random.choice((3, 40, 5000)))
        return "".join(tokens).encode() + rest


def split(data: bytes) -> tuple[str, bytes]:
    """The text of a file, and the rest."""
    at = data.find(b"\nweights ")
    end = data.find(b"\n", at + 1) + 1 if at >= 0 else len(data)
    return data[:end].decode(errors="replace"), data[end:]


def attempt(path: Path) -> str:
    """What becomes of a file: "loads", "refused", or what is wrong."""
    import jitgrad as jg
    from jitgrad.ir.errors import ArgumentError, InvalidGraphError, ParseError

    try:
        program = jg.load_program(path)
    except (ParseError, ArgumentError) as error:
        return "refused" if PLACE.match(error.message) else f"no place: {error.message[:200]}"
    text = program.text
    try:
        program.stats()
    except InvalidGraphError:  # an op that passes its own checks and can't decompose
        return "refused"
    if program.text != text:
        return "the text changes"
    return "loads"


def work(seed: int, first: int, last: int) -> None:
    """Read the files `first` to `last`; print what became of them as JSON."""
    import jitgrad as jg

    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    mutator = Mutator(corpus(folder), seed)
    jg.load_program(folder / "0.jg")  # all that loading needs is loaded
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + (MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    counts: Counter[str] = Counter()
    wrong, slowest = [], 0.0
    path = folder / "mutated.jg"
    for number in range(first, last):
        name, data = mutator.file(number)
        path.write_bytes(data)
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            result = attempt(path)
        except BaseException as error:
            result = f"{type(error).__name__}: {str(error)[:300]}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        slowest = max(slowest, time.perf_counter() - start)
        counts[result if result in ("loads", "refused") else "wrong"] += 1
        if result not in ("loads", "refused"):
            wrong.append((number, name, result))
    print(json.dumps({"counts": counts, "wrong": wrong, "slowest": slowest, "peak_mb": peak_kib() // 1024}))


def peak_kib() -> int:
    """The most memory that this program has held; `ru_maxrss` would count the process that started it as well."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(count: int, seed: int, jobs: int, *, first: int = 0) -> dict[str, object]:
    """Fuzz in `jobs` processes; a process that dies counts as wrong."""
    bounds = [first + count * i // jobs for i in range(jobs + 1)]
    command = [sys.executable, __file__, "--seed", str(seed), "--work"]
    processes = [
        subprocess.Popen([*command, str(a), str(b)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for a, b in itertools.pairwise(bounds)
    ]
    counts: Counter[str] = Counter()
    wrong, slowest, peak = [], 0.0, 0
    for p, a in zip(processes, bounds, strict=False):
        out, err = p.communicate()
        if p.returncode != 0:
            wrong.append((a, "process", f"exit status {p.returncode}: {err[-500:]}"))
            continue
        found = json.loads(out.splitlines()[-1])
        counts.update(found["counts"])
        wrong += found["wrong"]
        slowest, peak = max(slowest, found["slowest"]), max(peak, found["peak_mb"])
    return {"files": count, **counts, "wrong": wrong, "slowest_s": round(slowest, 2), "peak_mb": peak}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=int, nargs=2, metavar=("FIRST", "LAST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.seed, *options.work)
        return 0
    start = time.perf_counter()
    found = run(options.count, options.seed, options.jobs, first=options.first)
    for number, name, result in found["wrong"][:40]:
        print(f"file {number} ({name}): {result}")
    print({**found, "wrong": len(found["wrong"]), "seconds": round(time.perf_counter() - start)})
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
