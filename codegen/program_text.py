"""An executable's stages as text, for dumps and `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jitgrad.ir.graph import Graph
from jitgrad.ir.printer import to_text

from .fuse.program import HostStep, KernelStep, ProductStep, Program
from .loops.printer import print_kernel
from .lower import Launch, Scratch, nbytes_of
from .plan import CopyStep, Plan
from .schedule import grain


class Compiled(Protocol):
    """What is printed."""

    plan: Plan
    kernels: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DumpText:
    """The texts that are made when asked for."""

    graph: Graph

    def pieces(self, executable: Compiled) -> Mapping[str, str]:
        """By stage."""
        plan, kernels = executable.plan, executable.kernels
        return {
            "graph": to_text(self.graph),
            "groups": groups_text(plan.program),
            "kernels": kernels_text(plan),
            "plan": plan_text(plan),
            "llvm": "\n".join(k.llvm_ir() for k in kernels),
            "assembly": "\n".join(k.assembly() for k in kernels),
        }


def groups_text(program: Program) -> str:
    """Which nodes run together: one paragraph per step."""
    lines = []
    for n, step in enumerate(program.steps):
        match step:
            case KernelStep(group=group):
                axes = "" if group.axes is None else f" reducing {list(group.axes)}"
                lines.append(f"step {n}: {group.template.value} over {list(group.domain)}{axes}")
                for root in group.roots:
                    stored = " stored" if root.value in step.stores else ""
                    op = f"{root.reduction} of " if root.reduction is not None else ""
                    lines.append(f"  v{root.number}: {root.value.type} = {op}{root.expr}{stored}")
            case ProductStep(node=node) | HostStep(node=node):
                where = "blas" if isinstance(step, ProductStep) else "host"
                lines.append(f"step {n}: {where} {node.op} -> {node.result.type}")
    return "\n".join(lines) + "\n"


def kernels_text(plan: Plan) -> str:
    """The loop-level IR of every launch."""
    parts = []
    for n, launches in enumerate(plan.launches):
        for launch in launches:
            head = f"# step {n}: {launch.label}\n# slots {list(launch.slots)} params {list(launch.params)}"
            parts.append(f"{head}\n{print_kernel(launch.kernel)}")
    return "\n".join(parts)


def plan_text(plan: Plan) -> str:
    """Steps, operands and places."""
    lines = [f"arena {plan.arena_bytes} bytes"]
    for n, (step, launches) in enumerate(zip(plan.steps, plan.launches)):
        match step:
            case CopyStep(source=source, target=target):
                lines.append(f"step {n}: copy {nbytes_of(source)} bytes {plan.place(source)} -> {target}")
            case ProductStep(node=node) | HostStep(node=node):
                operands = ", ".join(str(v.type) for v in node.operands)
                places = ", ".join(str(plan.place(v)) for v in node.results)
                lines.append(f"step {n}: {node.op}({operands}) -> {places}")
            case KernelStep():
                lines += [f"step {n}: {line}" for launch in launches for line in _launch_lines(plan, launch)]
    return "\n".join(lines) + "\n"


def _launch_lines(plan: Plan, launch: Launch) -> Iterator[str]:
    portion = grain(launch)
    how = f"{-(-launch.extent // portion)} portions of {portion}" if portion else "serial"
    yield f"{launch.label}, {launch.extent} iterations, {how}, about {launch.work / 1000:.1f} us"
    for operand, buffer in zip(launch.operands, launch.kernel.buffers):
        what = "scratch" if isinstance(operand, Scratch) else str(operand.type)
        yield f"    {buffer.role} {what} at {plan.place(operand)}"
