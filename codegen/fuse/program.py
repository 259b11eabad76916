"""A graph as an ordered list of steps over values in memory: kernels to be, matrix products, calls of the host."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.ops.check import Check
from jitgrad.ir.ops.creation import Constant
from jitgrad.ir.verify import sub_graphs

from ..options import DEFAULT, CompileOptions
from .classify import Kind
from .groups import Group, form_groups
from .roots import Analysis, analyse


@dataclass(frozen=True, slots=True, eq=False)
class KernelStep:
    """One fused group; `stores` are the values of it that others need."""

    group: Group
    stores: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProductStep:
    """A matrix product by BLAS."""

    node: Node


@dataclass(frozen=True, slots=True, eq=False)
class TileStep:
    """A convolution by tile kernels."""

    node: Node


@dataclass(frozen=True, slots=True, eq=False)
class HostStep:
    """A node that runs through its NumPy reference. What a check gives is its operand, where that is."""

    node: Node

    @property
    def writes(self) -> tuple[Value, ...]:
        """The results that it computes."""
        return () if isinstance(self.node.op, Check) else self.node.results


@dataclass(frozen=True, slots=True, eq=False)
class ControlStep:
    """A choice between sub-graphs, or a loop over some; `programs` are theirs, in the order of the op's fields."""

    node: Node
    programs: tuple[Program, ...]

    @property
    def needs_host(self) -> bool:
        """Whether something inside runs through NumPy."""
        return any(p.needs_host for p in self.programs)


Step: TypeAlias = KernelStep | ProductStep | TileStep | HostStep | ControlStep


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The steps in the order they run. `values[n]` is value number `n` of the expressions in groups."""

    graph: Graph
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    memory: dict[Value, Value]  # aliases -> the value whose memory they are
    constants: dict[Value, Constant]

    @property
    def needs_host(self) -> bool:
        """Whether some step runs through NumPy, if only within a loop."""
        return any(isinstance(s, HostStep) or (isinstance(s, ControlStep) and s.needs_host) for s in self.steps)

    def memory_of(self, value: Value) -> Value:
        """The value in whose memory `value` lives: itself, but for aliases."""
        while value in self.memory:
            value = self.memory[value]
        return value


def fuse(graph: Graph, options: CompileOptions = DEFAULT) -> Program:
    """Partition a graph of primitives into steps."""
    a = analyse(graph, options)
    fusion = form_groups(a)
    memory = {n.result: n.operands[0] for n in graph.nodes if _is_alias(a, n)}
    constants = {n.result: n.op for n in graph.nodes if isinstance(n.op, Constant)}
    needed = _needed(a, fusion.groups)
    steps: dict[int, Step] = {}
    for group in fusion.groups:
        stores = tuple(r.value for r in group.roots if r.number in needed[group.number])
        steps[group.number] = KernelStep(group, stores)
    for number, node in fusion.others.items():
        steps[number] = _single(a, node)
    order = _ordered(a, steps, fusion.before)
    return Program(graph, tuple(a.values), tuple(order), memory, constants)


def _single(a: Analysis, node: Node) -> Step:
    """The step of a node that is no kernel."""
    match a.kinds[node]:
        case Kind.MATMUL:
            return ProductStep(node)
        case Kind.TILES:
            return TileStep(node)
        case Kind.CONTROL:
            graphs = [g for field in node.op.attributes().values() for g in sub_graphs(field)]
            return ControlStep(node, tuple(fuse(g, a.options) for g in graphs))
    return HostStep(node)


def _is_alias(a: Analysis, node: Node) -> bool:
    if a.kinds[node] is Kind.ALIAS or isinstance(node.op, Check):
        return True
    return a.kinds[node] is Kind.INLINE and node.result in a.stored and node.result not in a.roots


def _needed(a: Analysis, groups: tuple[Group, ...]) -> dict[int, set[int]]:
    """By group, the numbers of its values that something outside it reads."""
    stored, readers = {a.numbers[v] for v in a.stored}, dict[int, set[int]]()
    for group in groups:
        for root in group.roots:
            for r in root.reads:
                readers.setdefault(r.number, set()).add(group.number)
    return {
        group.number: {
            r.number for r in group.roots if r.number in stored or readers.get(r.number, set()) - {group.number}
        }
        for group in groups
    }


def _ordered(a: Analysis, steps: dict[int, Step], before: tuple[int, ...]) -> list[Step]:
    """A topological order that stays close to the graph's own."""
    width = len(before) // 8 + 1
    masks = np.frombuffer(b"".join([mask.to_bytes(width, "little") for mask in before]), np.uint8).reshape(-1, width)
    waiting = np.array([mask.bit_count() for mask in before], np.int64)
    place = {n: _place(a, step) for n, step in steps.items()}
    ready = [(place[n], n) for n in steps if not waiting[n]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, n = heapq.heappop(ready)
        order.append(steps[n])
        users = np.flatnonzero(masks[:, n // 8] >> n % 8 & 1)
        waiting[users] -= 1
        for m in users[waiting[users] == 0].tolist():
            heapq.heappush(ready, (place[m], m))
    return order


def _place(a: Analysis, step: Step) -> int:
    """Where a step stands in the order; checks come as early as they can, so that they divide no native code."""
    if isinstance(step, KernelStep):
        return max(r.number for r in step.group.roots)
    number = a.numbers[step.node.results[0]]
    return number - len(a.numbers) if step.node.op.effect else number
