"""Fusion: the partition of roots into kernels.

A group is one kernel's worth of roots over a shared index space (`domain`), of which the axes `axes` are reduced:

    full   roots over the whole domain: maps, and the operands of reductions
    outer  roots over the kept axes: results of reductions and maps of them

A root joins a group if it reads the group's other values at its own index alone, so that a value is at hand in the
very iteration that needs it. Groups are never allowed to depend on each other in a circle.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jitgrad.ir.graph import Node
from jitgrad.ir.op import ScanOp
from jitgrad.ir.scalar import Const, Expr
from jitgrad.ir.tracked import always_equal
from jitgrad.ir.types import Shape

from ..loops.ir import LoopVar, loop_var
from .classify import Kind
from .element import ZERO
from .roots import Analysis, Root
from .strided import product_operand

_MAX_READS: Final = 24
_MAX_ROOTS: Final = 32
_MAX_WEIGHT: Final = 1200
_RECENT: Final = 24  # groups looked at for a root that depends on none of them


class Level(enum.Enum):
    """Where in a group's loops a root is computed."""

    FULL = "full"
    OUTER = "outer"


class Template(enum.Enum):
    """The loops of a group."""

    MAP = "map"  # no reduction
    ROW = "row"  # a loop over kept axes, with loops over the reduced axes inside, as often as needed
    SPLIT = "split"  # nothing is kept: fixed chunks first, their results second
    COLUMN = "column"  # the last axis is kept: blocks of columns by chunks of rows, then the chunks' results
    SCAN = "scan"  # one scan: along its axis in order, the rest in parallel
    SCATTER = "scatter"  # one scatter: what may meet at a place in order, the rest in parallel


@dataclass(slots=True, eq=False)
class Group:
    """A kernel to be. `number` is its place in the dependency masks; `template` follows from `axes`."""

    number: int
    domain: Shape
    axes: tuple[int, ...] | None = None
    roots: list[Root] = field(default_factory=list)
    levels: dict[int, Level] = field(default_factory=dict)  # by value number
    reads: set[int] = field(default_factory=set)
    weight: int = 0
    before: int = 0  # bit mask of the steps it depends on, directly or not

    @property
    def template(self) -> Template:
        """The loops that the domain and the reduced axes ask for."""
        if self.is_ordered:
            node = self.roots[0].value.node
            return Template.SCAN if node is not None and isinstance(node.op, ScanOp) else Template.SCATTER
        return template_of(self.domain, self.axes)

    @property
    def is_ordered(self) -> bool:
        """Whether it is a scan or a scatter, which share their loops with nothing."""
        return bool(self.roots) and self.roots[0].is_ordered

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple(k for k in range(len(self.domain)) if k not in (self.axes or ()))

    @property
    def index(self) -> tuple[LoopVar, ...]:
        """The group's own index variables."""
        return _variables(len(self.domain))


@functools.cache
def _variables(rank: int) -> tuple[LoopVar, ...]:
    """The variables of a domain of `rank` axes."""
    return tuple([loop_var(f"d{k}") for k in range(rank)])


def template_of(domain: Shape, axes: tuple[int, ...] | None) -> Template:
    """How a reduction of `axes` over `domain` is run. Lengths play no part, so that one kernel serves all."""
    if not axes:
        return Template.MAP if axes is None else Template.ROW
    if len(axes) == len(domain):
        return Template.SPLIT
    return Template.ROW if len(domain) - 1 in axes else Template.COLUMN


def outer_index(group: Group, rank: int) -> tuple[Expr, ...] | None:
    """The index of an outer value of `rank` axes: kept axes alone, or reduced ones at 0 as well."""
    index, kept = group.index, group.kept
    if rank == len(index):
        return tuple([v if k in kept else ZERO for k, v in enumerate(index)])
    if rank == len(kept):
        return tuple([index[k] for k in kept])
    return None


