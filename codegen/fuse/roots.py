"""Which values get memory of their own, and the expression of each in terms of others that have.

A root is a value computed by a kernel: a map (one expression per element), a reduction (one per operand element), or
a scan or scatter (one per element of each operand).
Values between roots are inlined into what uses them. A value becomes a root where something must find it in memory
(an output, a matrix product, the host, an alias), or where computing it again would cost more than keeping it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import IndexMap, Pointwise, Reduction, ScanOp, ScatterOp
from jitgrad.ir.ops.slicing import Concat
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.scalar import Expr
from jitgrad.ir.types import Shape

from ..options import CompileOptions
from .classify import Kind, Profile, is_squeeze, kind_of, kind_on_host, profile, repeats
from .element import Element, Index, Puller, ValueLoad, canonical_index, walk
from .strided import product_operand
from .turned import is_turned

_CHEAP_TO_REPEAT: Final = 3  # computed again at every read of a broadcast or a window
_CHEAP_TO_SHARE: Final = 6  # computed again in every kernel that uses it
_READS_TO_SHARE: Final = 4
_READS_MEMORY: Final = (Kind.HOST, Kind.TILES, Kind.CONTROL, Kind.ALIAS)
_WORTH_MEMORY: Final = 11  # operations that cost as much as writing an element and reading it
_MAX_WEIGHT: Final = 400
_MAX_DEPTH: Final = 40
_MAX_READS: Final = 16


@dataclass(frozen=True, slots=True)
class Read:
    """One read of value `number` at `index`, in the reader's canonical variables."""

    number: int
    index: Index


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """A value computed by a kernel. `expr` is the element over `domain`: of the value, or of what is reduced."""

    number: int
    value: Value
    domain: Shape
    expr: Expr
    reads: tuple[Read, ...]
    reduction: Reduction | None
    weight: int
    ordered: tuple[Expr, ...] = ()  # of a scan or scatter: what `expr` leaves of its operands, see `_ordered_root`

    @property
    def is_ordered(self) -> bool:
        """Whether it is a scan or a scatter."""
        return self.value.node is not None and isinstance(self.value.node.op, ScanOp | ScatterOp)


@dataclass(slots=True)
class Inlined:
    """What computing one element of an inlined value takes."""

    weight: int = 0
    depth: int = 0
    reads: frozenset[int] = frozenset()


@dataclass(slots=True)
class Analysis:
    """A graph with its values numbered in order of definition, and each node's kind and users."""

    graph: Graph
    options: CompileOptions
    numbers: dict[Value, int] = field(default_factory=dict)
    kinds: dict[Node, Kind] = field(default_factory=dict)
    users: dict[Value, list[Node]] = field(default_factory=lambda: defaultdict(list))
    profiles: dict[Node, Profile] = field(default_factory=dict)
    stored: set[Value] = field(default_factory=set)  # something outside kernels needs it in memory
    turned: set[Value] = field(default_factory=set)  # transposed by kernels of their own
    inlined: dict[Value, Inlined] = field(default_factory=dict)
    roots: dict[Value, Root] = field(default_factory=dict)

    @property
    def values(self) -> list[Value]:
        """All values, by number."""
        return list(self.numbers)

    def needs_memory(self, node: Node) -> bool:
        """Whether the result of an inline node is a root for its own sake: needed in memory, or costly and shared."""
        value = node.result
        is_costly = self.profiles[node].weight >= _CHEAP_TO_SHARE
        return value in self.stored or (is_costly and len(self.users[value]) > 1)


def analyse(graph: Graph, options: CompileOptions) -> Analysis:
    """Find the roots of `graph`."""
    a = Analysis(graph, options)
    for value in graph.values():
        a.numbers[value] = len(a.numbers)
    _classify(a)
    _find_stored(a)
    puller = Puller(lambda v: None if v in a.inlined else a.numbers[v], a.numbers.__getitem__)
    for node in graph.nodes:
        if a.kinds[node] is Kind.INLINE:
            summary = _summary(a, node)
            if is_turned(node.result, a.kinds, a.users, a.needs_memory):
                a.turned.add(node.result)
            if node.result in a.turned or _is_root(a, node.result, summary):
                a.roots[node.result] = _map_root(a, puller, node, summary)
            else:
                a.inlined[node.result] = summary
        elif a.kinds[node] is Kind.REDUCE:
            a.roots[node.result] = _reduction_root(a, puller, node)
        elif a.kinds[node] is Kind.ORDERED:
            a.roots[node.result] = _ordered_root(a, puller, node)
    return a


def _classify(a: Analysis) -> None:
    """Kinds, profiles and users. Equal ops on equal types, as in equal layers, are looked at once."""
    known: dict[tuple[Any, ...], Profile] = {}
    for node in a.graph.nodes:
        a.kinds[node] = kind_on_host(node) if a.options.host else kind_of(node)
        if a.kinds[node] is Kind.INLINE:
            key = (node.op, *(v.type for v in node.operands))
            found = known.get(key)
            if found is None:
                found = known[key] = profile(node)
            a.profiles[node] = found
        for operand in dict.fromkeys(node.operands):
            a.users[operand].append(node)


