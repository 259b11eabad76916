"""What the lowerings of all templates share: a group's expressions with its own values put in, and its loops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jitgrad.ir import scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Value
from jitgrad.ir.op import Reduction
from jitgrad.ir.scalar import Expr, Fn
from jitgrad.ir.tracked import computed

from ..fuse.classify import cost
from ..fuse.element import Element, Index, element, postorder, rebuild, walk
from ..fuse.groups import Group, Level, outer_index, variables_of
from ..fuse.program import KernelStep, Program
from ..fuse.roots import Root
from ..loops.ir import AccRef, Init, LoopVar, Stmt, Update, acc_ref, loop_var
from ..loops.walk import loads
from .kernel_builder import KernelBuilder
from .nest import Axis, merge_axes, uses_of
from .tuning import CPU_TUNING, Tuning


@dataclass(slots=True)
class GroupLowering:
    """A group on its way to launches."""

    program: Program
    step: KernelStep
    in_place: Mapping[Value, Value] = field(default_factory=dict)
    tuning: Tuning = CPU_TUNING
    accumulators: int = 0
    bindings: dict[int, AccRef] = field(default_factory=dict)  # outer values, by number
    _resolved: dict[int, Expr] = field(default_factory=dict)
    _roots: dict[int, Root] = field(default_factory=dict)
    _reads: dict[int, dict[Value, list[Element]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for root in self.group.roots:
            self._roots[root.number] = root
            if self.group.levels[root.number] is Level.OUTER:
                self.bindings[root.number] = self.new_accumulator(root.value.type.dtype)

    @property
    def group(self) -> Group:
        """The group."""
        return self.step.group

    def builder(self) -> KernelBuilder:
        """For a kernel of this group."""
        extents = dict(zip(self.group.index, self.group.domain))
        return KernelBuilder(self.program.values, self.in_place, extents=extents)

    def new_accumulator(self, dtype: DType) -> AccRef:
        """A fresh accumulator."""
        self.accumulators += 1
        return acc_ref(self.accumulators - 1, dtype)

    # Roots

    @property
    def reductions(self) -> list[Root]:
        """The roots that reduce."""
        return [r for r in self.group.roots if r.reduction is not None]

    @property
    def full_stores(self) -> list[Root]:
        """Stored roots over the whole domain."""
        return [r for r in self.group.roots if self._is_stored(r) and r.number not in self.bindings]

    @property
    def outer_maps(self) -> list[Root]:
        """Roots over the kept axes that are no reductions."""
        return [r for r in self.group.roots if r.number in self.bindings and r.reduction is None]

    def _is_stored(self, root: Root) -> bool:
        return root.value in self.step.stores

    def is_outer_store(self, root: Root) -> bool:
        """Whether a root over the kept axes is stored."""
        return self._is_stored(root) and root.number in self.bindings

    def expression(self, root: Root) -> Expr:
        """The root's expression over the group's variables, the group's own values put in."""
        found = self._resolved.get(root.number)
        if found is None:
            level = Level.FULL if root.reduction is not None else self.group.levels[root.number]
            found = self._resolve(root.expr, variables_of(self.group, root, level))
            self._resolved[root.number] = found
        return found

    def reads_of(self, root: Root, value: Value) -> list[Element]:
        """The elements that a root's expression reads of a value's memory."""
        found = self._reads.get(root.number)
        if found is None:
            found = self._reads[root.number] = {}
            for e in walk(self.expression(root)):
                if isinstance(e, Element):
                    found.setdefault(self.program.memory_of(self.program.values[e.number]), []).append(e)
        return found.get(value, [])

    def _resolve(self, expr: Expr, variables: Mapping[Expr, Expr]) -> Expr:
        def inner(e: Expr) -> tuple[Expr, ...]:
            return e.args[len(e.index) :] if isinstance(e, Element) and e.number in self._roots else e.args

        memo: dict[Expr, Expr] = dict(variables)
        for e in postorder((expr,), inner):
            if e in memo:
                continue
            if isinstance(e, Element) and e.number in self._roots:
                own = self.bindings.get(e.number) or self.expression(self._roots[e.number])
                memo[e] = scalar.where(memo[e.args[-2]], own, memo[e.args[-1]]) if e.masked else own
            else:
                memo[e] = rebuild(e, tuple(memo[a] for a in e.args))
        return memo[expr]

    def store_full(self, b: KernelBuilder, roots: Sequence[Root]) -> list[Stmt]:
        """Stores of values over the whole domain. All are computed before any, where one overwrites what one reads."""
        values = [b.finish(self.expression(r)) for r in roots]
        inits: list[Stmt] = []
        if any(r.value in self.in_place for r in roots) or self._reads_stored(b, roots, values):
            held = [self.new_accumulator(v.dtype) for v in values]
            inits = [Init(a.index, v) for a, v in zip(held, values)]
            values = list(held)
        return inits + [b.store(r.number, self.group.index, v) for r, v in zip(roots, values)]

    def _reads_stored(self, b: KernelBuilder, roots: Sequence[Root], values: Sequence[Expr]) -> bool:
        """Whether one of several values reads memory that another is stored to: what is kept there for both."""
        if len(roots) < 2:
            return False
        stored = {b.buffer(self.program.values[r.number]) for r in roots}
        return any(e.buffer in stored for e in loads(values))

    def outer_index(self, root: Root) -> Index:
        """Where an outer value's element is stored."""
        index = outer_index(self.group, len(root.value.shape))
        assert index is not None
        return index

    # Loops

    def loops(self, axes: Iterable[int], expressions: Iterable[Expr]) -> list[Axis]:
        """The loops over some axes of the domain, merged as far as all accesses of the group allow."""
        return self._merged(axes, [*expressions, *self._store_elements(self.group.roots)])

    def streamed_loops(self, axes: Iterable[int]) -> list[Axis]:
        """The same for what happens to each element of the domain, leaving out what follows from the results."""
        streamed = [*self.reductions, *self.full_stores]
        return self._merged(axes, [*map(self.expression, streamed), *self._store_elements(self.full_stores)])

    def in_memory_order(self, axes: Iterable[int]) -> list[int]:
        """Axes of the domain, the innermost in memory last, if all that is streamed lies so and no reduction asks where
        an element is; else as they are."""
        given = list(axes)
        if self.tuning.flat or self.asks_positions:
            return given
        streamed = [self.expression(r) for r in (*self.reductions, *self.full_stores)]
        streamed += self._store_elements(self.full_stores)
        values, index = self.program.values, self.group.index
        reads = [positions for positions, _ in uses_of(streamed, lambda n: values[n].shape).plain]
        widest = max(reads, key=lambda positions: sum(index[a] in positions for a in given), default={})
        order = sorted(given, key=lambda a: widest.get(index[a], -1))
        places = ([positions[index[a]] for a in order if index[a] in positions] for positions in reads)
        return order if all(p == sorted(p) for p in places) else given

    @property
    def asks_positions(self) -> bool:
        """Whether some reduction wants to know where an element is."""
        position = loop_var("position")
        for root in self.reductions:
            fold = new_fold(self, root)
            stepped = fold.stepped(scalar.arg(0, fold.operand_dtype), position)
            if any(e is position for value in stepped for e in walk(value)):
                return True
        return False

    def crossed(self, loops: Sequence[Axis]) -> Axis | None:
        """The loop, other than the last, along which something is contiguous that is read along the last loop too."""
        if len(loops) < 2:
            return None
        values, last = self.program.values, loops[-1].var
        for positions, shape in uses_of(self.all_expressions(), lambda n: values[n].shape).plain:
            contiguous = [v for v, place in positions.items() if place == len(shape) - 1]
            if contiguous and last in positions and contiguous[0] is not last:
                return next((a for a in loops[:-1] if a.var is contiguous[0]), None)
        return None

    def is_contiguous(self, var: LoopVar, roots: Iterable[Root] | None = None) -> bool:
        """Whether something is read contiguously along `var`, for any root or for these."""
        values = self.program.values
        expressions = self.all_expressions() if roots is None else [self.expression(r) for r in roots]
        uses = uses_of(expressions, lambda n: values[n].shape)
        return any(positions.get(var) == len(shape) - 1 for positions, shape in uses.plain)

    def _merged(self, axes: Iterable[int], expressions: Iterable[Expr]) -> list[Axis]:
        values = self.program.values
        uses = uses_of(expressions, lambda n: values[n].shape)
        return merge_axes([(self.group.index[k], self.group.domain[k]) for k in axes], uses)

    def all_expressions(self) -> list[Expr]:
        """Everything the group computes."""
        return [self.expression(r) for r in self.group.roots]

    def _store_elements(self, roots: Iterable[Root]) -> list[Expr]:
        found: list[Expr] = []
        for root in roots:
            if self._is_stored(root):
                outer = root.number in self.bindings
                index = self.outer_index(root) if outer else self.group.index
                found.append(element(root.number, root.value.type.dtype, index))
        return found

    @property
    def operations(self) -> int:
        """Operations over the whole domain, roughly."""
        each = sum(cost(self.expression(r)) + 1 for r in self.group.roots if self._counts(r))
        return math.prod(self.group.domain) * each

    def _counts(self, root: Root) -> bool:
        return root.reduction is not None or (root.number not in self.bindings and self._is_stored(root))

    def label(self, part: str = "") -> str:
        """Names the fused ops, for people."""
        names = [r.value.node.op.name for r in self.group.roots if r.value.node is not None]
        return f"{self.group.template.value}{part}: {' '.join(names)}"


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction on its way: `state` are its accumulators, or the places in memory that stand for them."""

    reduction: Reduction
    operand_dtype: DType
    state: tuple[Expr, ...]

    @property
    def initial(self) -> tuple[Expr, ...]:
        """The starting state."""
        return self.reduction.initial(self.operand_dtype)

    def stepped(self, value: Expr, position: Expr) -> tuple[Expr, ...]:
        """The state after one more element."""
        return self.reduction.step(self.state, value, position)

    def merged(self, right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The state with that of the stretch that follows folded in."""
        return self.reduction.merge(self.state, right)

    @property
    def result(self) -> Expr:
        """The reduction's result."""
        return self.reduction.finish(self.state, self.operand_dtype)

    def inits(self) -> list[Stmt]:
        """Declares the accumulators."""
        return [Init(i, v) for i, v in zip(self._indices(), self.initial)]

    def update(self, values: tuple[Expr, ...]) -> Update:
        """Sets the accumulators."""
        return Update(self._indices(), values)

    @property
    def accumulators(self) -> tuple[AccRef, ...]:
        """The state, where it is accumulators."""
        return tuple(a for a in self.state if isinstance(a, AccRef))

    def _indices(self) -> tuple[int, ...]:
        return tuple(a.index for a in self.accumulators)

    @property
    def is_exact(self) -> bool:
        """Whether any order gives the same bits, so that long stretches lose no accuracy."""
        if not any(a.dtype.is_floating_point for a in self.state):
            return True
        probe = scalar.arg(0, self.operand_dtype)
        return all(v.fn in (Fn.MIN, Fn.MAX) for v in self.stepped(probe, scalar.const(0)))


def operand_dtype(root: Root) -> DType:
    """The dtype of what a reduction folds."""
    assert root.value.node is not None
    return root.value.node.operands[0].type.dtype


def accumulator_dtypes(root: Root) -> list[DType]:
    """The dtypes of a reduction's accumulators."""
    assert root.reduction is not None
    return [i.dtype for i in root.reduction.initial(operand_dtype(root))]


def fold_over(root: Root, state: Sequence[Expr]) -> Fold:
    """The reduction `root` with its state in `state`."""
    assert root.reduction is not None
    return Fold(root.reduction, operand_dtype(root), tuple(state))


def new_fold(lowering: GroupLowering, root: Root) -> Fold:
    """The reduction `root` with fresh accumulators."""
    return fold_over(root, [lowering.new_accumulator(d) for d in accumulator_dtypes(root)])


def ceil_div(a: int, b: int) -> int:
    """How many stretches of `b` cover `a`; at least one, so that empty reductions give their starting value."""
    return computed(_ceil_div, a, b)


def _ceil_div(a: int, b: int) -> int:
    return max(1, -(-a // b))
