"""The plan of an executable: steps in order, and where every value lives.

    region ::= input k | output k | constant k | arena
    place  ::= region, byte offset

Intermediate values share one arena, by liveness; a result may take over the memory of an operand that dies with the
kernel. Outputs are computed right in their own memory, and outputs that alias an input right in that input's, where all
that reads the input's old value has run before. What cannot be done so is copied at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jitgrad.ir import dtypes
from jitgrad.ir.control import WhileLoop
from jitgrad.ir.graph import Value
from jitgrad.ir.tracked import always_equal
from jitgrad.ir.types import TensorType

from .arena import Arena
from .conv.target import DEFAULT_TARGET, TileTarget
from .fuse.program import ControlStep, HostStep, KernelStep, ProductStep, Program, Step, TileStep
from .fuse.strided import product_operand
from .lower import CPU_TUNING, AnyKernel, Launch, Operand, Scratch, Tuning, lower
from .lower.group_lowering import GroupLowering
from .lower.in_place import may_overwrite
from .tile_launches import tile_launches


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value starts: `region` is "input", "output", "constant" or "arena", `index` says which one."""

    region: str
    index: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"arena+{self.offset}" if self.region == "arena" else f"{self.region} {self.index}"


@dataclass(frozen=True, slots=True, eq=False)
class CopyStep:
    """Copies the bytes of `source` to `target`; `result` is what the target holds afterwards."""

    source: Operand
    target: Place
    result: Operand


PlannedStep: TypeAlias = Step | CopyStep


@dataclass(frozen=True, slots=True, eq=False)
class InnerPlans:
    """What a choice or loop runs: a plan for each sub-graph, whose inputs, outputs and arena lie in the outer memory.

    `others` are the second places of carries, which change places at each step; `outcome` takes a loop's condition.
    """

    plans: tuple[Plan, ...]
    arena: Scratch
    others: tuple[Scratch, ...]
    outcome: Scratch

    @property
    def buffers(self) -> tuple[Scratch, ...]:
        """All memory that the step needs beside operands and results."""
        return (self.arena, *self.others, self.outcome)


@dataclass(slots=True)
class Plan:
    """Steps in order; `launches[n]` are the kernels of step `n`. Aliases have no place of their own."""

    program: Program
    aliases: Mapping[int, int]  # output -> the input whose memory it is written to
    steps: list[PlannedStep] = field(default_factory=list)
    launches: list[list[Launch]] = field(default_factory=list)
    places: dict[Operand, Place] = field(default_factory=dict)
    in_place: dict[Value, Value] = field(default_factory=dict)  # result -> the operand whose memory it takes over
    arena_bytes: int = 0
    inner: dict[ControlStep, InnerPlans] = field(default_factory=dict)

    def place(self, operand: Operand) -> Place:
        """Where a value or a scratch buffer lives."""
        return self.places[operand if isinstance(operand, Scratch) else self.program.memory_of(operand)]

    def output_place(self, index: int) -> Place:
        """Where output `index` is expected."""
        target = self.aliases.get(index)
        return Place("output", index) if target is None else Place("input", target)


def reads_of(program: Program, step: Step) -> tuple[Value, ...]:
    """The values whose memory a step reads."""
    match step:
        case ProductStep(node=node):
            found = [product_operand(v).source for v in node.operands]
        case HostStep(node=node) | TileStep(node=node) | ControlStep(node=node):
            found = list(node.operands)
        case KernelStep(group=group):
            own = set(group.levels)
            found = [program.values[r.number] for root in group.roots for r in root.reads if r.number not in own]
    return tuple(dict.fromkeys(program.memory_of(v) for v in found))


def writes_of(step: Step) -> tuple[Value, ...]:
    """The values that a step computes into memory."""
    match step:
        case KernelStep():
            return step.stores
        case HostStep():
            return step.writes
    return step.node.results


def kernels_of(plan: Plan) -> list[AnyKernel]:
    """The kernels of a plan and those inside it, each once, in the order they are first run."""
    found: dict[AnyKernel, None] = {}
    for step, launches in zip(plan.steps, plan.launches):
        found.update(dict.fromkeys(x.kernel for x in launches))
        if isinstance(step, ControlStep):
            found.update(dict.fromkeys(k for p in plan.inner[step].plans for k in kernels_of(p)))
    return list(found)


