"""Canonicalisation: one form for what can be written in several, without touching any number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..builder import Builder
from ..graph import Graph, Node, Value
from ..op import Op, View
from ..ops.creation import Constant, Full
from ..ops.history import Detach, WithHistory
from ..ops.select import Convert
from ..ops.slicing import Concat, Pad
from ..ops.write import WriteView
from ..rewrite import Rules, rewrite
from ..tracked import always_equal
from .base import Pass
from .cse import commutes
from .literals import made_by
from .views import compose, inverse, is_identity, shows_once, simplified

CANONICAL: Final = Rules()


@dataclass(frozen=True)
class Canonicalize(Pass):
    """Drops views, joins and conversions that do nothing, composes views, and puts constants behind other
    operands."""

    name = "canonicalize"

    def apply(self, graph: Graph) -> Graph:
        """A rewriting."""
        return rewrite(graph, CANONICAL)


@CANONICAL(View)
def identity_view(b: Builder, node: Node) -> Value | None:
    """A view that shows its operand as it is."""
    (x,) = node.operands
    return x if isinstance(node.op, View) and is_identity(node.op, x.type) else None


@CANONICAL(View)
def view_of_write(b: Builder, node: Node) -> Value | None:
    """Reading through the views just written through gives the value written."""
    chain: list[Op] = []
    at: Node | None = node
    while at is not None and isinstance(at.op, View):
        chain.append(at.op)
        at = at.operands[0].node
    if at is None or not isinstance(at.op, WriteView) or at.op.views != tuple(chain[::-1]):
        return None
    base, value = at.operands
    return value if shows_once(at.op.views, base.type) else None


@CANONICAL(View)
def view_of_view(b: Builder, node: Node) -> Value | None:
    """Two views that make one."""
    (x,) = node.operands
    if x.node is None or not isinstance(x.node.op, View) or not isinstance(node.op, View):
        return None
    (source,) = x.node.operands
    merged = compose(x.node.op, node.op, source.type)
    return None if merged is None else b(merged, source)


@CANONICAL(WriteView)
def write(b: Builder, node: Node) -> Value | None:
    """Simpler views; and no write at all where each element is replaced."""
    base, value = node.operands
    assert isinstance(node.op, WriteView)
    views = simplified(node.op.views, base.type)
    types = [base.type]
    for view in views:
        types.extend(view.infer(types[-1]))
    undo = [inverse(view, t) for view, t in zip(views, types, strict=False)]
    if None not in undo:
        for back in reversed(undo):
            value = b(back, value) if back is not None else value
        return value
    return b(WriteView(views), base, value) if views != node.op.views else None


@CANONICAL(Detach)
def detachment(b: Builder, node: Node) -> Value | None:
    """Where no gradient is taken any more, a detached value is the value."""
    return node.operands[0]


@CANONICAL(WithHistory)
def history(b: Builder, node: Node) -> Value | None:
    """Where no gradient is taken any more, a value with another's history is the value."""
    return node.operands[0]


@CANONICAL(Convert)
def identity_conversion(b: Builder, node: Node) -> Value | None:
    """A conversion to the dtype that is there."""
    (x,) = node.operands
    return x if x.type == node.result.type else None


@CANONICAL(Concat)
def concatenation(b: Builder, node: Node) -> Value | None:
    """Joins of joins along the same axis are one; empty parts are left out; one part is itself."""
    assert isinstance(node.op, Concat)
    parts: list[Value] = []
    for x in node.operands:
        parts.extend(x.node.operands if x.node is not None and x.node.op is node.op else (x,))
    full = [x for x in parts if not always_equal(x.shape[node.op.axis], 0)] or parts[:1]
    if len(full) == 1:
        return full[0]
    return b(node.op, *full) if tuple(full) != node.operands else None


@CANONICAL(Pad)
def padding(b: Builder, node: Node) -> Value | None:
    """No padding at all; and padding of padding with the same number."""
    x, fill = node.operands
    assert isinstance(node.op, Pad)
    if not any((*node.op.low, *node.op.high)):
        return x
    if x.node is None or not isinstance(x.node.op, Pad) or x.node.operands[1] is not fill:
        return None
    low = tuple(a + c for a, c in zip(x.node.op.low, node.op.low, strict=True))
    high = tuple(a + c for a, c in zip(x.node.op.high, node.op.high, strict=True))
    return b(Pad(low, high), x.node.operands[0], fill)


@CANONICAL(Op)
def constant_behind(b: Builder, node: Node) -> Value | None:
    """`2 * x` is `x * 2`, where operands commute to the bit."""
    if not commutes(node):
        return None
    x, y = node.operands
    return b(node.op, y, x) if is_constant(x) and not is_constant(y) else None


def is_constant(value: Value) -> bool:
    """Whether `value` is a constant op's result."""
    return made_by(value, Full) is not None or made_by(value, Constant) is not None
