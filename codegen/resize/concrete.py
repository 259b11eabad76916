"""A plan with tracked numbers as the plan at other sizes: what encoding needs of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.tracked import Changed, Lookup

from ..conv.target import TileTarget
from ..fuse.program import ControlStep, HostStep, KernelStep, ProductStep, Program, TileStep
from ..fuse.strided import product_operand
from ..lower import AnyKernel, Launch, Operand, Scratch
from ..plan import CopyStep, InnerPlans, Place, Plan, PlannedStep
from ..tile_launches import TileLaunches


class Fixed:
    """What of one plan is the same at all sizes, such as updates of parameters: found at one size, used at others."""

    __slots__ = ("launches", "numbers", "operands", "tiles")

    def __init__(self, tiles: TileTarget) -> None:
        self.operands: dict[Operand, tuple[Operand, Place]] = {}
        self.launches: dict[Launch, Launch] = {}
        self.numbers = set[Launch]()  # those without tracked numbers of their own
        self.tiles = TileLaunches(tiles)

    def has(self, operand: Operand, made: Operand) -> bool:
        """Whether an operand is `made` at all sizes."""
        known = self.operands.get(operand)
        return known is not None and known[0] is made


class Concrete:
    """Replaces the tracked numbers of one plan after another by those of `registers`.

    Its values are of their types at these sizes, and made by nothing. `kernels` are those that there is code for.
    """

    def __init__(self, registers: Sequence[Any], tiles: TileTarget, kernels: Mapping[AnyKernel, Any]) -> None:
        self.look_up = Lookup(registers)
        self.target = tiles
        self.tiles = TileLaunches(tiles)
        self.kernels = kernels

    def plan(self, plan: Plan, fixed: Fixed | None = None) -> Plan:
        """A plan, with those inside it. `fixed` is what earlier copies of this very plan have found."""
        return _Copy(self, plan, fixed or Fixed(self.target)).made()


class _Copy:
    def __init__(self, concrete: Concrete, plan: Plan, fixed: Fixed) -> None:
        self.concrete = concrete
        self.fixed = fixed
        self.look_up = concrete.look_up
        self.plan = plan
        self.operands: dict[Operand, Operand] = {}
        self.places: dict[Operand, Place] = {}
        self.inner: dict[ControlStep, InnerPlans] = {}

    def made(self) -> Plan:
        """The plan at these sizes."""
        old = self.plan
        graph = old.program.graph
        inputs, outputs = ([Value(self.look_up(v.type)) for v in values] for values in (graph.inputs, graph.outputs))
        constants = {Value(v.type): op for v, op in old.program.constants.items()}
        steps: list[PlannedStep] = []
        launches: list[list[Launch]] = []
        for step, before in zip(old.steps, old.launches):
            made, own = self.step(step, before)
            steps.append(made)
            launches.append(own)
        program = Program(Graph(inputs, (), outputs), (), (), {}, constants)
        size = self.look_up(old.arena_bytes)
        return Plan(program, old.aliases, steps, launches, self.places, {}, size, self.inner)

    def step(self, step: PlannedStep, launches: Sequence[Launch]) -> tuple[PlannedStep, list[Launch]]:
        """A step and its launches."""
        match step:
            case KernelStep():
                return step, [self.launch(x) for x in launches]
            case TileStep(node=node):
                made = self.node(node)
                return TileStep(made), self.checked(node, made)
            case ProductStep(node=node):
                return ProductStep(self.product(node)), []
            case HostStep(node=node):
                return HostStep(self.node(node)), []
            case ControlStep():
                return self.control(step), []
            case CopyStep(source=source, target=target, result=result):
                return CopyStep(self.operand(source), self.place(target), self.operand(result)), []

    def launch(self, x: Launch) -> Launch:
        """A launch with numbers for these sizes."""
        operands = tuple([self.operand(o) for o in x.operands])
        found = self.fixed.launches.get(x)
        if found is not None:
            return found
        old = (x.slots, x.params, x.extent, x.operations)
        new = old if x in self.fixed.numbers else self.look_up(old)
        slots, params, extent, operations = new
        made = Launch(x.kernel, operands, slots, params, extent, operations, x.label)
        if new is old:
            self.fixed.numbers.add(x)
            if all(self.fixed.has(*pair) for pair in zip(x.operands, operands)):
                self.fixed.launches[x] = made
        return made

    def checked(self, node: Node, made: Node) -> list[Launch]:
        """The launches of a tile op, computed anew where something of it differs, if there is code for them."""
        pairs = zip((*node.operands, *node.results), (*made.operands, *made.results))
        is_fixed = made.op is node.op and all(old.type is new.type for old, new in pairs)
        tiles = self.fixed.tiles if is_fixed else self.concrete.tiles
        launches = tiles.of(made.op, [v.type for v in (*made.operands, *made.results)], made)
        if any(x.kernel not in self.concrete.kernels for x in launches):
            raise Changed
        return launches

    def operand(self, operand: Operand) -> Operand:
        """What is somewhere in memory."""
        found = self.operands.get(operand)
        if found is None:
            known = self.fixed.operands.get(operand)
            found, place = self.found(operand) if known is None else known
            self.operands[operand] = found
            self.places[found] = place
        return found

    def found(self, operand: Operand) -> tuple[Operand, Place]:
        """The operand with its place, which are noted if they are those at all sizes."""
        at = self.plan.place(operand)
        place = self.place(at)
        if isinstance(operand, Scratch):
            length = self.look_up(operand.length)
            made: Operand = Scratch(operand.dtype, length)
            is_fixed = length is operand.length
        else:
            type = self.look_up(operand.type)
            made = Value(type)
            is_fixed = type is operand.type
        if is_fixed and place is at:
            self.fixed.operands[operand] = made, place
        return made, place

    def place(self, place: Place) -> Place:
        """A place, whose offset may depend on sizes."""
        return place if place.offset.__class__ is int else Place(place.region, place.index, self.look_up(place.offset))

    def value(self, value: Value) -> Value:
        """A value in memory."""
        found = self.operand(value)
        assert isinstance(found, Value)
        return found

    def node(self, node: Node) -> Node:
        """A node between values in memory."""
        return self.applied(node, self.look_up(node.op), [self.value(v) for v in node.operands])

    def applied(self, node: Node, op: Op, operands: Sequence[Value]) -> Node:
        """The node on other operands; its results are in memory."""
        made = Node(op, operands, [self.look_up(v.type) for v in node.results], node.location)
        for old, new in zip(node.results, made.results, strict=True):
            self.operands[old] = new
            self.places[new] = self.place(self.plan.place(old))
        return made

    def product(self, node: Node) -> Node:
        """A matrix product, with the views that it reads its operands through."""
        return self.applied(node, node.op, [self.seen(v, product_operand(v).source) for v in node.operands])

    def seen(self, value: Value, source: Value) -> Value:
        """`value`, which is a view of `source`."""
        if value is source or value.node is None:
            return self.value(source)
        inner = self.seen(value.node.operands[0], source)
        return Node(self.look_up(value.node.op), [inner], [self.look_up(value.type)]).result

    def control(self, step: ControlStep) -> ControlStep:
        """A choice or a loop, whose own sub-graphs nobody asks for any more."""
        node = step.node
        operands = [self.value(v) for v in node.operands]
        op = self.look_up(node.op) if step.needs_host else node.op  # native code is that of the inner plans
        made = ControlStep(self.applied(node, op, operands), step.programs)
        inner = self.plan.inner[step]
        arena, *rest = (self.operand(buffer) for buffer in inner.buffers)
        *others, outcome = rest
        plans = tuple([self.concrete.plan(p) for p in inner.plans])
        assert isinstance(arena, Scratch) and isinstance(outcome, Scratch)
        self.inner[made] = InnerPlans(plans, arena, tuple([x for x in others if isinstance(x, Scratch)]), outcome)
        return made
