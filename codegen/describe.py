"""What a plan does, step by step: members, operands and their places, estimated costs, and who lives where when.

For dumps, `explain` and timings; nothing here changes what runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir.analysis import bytes_moved, flops
from jitgrad.ir.control import Scan
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import View
from jitgrad.ir.ops.creation import Full

from .cpu.blas import product_of
from .fuse.program import ControlStep, HostStep, KernelStep, ProductStep, Program, TileStep
from .fuse.strided import product_operand
from .lower import AnyKernel, Launch, Operand, Scratch, nbytes_of
from .plan import CopyStep, Place, Plan, PlannedStep, kernels_of, reads_of, writes_of
from .schedule import grain, tile_grain

_NAMES: Final = 4  # ops named in a step's title
_FLOPS_PER_NANOSECOND: Final = 50.0
_BYTES_PER_NANOSECOND: Final = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """Memory that a step reads or writes. `value` is None for scratch; `role` is "in", "out" or "inout"."""

    value: Value | None
    nbytes: int
    place: Place
    role: str


@dataclass(frozen=True, slots=True, eq=False)
class LaunchDescription:
    """One kernel run. `kernel` is its number among `kernels_of`; `portions` is 0 where the calling thread runs it."""

    label: str
    kernel: int
    extent: int
    portions: int
    slots: tuple[int, ...]
    params: tuple[float | int | bool, ...]
    operations: int
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StepDescription:
    """One step. `kind` is "kernel", "blas", "control", "host" or "copy".

    `nodes` are the graph's nodes that it computes. A node that is cheap enough to compute twice may belong to several
    steps. `bytes` are read and written at least once, `estimate_us` is a rough guess for one thread.
    """

    kind: str
    title: str
    shape: str
    nodes: tuple[Node, ...]
    launches: tuple[LaunchDescription, ...]
    accesses: tuple[Access, ...]
    bytes: int
    flops: int
    estimate_us: float


@dataclass(frozen=True, slots=True, eq=False)
class Lifetime:
    """A stretch of the arena that holds `value` (None: scratch) from step `first` to step `last`, both included.

    `over` is the value whose memory it took over, if it was computed in place.
    """

    value: Value | None
    offset: int
    nbytes: int
    first: int
    last: int
    over: Value | None


def describe_steps(plan: Plan) -> list[StepDescription]:
    """All steps in order."""
    numbers = {kernel: n for n, kernel in enumerate(kernels_of(plan))}
    counts = Counter(node.op.name for node in plan.program.graph.nodes)
    return [_describe(plan, step, launches, numbers, counts) for step, launches in zip(plan.steps, plan.launches)]


def _describe(
    plan: Plan, step: PlannedStep, launches: Sequence[Launch], numbers: dict[AnyKernel, int], counts: Mapping[str, int]
) -> StepDescription:
    match step:
        case KernelStep():
            return _kernel(plan, step, launches, numbers, counts)
        case ProductStep(node=node):
            return _product(plan, node)
        case TileStep(node=node):
            return _tiles(plan, node, launches, numbers)
        case ControlStep(node=node):
            return _control(plan, step)
        case HostStep(node=node):
            accesses = _accesses(plan, node.operands, node.results)
            moved = bytes_moved(node)
            return StepDescription(
                "host", node.op.name, "through NumPy", (node,), (), accesses, moved, flops(node),
                1.0 + moved / _BYTES_PER_NANOSECOND / 1e3,
            )  # fmt: skip
    value = None if isinstance(step.source, Scratch) else step.source
    nbytes = nbytes_of(step.source)
    accesses = (
        Access(value, nbytes, plan.place(step.source), "in"),
        Access(None if isinstance(step.result, Scratch) else step.result, nbytes, step.target, "out"),
    )
    estimate = 2 * nbytes / _BYTES_PER_NANOSECOND / 1e3
    return StepDescription("copy", f"copy to {step.target}", "", (), (), accesses, 2 * nbytes, 0, estimate)


def _control(plan: Plan, step: ControlStep) -> StepDescription:
    """A choice or a loop: what its operands and results are, and what one turn of its inner steps costs."""
    node, inner = step.node, [d for p in plan.inner[step].plans for d in describe_steps(p)]
    turns = node.operands[node.op.carries].type.shape[0] if isinstance(node.op, Scan) else 1
    moved = bytes_moved(node)
    how = f"{len(inner)} inner steps" + (f", {turns} times" if turns > 1 else "")
    kind, how = ("host", "through NumPy") if step.needs_host else ("control", how)
    return StepDescription(
        kind, node.op.name, how, (node,), (),
        _accesses(plan, node.operands, node.results), max(moved, turns * sum(d.bytes for d in inner)),
        turns * sum(d.flops for d in inner), turns * sum(d.estimate_us for d in inner),
    )  # fmt: skip


def _kernel(
    plan: Plan, step: KernelStep, launches: Sequence[Launch], numbers: dict[AnyKernel, int], counts: Mapping[str, int]
) -> StepDescription:
    group = step.group
    nodes = _members(plan.program, step)
    described = tuple(_launch(plan, launch, numbers) for launch in launches)
    reduced = "" if group.axes is None else f", reducing {_axes(group.axes)}"
    accesses: dict[Value, Access] = {}
    for launch in described:
        for access in launch.accesses:
            if access.value is not None:
                accesses.setdefault(access.value, access)
    return StepDescription(
        "kernel", _title(nodes, counts), f"{group.template.value} over {list(group.domain)}{reduced}", nodes, described,
        tuple(accesses.values()), sum(nbytes_of(o) for x in launches for o in x.operands),
        sum(x.operations for x in launches), sum(x.work for x in launches) / 1e3,
    )  # fmt: skip


def _tiles(plan: Plan, node: Node, launches: Sequence[Launch], numbers: dict[AnyKernel, int]) -> StepDescription:
    accesses = _accesses(plan, node.operands, node.results)
    described = tuple(_launch(plan, launch, numbers) for launch in launches)
    return StepDescription(
        "kernel", node.op.name, launches[0].label, (node,), described, accesses, sum(a.nbytes for a in accesses),
        2 * sum(x.operations for x in launches), sum(x.work for x in launches) / 1e3,
    )  # fmt: skip


def _axes(axes: tuple[int, ...]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {list(axes)}"


def _launch(plan: Plan, launch: Launch, numbers: dict[AnyKernel, int]) -> LaunchDescription:
    portion = grain(launch)
    accesses = tuple(_access(plan, o, b.role) for o, b in zip(launch.operands, launch.kernel.buffers))
    return LaunchDescription(
        launch.label, numbers[launch.kernel], launch.extent, -(-launch.extent // portion) if portion else 0,
        launch.slots, launch.params, launch.operations, accesses,
    )  # fmt: skip


def _access(plan: Plan, operand: Operand, role: str) -> Access:
    value = None if isinstance(operand, Scratch) else operand
    return Access(value, nbytes_of(operand), plan.place(operand), role)


def _accesses(plan: Plan, reads: Iterable[Value], writes: Iterable[Value]) -> tuple[Access, ...]:
    found = [_access(plan, plan.program.memory_of(v), "in") for v in dict.fromkeys(reads)]
    return (*found, *(_access(plan, v, "out") for v in writes))


def _product(plan: Plan, node: Node) -> StepDescription:
    x, y = node.operands
    sources = [product_operand(v).source for v in node.operands]
    product = product_of(node)
    nodes = (*_between(node.operands, set(sources)), node)
    work = 2 * node.result.type.numel * x.type.shape[-1]
    moved = sum(v.type.nbytes for v in (x, y, node.result))
    tiles = len(product.tiles)
    portion = tile_grain(product)
    how = f"{product.rows} x {product.inner} x {product.columns}"
    how += "" if tiles == 1 else f", {tiles} calls" + (f" in {-(-tiles // portion)} portions" if portion else "")
    estimate = max(work / _FLOPS_PER_NANOSECOND, moved / _BYTES_PER_NANOSECOND) / 1e3
    return StepDescription(
        "blas", node.op.name, how, nodes, (), _accesses(plan, sources, node.results), moved, work, estimate
    )


def _members(program: Program, step: KernelStep) -> tuple[Node, ...]:
    """The nodes whose elements a group computes: its roots, and what was inlined into them."""
    found: dict[Node, None] = {}
    for root in step.group.roots:
        node = root.value.node
        if node is None:
            continue
        stop = {program.values[r.number] for r in root.reads}
        found.update(dict.fromkeys((*_between(node.operands, stop), node)))
    return tuple(found)


def _between(values: Iterable[Value], stop: set[Value]) -> list[Node]:
    """The nodes behind `values`, down to the values in `stop`, operands first."""
    found: dict[Node, None] = {}
    pending = [(v, False) for v in values]
    while pending:
        value, done = pending.pop()
        node = value.node
        if node is None or value in stop or (node in found and not done):
            continue
        if done:
            found.setdefault(node)
            continue
        pending.append((value, True))
        pending += [(v, False) for v in reversed(node.operands)]
    return list(found)


def _title(nodes: Sequence[Node], counts: Mapping[str, int]) -> str:
    """The names of the ops that tell most: those that are rare in the graph."""
    names = [n.op.name for n in nodes if not isinstance(n.op, View | Full)] or [n.op.name for n in nodes]
    different = list(dict.fromkeys(names))
    rare = set(sorted(different, key=lambda name: counts[name])[:_NAMES])
    shown = ", ".join(name for name in different if name in rare)
    return f"{shown}, ..." if len(different) > _NAMES else shown


def lifetimes(plan: Plan) -> list[Lifetime]:
    """Who lives in the arena, in order of the first step."""
    first: dict[Operand, int] = {}
    last: dict[Operand, int] = {}
    for n, (step, launches) in enumerate(zip(plan.steps, plan.launches)):
        operands: list[Operand] = [o for x in launches for o in x.operands]
        if isinstance(step, ControlStep):
            operands += plan.inner[step].buffers
        if isinstance(step, CopyStep):
            operands += [step.source, step.result] if isinstance(step.result, Scratch) else [step.source]
        else:
            operands += [*reads_of(plan.program, step), *writes_of(step)]
        for operand in operands:
            memory = operand if isinstance(operand, Scratch) else plan.program.memory_of(operand)
            first.setdefault(memory, n)
            last[memory] = n
    return [
        Lifetime(
            None if isinstance(o, Scratch) else o, place.offset, nbytes_of(o), start, last[o],
            None if isinstance(o, Scratch) else plan.in_place.get(o),
        )
        for o, start in first.items()
        if (place := plan.place(o)).region == "arena" and nbytes_of(o)
    ]  # fmt: skip