def ignore(launches: Sequence[Launch]) -> None:
    """Nobody wants to know of launches as they come."""


def _is_alike(a: TensorType, b: TensorType) -> bool:
    return a.dtype is b.dtype and always_equal(a.shape, b.shape)


def _needs_host(step: Step) -> bool:
    return isinstance(step, HostStep) or (isinstance(step, ControlStep) and step.needs_host)


def make_plan(
    program: Program, aliases: Mapping[int, int], tuning: Tuning = CPU_TUNING, tiles: TileTarget = DEFAULT_TARGET,
    new_arena: Callable[[], Any] = Arena, lowered: Callable[[Sequence[Launch]], None] = ignore,
) -> Plan:  # fmt: skip
    """Lower all groups and place all values; `tuning` says for what kind of machine, `tiles` with what registers.

    `new_arena` makes what hands out memory: an `Arena`, or what stands for one. `lowered` is told of launches as they
    come.
    """
    return _Planner(program, aliases, tuning, tiles, new_arena, lowered).run()


class _Planner:
    def __init__(
        self, program: Program, aliases: Mapping[int, int], tuning: Tuning, tiles: TileTarget,
        new_arena: Callable[[], Any], lowered: Callable[[Sequence[Launch]], None],
    ) -> None:  # fmt: skip
        self.program = program
        self.lowered = lowered
        self.tiles = tiles
        self.tuning = tuning
        self.plan = Plan(program, aliases)
        self.new_arena = new_arena
        self.arena = new_arena()
        self.reads = [reads_of(program, s) for s in program.steps]
        self.last_use = {v: n for n, reads in enumerate(self.reads) for v in reads}
        self.outputs = [program.memory_of(v) for v in program.graph.outputs]
        self.lowerings: dict[KernelStep, GroupLowering] = {}
        self.last_host = max((n for n, s in enumerate(program.steps) if _needs_host(s)), default=-1)
        self.claimed: dict[Value, int] = {}  # value -> the output it is computed for

    def run(self) -> Plan:
        """The finished plan."""
        places = self.plan.places
        places.update({v: Place("input", k) for k, v in enumerate(self.program.graph.inputs)})
        places.update({v: Place("constant", k) for k, v in enumerate(self.program.constants)})
        self._claim_outputs()
        for n, step in enumerate(self.program.steps):
            self._add(n, step)
        self._copy_outputs()
        self.plan.arena_bytes = self.arena.size
        return self.plan

    # Outputs

    def _claim_outputs(self) -> None:
        """Outputs that aliases are written to choose first, because they save a copy of something that exists."""
        aliases = self.plan.aliases
        order = sorted(range(len(self.outputs)), key=lambda k: (k not in aliases, k))
        defined = {v: n for n, s in enumerate(self.program.steps) for v in writes_of(s)}
        for k in order:
            value = self.outputs[k]
            if value not in defined or value in self.claimed:
                continue
            if k not in aliases:
                self.claimed[value] = k
                self.plan.places[value] = Place("output", k)
                continue
            old = self.program.graph.inputs[aliases[k]]
            if self._may_write_back(defined[value], old, value):
                self.claimed[value] = k
                self.plan.places[value] = self.plan.places[old]

    def _may_write_back(self, n: int, old: Value, new: Value) -> bool:
        """Whether step `n` may compute `new` right into the memory of the input `old`.

        Not before steps of the host, which may raise: a call that fails has changed no input.
        """
        last = self.last_use.get(old, -1)
        if old in self.outputs or last > n or self.last_host > n:
            return False
        return last < n or self._take_over(n, old, new)

    def _take_over(self, n: int, old: Value, new: Value) -> bool:
        step = self.program.steps[n]
        if not isinstance(step, KernelStep) or old in self.plan.in_place.values():
            return False
        if not may_overwrite(self.program, self._lowering(step), old, new):
            return False
        self.plan.in_place[new] = old
        return True

    def _lowering(self, step: KernelStep) -> GroupLowering:
        """The group's expressions, resolved once for all questions about what may be overwritten."""
        found = self.lowerings.get(step)
        if found is None:
            found = self.lowerings[step] = GroupLowering(self.program, step)
        return found

    def _copy_outputs(self) -> None:
        """Copies for outputs that are not computed in place: fresh ones first, since write-backs change inputs."""
        left = [k for k, v in enumerate(self.outputs) if self.claimed.get(v) != k]
        changed = {self.program.graph.inputs[i] for i in self.plan.aliases.values()}
        fresh = [k for k in left if k not in self.plan.aliases]
        back = [k for k in left if k in self.plan.aliases and self._differs(k)]
        sources: dict[int, Operand] = {k: self.outputs[k] for k in left}
        for k in fresh:
            self._copy(self.outputs[k], self.plan.output_place(k), self.program.graph.outputs[k])
        for k in back:
            if self.outputs[k] in changed:
                sources[k] = self._saved(self.outputs[k])
        for k in back:
            self._copy(sources[k], self.plan.output_place(k), self.program.graph.outputs[k])

    def _differs(self, k: int) -> bool:
        return self.outputs[k] is not self.program.graph.inputs[self.plan.aliases[k]]

    def _saved(self, value: Value) -> Scratch:
        saved = Scratch(value.type.dtype, value.type.numel)
        self._place_in_arena(saved, saved.nbytes)
        self._copy(value, self.plan.places[saved], saved)
        return saved

    def _copy(self, source: Operand, target: Place, result: Operand) -> None:
        self.plan.steps.append(CopyStep(source, target, result))
        self.plan.launches.append([])

    # Steps

    def _add(self, n: int, step: Step) -> None:
        for value in writes_of(step):
            if value not in self.plan.places:
                self._place_result(n, step, value)
        launches = self._lower(step)
        self.lowered(launches)
        scratch = dict.fromkeys(o for x in launches for o in x.operands if isinstance(o, Scratch))
        if isinstance(step, ControlStep):
            scratch = dict.fromkeys(self._plan_inside(step).buffers)
        for buffer in scratch:
            self._place_in_arena(buffer, buffer.nbytes)
        self.plan.steps.append(step)
        self.plan.launches.append(launches)
        for buffer in scratch:
            self.arena.release(self.plan.places[buffer].offset, buffer.nbytes)
        for value in dict.fromkeys((*self.reads[n], *writes_of(step))):
            if self.last_use.get(value, n) <= n:
                self._release(value)

    def _lower(self, step: Step) -> list[Launch]:
        if isinstance(step, TileStep):
            return tile_launches(step.node, self.tiles)
        if not isinstance(step, KernelStep):
            return []
        in_place = {v: self.plan.in_place[v] for v in step.stores if v in self.plan.in_place}
        return lower(self.program, step, in_place, self.tuning)

    def _plan_inside(self, step: ControlStep) -> InnerPlans:
        """Plans for the sub-graphs of a choice or a loop."""
        plans = tuple(make_plan(p, {}, self.tuning, self.tiles, self.new_arena, self.lowered) for p in step.programs)
        arena = Scratch(dtypes.uint8, max(p.arena_bytes for p in plans))
        carries = step.node.results[: getattr(step.node.op, "carries", 0)]
        others = tuple(Scratch(v.type.dtype, v.type.numel) for v in carries)
        outcome = Scratch(dtypes.bool_, 1 if isinstance(step.node.op, WhileLoop) else 0)
        found = self.plan.inner[step] = InnerPlans(plans, arena, others, outcome)
        return found

    def _place_result(self, n: int, step: Step, value: Value) -> None:
        """In a dying operand's memory if the kernel allows it, else in fresh memory."""
        places = self.plan.places
        for old in self.reads[n] if isinstance(step, KernelStep) else ():
            dies = self.last_use[old] == n and places[old].region == "arena" and old not in self.outputs
            if dies and _is_alike(old.type, value.type) and self._take_over(n, old, value):
                places[value] = places[old]
                return
        self._place_in_arena(value, value.type.nbytes)

    def _place_in_arena(self, operand: Operand, nbytes: int) -> None:
        self.plan.places[operand] = Place("arena", 0, self.arena.allocate(nbytes))

    def _release(self, value: Value) -> None:
        place = self.plan.places[value]
        taken_over = value in self.plan.in_place.values()
        if place.region == "arena" and not taken_over and value not in self.outputs:
            self.arena.release(place.offset, value.type.nbytes)