def outer_shape(group: Group, rank: int) -> Shape:
    """The shape of an outer value of `rank` axes."""
    if rank == len(group.domain):
        return tuple(n if k in group.kept else 1 for k, n in enumerate(group.domain))
    return tuple(group.domain[k] for k in group.kept)


def variables_of(group: Group, root: Root, level: Level) -> dict[Expr, Expr]:
    """The root's canonical variables in terms of the group's."""
    if level is Level.FULL:
        return {}
    index = outer_index(group, len(root.domain))
    assert index is not None
    return {loop_var(f"d{k}"): e for k, e in enumerate(index)}


@dataclass(frozen=True, slots=True)
class Fusion:
    """Groups and other nodes, numbered together as steps; `before[n]` is the mask of the steps `n` depends on."""

    groups: tuple[Group, ...]
    others: dict[int, Node]
    before: tuple[int, ...]


@dataclass(slots=True)
class _Fuser:
    analysis: Analysis
    groups: list[Group] = field(default_factory=list)
    owner: dict[int, Group] = field(default_factory=dict)  # by value number
    step_of: dict[int, int] = field(default_factory=dict)  # value number -> step number (groups and others)
    before: list[int] = field(default_factory=list)  # by step number
    group_of_step: dict[int, Group] = field(default_factory=dict)

    def add(self, root: Root) -> None:
        """Put `root` into the best group that takes it, or a new one."""
        needs = self._needs(read.number for read in root.reads)
        for group in self._candidates(root):
            level = self._fit(group, root, needs)
            if level is not None:
                self._join(group, root, level, needs)
                return
        group = Group(len(self.before), root.domain, root.reduction.axes if root.reduction else None)
        self.before.append(0)
        self.groups.append(group)
        self.group_of_step[group.number] = group
        self._join(group, root, _own_level(root), needs)

    def barrier(self, operands: Iterable[int], results: Iterable[int]) -> None:
        """A step that is not a kernel."""
        number = len(self.before)
        self.before.append(self._needs(operands))
        for value in results:
            self.step_of[value] = number

    def alias(self, operands: Sequence[int], result: int) -> None:
        """A value that is there as soon as the first of `operands` is, and is for use after the others."""
        step = self.step_of.get(operands[0])
        for other in operands[1:]:
            later = self.step_of.get(other)
            if later is not None and (step is None or self.before[later] >> step & 1):
                step = later
        if step is not None:
            self.step_of[result] = step

    def _needs(self, numbers: Iterable[int]) -> int:
        mask = 0
        for n in numbers:
            step = self.step_of.get(n)
            if step is not None:
                mask |= 1 << step | self.before[step]
        return mask

    def _candidates(self, root: Root) -> list[Group]:
        if not self.analysis.options.fuse:
            return []
        owners = [self.owner[r.number] for r in root.reads if r.number in self.owner]
        found = sorted(dict.fromkeys(owners), key=lambda g: -g.number)
        reads = {r.number for r in root.reads}
        found += [g for g in self.groups[: -_RECENT - 1 : -1] if g not in found and reads & g.reads]
        return found

    def _fit(self, group: Group, root: Root, needs: int) -> Level | None:
        """The level at which `root` may join `group`, if any."""
        if group.is_ordered or root.is_ordered or self._turns_and_folds(group, root):
            return None
        others = needs & ~(1 << group.number)
        if self._reaches(others, group.number):
            return None
        reads = {r.number for r in root.reads} | group.reads
        if len(group.roots) >= _MAX_ROOTS or len(reads) > _MAX_READS or group.weight + root.weight > _MAX_WEIGHT:
            return None
        if root.reduction is not None:
            same = always_equal(root.domain, group.domain) and group.axes in (None, root.reduction.axes)
            if not same or not self._reads_fit(group, root, Level.FULL, root.reduction.axes):
                return None
            return Level.OUTER
        if always_equal(root.domain, group.domain) and self._reads_fit(group, root, Level.FULL, group.axes):
            return Level.FULL
        if group.axes is not None and self._is_outer(group, root):
            return Level.OUTER
        return None

    def _turns_and_folds(self, group: Group, root: Root) -> bool:
        """Whether the two together would write a transposition and reduce: the loops of one do not suit the other."""
        turned = self.analysis.turned
        folds = group.axes is not None or root.reduction is not None
        return folds and bool(turned) and any(r.value in turned for r in (*group.roots, root))

    def _reaches(self, steps: int, target: int) -> bool:
        """Whether one of `steps` depends on `target`."""
        number = 0
        while steps:
            if steps & 1 and self.before[number] >> target & 1:
                return True
            steps >>= 1
            number += 1
        return False

    def _is_outer(self, group: Group, root: Root) -> bool:
        rank = len(root.domain)
        if outer_index(group, rank) is None or not always_equal(root.domain, outer_shape(group, rank)):
            return False
        inside = any(self.owner.get(r.number) is group for r in root.reads)
        return inside and self._reads_fit(group, root, Level.OUTER, group.axes)

    def _reads_fit(self, group: Group, root: Root, level: Level, axes: tuple[int, ...] | None) -> bool:
        """Whether all reads of the group's own values are at the iteration's own index."""
        after = Group(-1, group.domain, axes)
        inputs = variables_of(after, root, level)
        streams = after.template in (Template.SPLIT, Template.COLUMN)
        for read in root.reads:
            if self.owner.get(read.number) is not group:
                if self.step_of.get(read.number) == group.number:  # an alias, complete only after the group
                    return False
                continue
            index = tuple(inputs.get(e, e) for e in read.index)
            if group.levels[read.number] is Level.FULL:
                if level is Level.OUTER or not _same(index, group.index, group.domain):
                    return False
            else:
                want = outer_index(after, len(index))
                if want is None or not _same(index, want, outer_shape(after, len(index))):
                    return False
                if streams and level is Level.FULL:
                    return False
        return True

    def _join(self, group: Group, root: Root, level: Level, needs: int) -> None:
        if root.reduction is not None:
            group.axes = root.reduction.axes
        group.roots.append(root)
        group.levels[root.number] = level
        group.reads |= {r.number for r in root.reads}
        group.weight += root.weight
        self.owner[root.number] = group
        self.step_of[root.number] = group.number
        bit = 1 << group.number
        self.before[group.number] |= needs & ~bit
        added = self.before[group.number]
        for step, mask in enumerate(self.before):
            if mask & bit:
                self.before[step] = mask | added


