"""What a compiled function did, in words: specialisations, kernels, times, and why calls missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..dump.notebook import described
from .key import LEAVES


@dataclass(frozen=True)
class Miss:
    """Why a call found no specialisation: differences to the last one, `argument 0: shape (8, 3) -> (9, 3)`."""

    differences: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join(self.differences) or "guards on captured state failed"


_LEAF_FIELDS = ("shape", "dtype", "requires_grad", "layout", "identity", "gradient hooks")
_PARTS = (
    "argument structure", "ambient state (grad mode, default dtype)", "values the function reads",
    "which arguments are the same tensor", "which arguments share memory",
)  # fmt: skip


def describe_miss(old: tuple[Any, ...], new: tuple[Any, ...]) -> Miss:
    """The parts in which two keys differ."""
    found: list[str] = []
    for name, a, b in zip(_PARTS, old, new, strict=False):
        if a != b:
            found.append(f"{name} changed{_reads(a, b)}")
    for i, (a, b) in enumerate(zip(old[LEAVES:], new[LEAVES:], strict=False)):
        if a == b:
            continue
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == len(_LEAF_FIELDS):
            found += [f"argument {i}: {f} {x} -> {y}" for f, x, y in zip(_LEAF_FIELDS, a, b, strict=True) if x != y]
        else:
            found.append(f"argument {i}: {_short(a)} -> {_short(b)}")
    return Miss(tuple(found))


def _reads(a: Any, b: Any) -> str:
    names = [x[0] for x, y in zip(_named(a), _named(b), strict=False) if x != y]
    return f": {', '.join(map(str, names))}" if names else ""


def _named(part: Any) -> Sequence[Any]:
    if isinstance(part, tuple) and part and isinstance(part[-1], tuple):
        return [x for x in part[-1] if isinstance(x, tuple) and len(x) == 2]
    return ()


def _short(part: Any) -> str:
    value = part[1] if isinstance(part, tuple) and len(part) == 2 else part
    if isinstance(part, tuple) and part and part[0] is float:
        value = float.fromhex(part[1])
    text = str(value)
    return text if len(text) < 60 else text[:57] + "..."


def _kernels(executable: Any) -> int:
    return len(executable.kernels)


def _compiled(executable: Any) -> int:
    return int(executable.stats.compiled)


@dataclass(frozen=True)
class Explanation:
    """The answer of `f.explain()`. Printing it gives one screen; the fields are for programs."""

    name: str
    calls: int
    entries: Sequence[Any]
    misses: Sequence[Miss]
    not_kept: Mapping[str, int] = field(default_factory=dict)  # why captured calls can't be replayed, and how many

    @property
    def specialisations(self) -> list[Any]:
        """The compiled paths."""
        return [e for e in self.entries if hasattr(e, "executable")]

    @property
    def eager(self) -> list[Any]:
        """The paths that run eagerly, each with its reason."""
        return [e for e in self.entries if not hasattr(e, "executable")]

    @property
    def kernels(self) -> int:
        """Kernels in all specialisations; one that several share counts once."""
        executables = {id(x): x for e in self.specialisations for x in e.executables}
        return sum(len(x.kernels) for x in executables.values())

    @property
    def compile_ms(self) -> float:
        """Milliseconds spent tracing and compiling."""
        return float(sum(e.trace_ms + e.compile_ms for e in self.specialisations))

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.calls} calls, {len(self.specialisations)} specialisations"]
        for i, e in enumerate(self.specialisations):
            stats = e.executable.stats
            kernels, compiled = (sum(map(count, e.executables)) for count in (_kernels, _compiled))
            lines.append(
                f"  [{i}] {e.runs} runs; {len(e.graph.nodes)} nodes -> {kernels} kernels "
                f"({compiled} compiled, {kernels - compiled} reused); "
                f"trace {e.trace_ms:.1f} ms, compile {e.compile_ms:.1f} ms"
            )
            lines.append(f"      inputs: {', '.join(map(str, e.types))}")
            lines += [f"      segment ended: {cut}" for cut in e.cuts]
            stages = ", ".join(f"{name} {ms:.1f}" for name, ms in stats.stages_ms.items())
            lines.append(
                f"      a call: {stats.bytes / 1e6:.3g} MB, {stats.flops / 1e6:.3g} Mflop, "
                f"arena {stats.arena_bytes} bytes; compile stages (ms): {stages}"
            )
            if stats.host_steps:
                lines.append(f"      {stats.host_steps} operations have no kernel and run through NumPy on the host")
        lines += [f"  {e}" for e in self.eager]
        lines += [f"  not kept ({count} calls): {reason}" for reason, count in self.not_kept.items()]
        lines += [f"  miss {i + 1}: {miss}" for i, miss in enumerate(self.misses)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles = [f"graph of specialisation {i}" for i in range(len(self.specialisations))]
        return described(str(self), zip(titles, (e.graph for e in self.specialisations), strict=True))
