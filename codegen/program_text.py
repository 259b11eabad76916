"""An executable's stages as text, for dumps and `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jitgrad.ir.graph import Graph
from jitgrad.ir.printer import to_text
from jitgrad.ir.scalar import Expr

from .fuse.element import walk
from .fuse.program import ControlStep, HostStep, KernelStep, ProductStep, Program, TileStep
from .fuse.roots import Root
from .loops.ir import Kernel
from .loops.printer import print_kernel
from .lower import AnyKernel, Launch, Scratch, nbytes_of
from .plan import CopyStep, Plan
from .schedule import grain

_LONGEST: Final = 200  # parts of an expression


class Compiled(Protocol):
    """What is printed."""

    @property
    def plan(self) -> Plan:
        """The plan."""

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Its kernels' machine code."""


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
                    lines.append(f"  v{root.number}: {root.value.type} = {op}{_expression(root)}{stored}")
            case ProductStep(node=node) | TileStep(node=node) | HostStep(node=node):
                where = {ProductStep: "blas", TileStep: "tiles", HostStep: "host"}[type(step)]
                lines.append(f"step {n}: {where} {node.op} -> {node.result.type}")
            case ControlStep(node=node, programs=programs):
                lines.append(f"step {n}: {node.op.name} -> {', '.join(str(v.type) for v in node.results)}")
                lines += [f"  {line}" for p in programs for line in groups_text(p).splitlines()]
    return "\n".join(lines) + "\n"


def _expression(root: Root) -> str:
    """The root's expression, or what it reads where it is too long; shared parts would be written out every time."""
    sizes: dict[Expr, int] = {}
    for e in walk(root.expr):
        sizes[e] = 1 + sum(sizes[a] for a in e.args)
    if sizes[root.expr] <= _LONGEST:
        return str(root.expr)
    return f"{len(sizes)} operations on {', '.join(f'v{n}' for n in dict.fromkeys(r.number for r in root.reads))}"


def kernels_text(plan: Plan) -> str:
    """The loop-level IR of every launch."""
    parts = []
    for n, (step, launches) in enumerate(zip(plan.steps, plan.launches)):
        if isinstance(step, ControlStep):
            parts += [f"# step {n}, inside\n{kernels_text(p)}" for p in plan.inner[step].plans]
        for launch in launches:
            head = f"# step {n}: {launch.label}\n# slots {list(launch.slots)} params {list(launch.params)}"
            parts.append(f"{head}\n{kernel_text(launch.kernel)}")
    return "\n".join(parts)


def kernel_text(kernel: AnyKernel) -> str:
    """A kernel's loop-level IR, or what stands for it."""
    return print_kernel(kernel) if isinstance(kernel, Kernel) else f"{kernel}\n"


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
            case ControlStep(node=node):
                places = ", ".join(str(plan.place(v)) for v in (*node.operands, *node.results))
                lines.append(f"step {n}: {node.op.name} at {places}")
                lines += [f"  {line}" for p in plan.inner[step].plans for line in plan_text(p).splitlines()]
            case KernelStep() | TileStep():
                lines += [f"step {n}: {line}" for launch in launches for line in _launch_lines(plan, launch)]
    return "\n".join(lines) + "\n"


def _launch_lines(plan: Plan, launch: Launch) -> Iterator[str]:
    portion = grain(launch)
    how = f"{-(-launch.extent // portion)} portions of {portion}" if portion else "serial"
    yield f"{launch.label}, {launch.extent} iterations, {how}, about {launch.work / 1000:.1f} us"
    for operand, buffer in zip(launch.operands, launch.kernel.buffers):
        what = "scratch" if isinstance(operand, Scratch) else str(operand.type)
        yield f"    {buffer.role} {what} at {plan.place(operand)}"