def _own_level(root: Root) -> Level:
    return Level.FULL if root.reduction is None else Level.OUTER


def _same(index: tuple[Expr, ...], want: tuple[Expr, ...], shape: Shape) -> bool:
    """Equal indices; along an axis of length 1, 0 is as good as the loop's variable."""
    if len(index) != len(want):
        return False
    pairs = zip(index, want, shape)
    return all(a is b or (always_equal(n, 1) and (isinstance(a, Const) or isinstance(b, Const))) for a, b, n in pairs)


def form_groups(analysis: Analysis) -> Fusion:
    """Partition the roots; everything else that takes time is a step of its own."""
    fuser = _Fuser(analysis)
    numbers = analysis.numbers
    others: dict[int, Node] = {}
    for node in analysis.graph.nodes:
        kind = analysis.kinds[node]
        root = analysis.roots.get(node.results[0])
        if root is not None:
            fuser.add(root)
        elif kind in (Kind.ALIAS, Kind.INLINE):
            fuser.alias([numbers[v] for v in node.operands] or [-1], numbers[node.result])
        elif kind in (Kind.MATMUL, Kind.TILES, Kind.HOST, Kind.CONTROL):
            operands = [product_operand(v).source for v in node.operands] if kind is Kind.MATMUL else node.operands
            others[len(fuser.before)] = node
            fuser.barrier([numbers[v] for v in operands], [numbers[v] for v in node.results])
    return Fusion(tuple(fuser.groups), others, tuple(fuser.before))
