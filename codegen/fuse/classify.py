"""What each node is to the code generator, and what it costs to compute one of its elements again."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.control import Cond, Scan, WhileLoop
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.op import IndexMap, Op, Pointwise, Reduction, ScanOp, ScatterOp
from jitgrad.ir.ops.again import Again
from jitgrad.ir.ops.creation import Constant
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.scalar import MATH, Arg, Expr, Fn, Number
from jitgrad.ir.tracked import always_equal
from jitgrad.ir.types import TensorType

from ..loops.ir import LoopVar
from ..loops.tile import TileOp
from .element import Index, canonical_index, walk

_COST: Final = {Fn.DIV: 4, Fn.REM: 6, Fn.SQRT: 4, Fn.POW: 24, Fn.LGAMMA: 40}
_MATH_COST: Final = 12


class Kind(enum.Enum):
    """How a node's results come about."""

    INLINE = "inline"  # an expression of operand elements: pointwise or an index map
    REDUCE = "reduce"
    ORDERED = "ordered"  # a scan or a scatter: loops of its own, over what its operands' elements are
    ALIAS = "alias"  # the operand's memory in another shape
    MATMUL = "matmul"
    TILES = "tiles"  # a convolution, by a tile kernel
    CONSTANT = "constant"
    CONTROL = "control"  # a choice or a loop: sub-graphs with plans of their own
    HOST = "host"  # the reference, through NumPy


def kind_of(node: Node) -> Kind:
    """The node's kind."""
    op, types = node.op, [v.type for v in node.operands]
    match op:
        case Constant():
            return Kind.CONSTANT
        case Again():
            return Kind.ALIAS
        case Cond() | Scan() | WhileLoop():
            return Kind.CONTROL
        case Reshape():
            return Kind.INLINE if is_squeeze(node) or _splits_computed(node) else Kind.ALIAS
        case MatMul():
            return Kind.MATMUL if types[0].dtype.is_floating_point else Kind.HOST
        case TileOp():
            return Kind.TILES
        case Pointwise() | IndexMap() if _emits(op, types):
            return Kind.INLINE
        case Reduction() if _emits(op, types) and type(op).initial is not Reduction.initial:
            return Kind.REDUCE
        case ScanOp() | ScatterOp() if _emits(op, types):
            return Kind.ORDERED
    return Kind.HOST


def kind_on_host(node: Node) -> Kind:
    """The node's kind where nothing is compiled."""
    return Kind.CONSTANT if isinstance(node.op, Constant) else Kind.HOST


def _emits(op: Op, types: Sequence[TensorType]) -> bool:
    results = op.infer(*types)
    return len(results) == 1 and not results[0].dtype.is_complex and op.can_emit(*types)


def is_squeeze(node: Node) -> bool:
    """Whether a node is a reshape that adds or drops axes of length 1, and so can be seen through from kernels."""
    x = node.operands[0].type if node.operands else None
    return (
        x is not None and isinstance(node.op, Reshape) and squeezes(x.shape, node.op.shape) and not x.dtype.is_complex
    )


def _splits_computed(node: Node) -> bool:
    """Whether a node is a reshape that only splits axes, of something that needs no memory.

    Its elements are found without division, so that computing them where they are used saves a copy.
    """
    maker = node.operands[0].node
    if maker is None or kind_of(maker) is not Kind.INLINE:
        return False
    entries = [e for access in profile(node).accesses for e in access.index]
    return not any(e.fn in (Fn.REM, Fn.DIV) for entry in entries for e in walk(entry))


def squeezes(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the shapes differ in axes of length 1 alone."""
    long, others = (tuple([n for n in lengths if not always_equal(n, 1)]) for lengths in (shape, other))
    return always_equal(long, others)


@dataclass(frozen=True, slots=True)
class Access:
    """One read of an operand by an index map, at an index written in canonical variables."""

    operand: int
    index: Index
    masked: bool


class _Probe:
    """A `Load` that notes what is asked of it."""

    __slots__ = ("accesses", "number", "type")

    def __init__(self, number: int, type: TensorType, accesses: list[Access]) -> None:
        self.number = number
        self.type = type
        self.accesses = accesses

    def __call__(self, index: Sequence[Expr], mask: Expr | None = None, fill: Number | None = None) -> Expr:
        access = Access(self.number, tuple(index), mask is not None)
        if access not in self.accesses:
            self.accesses.append(access)
        return scalar.arg(self.number, self.type.dtype)


@dataclass(frozen=True, slots=True)
class Profile:
    """What one element of a node costs: its own operations, and its reads."""

    weight: int
    accesses: tuple[Access, ...]


def profile(node: Node) -> Profile:
    """The profile of an inline node."""
    op = node.op
    assert isinstance(op, (Pointwise, IndexMap))
    accesses: list[Access] = []
    probes = [_Probe(i, v.type, accesses) for i, v in enumerate(node.operands)]
    made = op.element(canonical_index(len(node.result.shape)), probes)
    return Profile(cost(made), tuple(accesses))


def cost(expr: Expr) -> int:
    """Operations in `expr`, about as many as simple vector instructions."""
    total = 0
    for e in walk(expr):
        if e.fn is not None:
            total += _MATH_COST if e.fn in MATH and e.fn not in _COST else _COST.get(e.fn, 1)
    return total


def repeats(access: Access, result: Value, operand: Value) -> bool:
    """Whether the read may ask for an operand element more than once over the result's index space."""
    rank = len(result.shape)
    if rank > len(operand.shape):
        return True
    leaves = [e for entry in access.index for e in walk(entry)]
    if any(isinstance(e, Arg) or e.fn in (Fn.REM, Fn.DIV) for e in leaves):
        return True
    return len({e for e in leaves if isinstance(e, LoopVar)}) < rank
