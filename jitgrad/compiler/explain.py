"""What a compiled function did, in words: specialisations, guards, segments, kernels, times, and why calls missed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backend import steps_of, timing_of
from ..dump.notebook import described
from .misses import Miss

_WIDTH = 118
_MOST_GUARDS = 14  # shown; all are in `guards`
_MOST_STEPS = 8
_MOST_MISSES = 6
_MOST_SHOWN = 4  # specialisations


@dataclass(frozen=True)
class Step:
    """What one specialisation runs between two points: `kind` is "kernel", "blas", "control", "host" or "copy".

    `ops` are the names of the graph's ops that it computes, `lines` the user's lines that they come from. `bytes` are
    moved and `flops` done by a call. `us` is its measured time in microseconds, if that was asked for; `estimate_us`
    is a rough guess for one thread.
    """

    segment: int
    kind: str
    title: str
    shape: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    bytes: int
    flops: int
    estimate_us: float
    us: float | None = None

    def row(self) -> tuple[str, ...]:
        """Its line in a table."""
        ops = _cut(", ".join(f"{name} x{n}" if n > 1 else name for name, n in Counter(self.ops).items()), 46)
        time = "" if self.us is None else f"{self.us:.1f} µs"
        return self.kind, ops, _cut(self.shape, 34), _amount(self.bytes, "B"), _amount(self.flops, "flop"), time


def steps_in(executables: Sequence[Any], measure: bool) -> list[Step]:
    """The steps of some executables in order, each timed on made-up inputs with `measure`."""
    found: list[Step] = []
    for number, executable in enumerate(executables):
        timing = timing_of(executable) if measure else None
        for k, s in enumerate(steps_of(executable)):
            lines = dict.fromkeys(str(n.location) for n in s.nodes if n.location is not None)
            found.append(Step(
                number, s.kind, s.title, s.shape, tuple(n.op.name for n in s.nodes), tuple(lines), s.bytes, s.flops,
                s.estimate_us, None if timing is None else timing.steps[k],
            ))  # fmt: skip
    return found


@dataclass(frozen=True)
class Explanation:
    """The answer of `f.explain()`. Printing it gives one screen; the fields are for programs.

    entries: what serves calls: specialisations, and keys under which Python runs at each call
    guards: for each specialisation, what must hold, in terms of the source
    misses: why calls had to be traced, newest last
    not_kept: why captured calls can't be replayed, and how many there were
    refused: calls that Python ran because an op refused a value, so that the error is that of eager code
    measured: whether steps are timed
    numerics: how machine code rounds, "default" or "strict"
    """

    name: str
    calls: int
    entries: Sequence[Any]
    misses: Sequence[Miss]
    not_kept: Mapping[str, int] = field(default_factory=dict)
    guards: Sequence[Sequence[str]] = ()
    refused: int = 0
    measured: bool = False
    numerics: str = "default"

    @property
    def specialisations(self) -> list[Any]:
        """The compiled paths."""
        return [e for e in self.entries if hasattr(e, "executable")]

    @property
    def eager(self) -> list[Any]:
        """The paths on which Python runs at each call, each with its reason."""
        return [e for e in self.entries if not hasattr(e, "executable")]

    @property
    def kernels(self) -> int:
        """Kernels in all specialisations; one that several share counts once."""
        executables = {id(x): x for e in self.specialisations for x in e.executables}
        return sum(x.stats.kernels for x in executables.values())

    @property
    def steps(self) -> list[list[Step]]:
        """For each specialisation, what it runs."""
        return [steps_in(e.executables, self.measured) for e in self.specialisations]

    @property
    def compile_ms(self) -> float:
        """Milliseconds spent tracing and compiling."""
        return float(sum(e.trace_ms + e.compile_ms for e in self.specialisations))

    @property
    def stages_ms(self) -> dict[str, float]:
        """Milliseconds by stage: tracing, and the stages of code generation."""
        found = {"trace": float(sum(e.trace_ms for e in self.specialisations))}
        for x in {id(x): x for e in self.specialisations for x in e.executables}.values():
            for stage, ms in x.stats.stages_ms.items():
                found[stage] = found.get(stage, 0.0) + ms
        return found

    def __str__(self) -> str:
        specialisations, steps = self.specialisations, self.steps
        lines = [
            f"{self.name}: {self.calls} calls, {len(specialisations)} specialisations, {len(self.misses)} misses, "
            f"{self.kernels} kernels, {self.compile_ms:.1f} ms tracing and compiling"
            + (f", {self.numerics} numerics" if self.numerics != "default" else "")
        ]
        hidden = max(0, len(specialisations) - _MOST_SHOWN)
        if hidden:
            lines.append(f"  ({hidden} older specialisations are in the fields)")
        for i, e in list(enumerate(specialisations))[hidden:]:
            lines += _specialisation(i, e, self.guards[i] if i < len(self.guards) else (), steps[i])
        lines += [f"  {e}" for e in self.eager]
        lines += [f"  not kept ({count} calls): {reason}" for reason, count in self.not_kept.items()]
        if self.refused:
            lines.append(f"  {self.refused} calls ran as Python, because an op refused a value")
        first = max(0, len(self.misses) - _MOST_MISSES)
        for k, miss in list(enumerate(self.misses, 1))[first:]:
            where = f" (call at {miss.location})" if miss.location else ""
            lines += _wrapped(f"miss {k}{where}:", [str(miss)], 2)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles = [f"graph of specialisation {i}" for i in range(len(self.specialisations))]
        return described(str(self), zip(titles, (e.graph for e in self.specialisations), strict=True))


def _specialisation(number: int, e: Any, guards: Sequence[str], steps: Sequence[Step]) -> list[str]:
    executables = e.executables
    kernels = sum(x.stats.kernels for x in executables)
    compiled = sum(x.stats.compiled for x in executables)
    lines = [
        f"  [{number}] {e.runs} runs; {len(e.graph.nodes)} nodes -> {kernels} kernels "
        f"({compiled} compiled, {kernels - compiled} reused)"
    ]
    more = [f"and {len(guards) - _MOST_GUARDS} more"] if len(guards) > _MOST_GUARDS else []
    lines += _wrapped("guards:", [*guards[:_MOST_GUARDS], *more], 6)
    lines += [f"      segment ended: {cut}" for cut in e.cuts]
    lines += _table(steps)
    stats = [x.stats for x in executables]
    stages: Counter[str] = Counter()
    for s in stats:
        stages.update(s.stages_ms)
    lines.append(
        f"      a call: {_amount(sum(s.bytes for s in stats), 'B')}, {_amount(sum(s.flops for s in stats), 'flop')}, "
        f"arena {sum(s.arena_bytes for s in stats)} bytes"
    )
    told = ", ".join(f"{name} {ms:.1f}" for name, ms in stages.items())
    lines.append(f"      made in: trace {e.trace_ms:.1f} ms, compile {e.compile_ms:.1f} ms (stages, ms: {told})")
    host = [s for s in steps if s.kind == "host"]
    if host:
        lines.append(f"      {len(host)} operations have no kernel and run through NumPy on the host:")
        lines += [f"        {s.title}{f' at {s.lines[0]}' if s.lines else ''}" for s in host[:_MOST_STEPS]]
    return lines


def _table(steps: Sequence[Step]) -> list[str]:
    """The steps that take longest, in order."""
    heavy = sorted(range(len(steps)), key=lambda k: -(steps[k].us or steps[k].estimate_us))[:_MOST_STEPS]
    rows = [steps[k].row() for k in sorted(heavy)]
    widths = [max((len(row[c]) for row in rows), default=0) for c in range(6)]
    lines = [
        "      " + "  ".join(
            text.ljust(width) if c < 3 else text.rjust(width)
            for c, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]  # fmt: skip
    return [*lines, f"      ... and {len(steps) - len(rows)} lighter steps"] if len(steps) > len(rows) else lines


def _wrapped(head: str, parts: Sequence[str], indent: int) -> list[str]:
    text = f"{head} {'; '.join(parts)}"
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4), break_on_hyphens=False
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _amount(number: float, unit: str) -> str:
    """A number with its prefix: `1.2 MB`."""
    power = min(4, (len(str(int(number))) - 1) // 3)
    if not power:
        return f"{number:.0f} {unit}"
    return f"{number / 1000**power:.3g} {'kMGT'[power - 1]}{unit}"