def _find_stored(a: Analysis) -> None:
    """Values that must be in memory whatever they cost, from the outputs back."""
    a.stored.update(a.graph.outputs)
    for node in reversed(a.graph.nodes):
        kind = a.kinds[node]
        if kind is Kind.MATMUL:
            a.stored.update(product_operand(v).source for v in node.operands)
        elif kind in (Kind.HOST, Kind.TILES, Kind.CONTROL, Kind.ALIAS) or (
            kind is Kind.INLINE and is_squeeze(node) and node.result in a.stored
        ):
            a.stored.update(node.operands)


def _summary(a: Analysis, node: Node) -> Inlined:
    total = Inlined(a.profiles[node].weight)
    for operand in dict.fromkeys(node.operands):
        inner = a.inlined.get(operand)
        if inner is None:
            total.reads |= {a.numbers[operand]}
        else:
            total.weight += inner.weight
            total.depth = max(total.depth, inner.depth + 1)
            total.reads |= inner.reads
    return total


def _is_root(a: Analysis, value: Value, s: Inlined) -> bool:
    assert value.node is not None
    if is_squeeze(value.node):
        return False  # in memory it is an alias
    if value in a.stored or (not a.options.fuse and isinstance(value.node.op, Pointwise)):
        return True
    users = [u for u in a.users[value] if a.kinds[u] in (Kind.INLINE, Kind.REDUCE, Kind.ORDERED)]
    if len(users) > 1 and (s.weight >= _CHEAP_TO_SHARE or len(s.reads) > _READS_TO_SHARE):
        return True
    if s.weight > _MAX_WEIGHT or s.depth > _MAX_DEPTH or len(s.reads) > _MAX_READS:
        return True
    if any(s.weight * _pieces_beside(u) > _WORTH_MEMORY for u in users):
        return True
    return s.weight > _CHEAP_TO_REPEAT and any(_is_repeated(a, value, u) for u in users)


def _pieces_beside(user: Node) -> int:
    """How many pieces there are beside one of something larger, in whose loop its elements might be computed in vain.

    How long they are plays no part, so that one choice serves all sizes.
    """
    match user.op:
        case Concat():
            return len(user.operands) - 1
        case WriteView():
            return 1
    return 0


def _is_repeated(a: Analysis, value: Value, user: Node) -> bool:
    """Whether `user` reads elements of `value` more than once."""
    if a.kinds[user] is Kind.ORDERED:
        return isinstance(user.op, ScatterOp) and user.operands[0] is not value
    if not isinstance(user.op, IndexMap):
        return False
    accesses = [x for x in a.profiles[user].accesses if user.operands[x.operand] is value]
    return len(accesses) > 1 or any(repeats(x, user.result, value) for x in accesses)


def _reads(expr: Expr) -> tuple[Read, ...]:
    return tuple(Read(e.number, e.index) for e in walk(expr) if isinstance(e, Element))


def _map_root(a: Analysis, puller: Puller, node: Node, s: Inlined) -> Root:
    value = node.result
    expr = puller.compute(value, canonical_index(len(value.shape)))
    return Root(a.numbers[value], value, value.shape, expr, _reads(expr), None, s.weight)


def _reduction_root(a: Analysis, puller: Puller, node: Node) -> Root:
    operand, value = node.operands[0], node.result
    assert isinstance(node.op, Reduction)
    expr = puller.element(operand, canonical_index(len(operand.shape)))
    inner = a.inlined.get(operand)
    weight = 1 + (inner.weight if inner else 0)
    return Root(a.numbers[value], value, operand.shape, expr, _reads(expr), node.op, weight)


def _ordered_root(a: Analysis, puller: Puller, node: Node) -> Root:
    """A scan's: `expr` and `ordered` are the elements of its operands at the result's index.

    A scatter's: `expr` is the base's element; `ordered`, over the last operand's index space, are that operand's
    element and its place in the base, axis by axis.
    """
    value, operands = node.result, node.operands
    weight = 1 + sum(a.inlined[v].weight for v in operands if v in a.inlined)
    expr = puller.element(operands[0], canonical_index(len(value.shape)))
    if isinstance(node.op, ScanOp):
        ordered = tuple(puller.element(v, canonical_index(len(value.shape))) for v in operands[1:])
    else:
        assert isinstance(node.op, ScatterOp)
        index = canonical_index(len(operands[-1].shape))
        loads = [ValueLoad(puller, v, None) for v in operands]
        ordered = (puller.element(operands[-1], index), *node.op.place(index, loads))
    reads = dict.fromkeys(read for e in (expr, *ordered) for read in _reads(e))
    return Root(a.numbers[value], value, value.shape, expr, tuple(reads), None, weight, ordered)
