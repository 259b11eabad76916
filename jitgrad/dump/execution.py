"""What a compiled graph does, as a page's data: steps, launches, the arena, and what is written where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.describe import Access, LaunchDescription, StepDescription, describe_steps, lifetimes
from jitgrad.ir.graph import Graph, Value


def execution_data(executable: Any, graph: Graph, timing: Any = None) -> dict[str, Any]:
    """The data of `executable`, whose graph is `graph`; with times if `timing` has some."""
    return _Execution(executable, graph, timing).data()


class _Execution:
    def __init__(self, executable: Any, graph: Graph, timing: Any) -> None:
        self.plan = executable.plan
        self.kernels = tuple(executable.kernels)
        self.timing = timing
        self.values = {v: n for n, v in enumerate(graph.values())}
        self.nodes = {node: n for n, node in enumerate(graph.nodes)}

    def data(self) -> dict[str, Any]:
        """All of it."""
        plan, timing, values = self.plan, self.timing, self.values
        lives = [
            [self.value(x.value), x.offset, x.nbytes, x.first, x.last, self.value(x.over)] for x in lifetimes(plan)
        ]
        aliases = {values[v]: values[m] for v, m in plan.program.memory.items() if v in values and m in values}
        return {
            "steps": [self.step(n, step) for n, step in enumerate(describe_steps(plan))],
            "arena": {"bytes": plan.arena_bytes, "lives": lives},
            "aliases": aliases,
            "writes": {int(output): int(index) for output, index in plan.aliases.items()},
            "measured": None if timing is None else {"runs": timing.runs, "call": round(timing.call, 3)},
        }

    def value(self, value: Value | None) -> int:
        """A value's number, -1 for none."""
        return -1 if value is None else self.values.get(value, -1)

    def step(self, n: int, step: StepDescription) -> dict[str, Any]:
        """One step."""
        return {
            "kind": step.kind, "title": step.title, "shape": step.shape, "bytes": step.bytes, "flops": step.flops,
            "nodes": [self.nodes[node] for node in step.nodes if node in self.nodes],
            "launches": [self.launch(x) for x in step.launches],
            "accesses": self.accesses(step.accesses), "estimate": round(step.estimate_us, 3),
            "measured": None if self.timing is None else round(self.timing.steps[n], 3),
        }  # fmt: skip

    def launch(self, x: LaunchDescription) -> dict[str, Any]:
        """One kernel run."""
        return {
            "label": x.label, "kernel": x.kernel, "extent": x.extent, "slots": list(x.slots),
            "params": [_number(p) for p in x.params], "operations": x.operations, "geometry": self.geometry(x),
        }  # fmt: skip

    def geometry(self, x: LaunchDescription) -> str:
        """How a launch is shared out, in words."""
        kernel = self.kernels[x.kernel] if x.kernel < len(self.kernels) else None
        if hasattr(kernel, "ptx"):
            found = kernel.launch(x.slots)  # type: ignore[union-attr]
            return f"{found.grid} blocks of {found.block} threads"
        return f"{x.portions} portions" if x.portions else "on the calling thread"

    def accesses(self, found: Sequence[Access]) -> list[Any]:
        """What is read and written: value, bytes, place, role."""
        return [[self.value(a.value), a.nbytes, str(a.place), a.role] for a in found]


def _number(x: Any) -> Any:
    """A number, or as text what JSON has no number for."""
    return x if isinstance(x, bool | int) or (x == x and abs(x) != float("inf")) else str(x)
