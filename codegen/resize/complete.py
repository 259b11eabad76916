"""A graph of which some ops are missing, because they do nothing at its sizes, with these ops put in.

A function that broadcasts `x[:, :1]` to `x` is traced without the broadcast where `x` has one column, and a slice of
five rows is none where there are five. Beside a graph of the same function at other sizes, what is missing is told by
walking along both: identities are put in where only the other has an op. What comes out has the other's structure, and
so takes its templates and kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.ops.write import WriteView


def completed(graph: Graph, other: Graph, form: Callable[[Op], Hashable], *, sums: bool) -> Graph | None:
    """`graph` with what `other` has besides; None where that would be more than identities.

    `form` is what an op is but for its numbers. With `sums`, sums over axes of length 1 may be put in, which make a
    zero of -0.0.
    """
    return _Walk(graph, form, sums).along(other)


class _Walk:
    """Along the other graph's nodes, with what each of them would be here: a node of the graph, or an identity."""

    def __init__(self, graph: Graph, form: Callable[[Op], Hashable], sums: bool) -> None:
        self._graph = graph
        self._form = form
        self._sums = sums
        self._left = [n for n in reversed(graph.nodes) if not isinstance(n.op, Full)]  # these go by their users
        self._names: dict[Value, Value] = {}  # values that are others under another name
        self._beside: dict[Value, Value] = {}  # by the other's values
        self._ops: dict[Node, Op] = {}
        self._own: dict[Node, Node] = {}

    def along(self, other: Graph) -> Graph | None:
        """The new graph."""
        self._beside.update(zip(other.inputs, self._graph.inputs, strict=True))
        for node in other.nodes:
            if not isinstance(node.op, Full) and not self._is_next(node) and not self._does_nothing(node):
                return None
        pairs = zip(self._graph.outputs, other.outputs, strict=True)
        if self._left or not all(self._agree(v, w) for v, w in pairs) or len(self._ops) < len(other.nodes):
            return None
        try:
            return self._built(other)
        except JitgradError:  # what is filled with a number may have to have two shapes
            return None

    def _is_next(self, node: Node) -> bool:
        """Whether the graph goes on with the other's node."""
        left = self._left
        while left and not self._corresponds(left[-1], node):
            if not _is_other_name(left[-1]):
                return False
            alias = left.pop()
            self._names[alias.result] = self._named(alias.operands[0])
        if not left:
            return False
        own = self._own[node] = left.pop()
        self._ops[node] = own.op
        self._beside.update(zip(node.results, own.results, strict=True))
        return True

    def _named(self, value: Value) -> Value:
        return self._names.get(value, value)

    def _corresponds(self, node: Node, other: Node) -> bool:
        return (
            len(node.operands) == len(other.operands)
            and self._form(node.op) == self._form(other.op)
            and all(map(self._agree, node.operands, other.operands))
        )

    def _agree(self, value: Value, other: Value) -> bool:
        """Whether the values are the same but for sizes; those that are filled with a number are if they look it."""
        found, value = self._beside.get(other), self._named(value)
        if found is not None:
            return found is value
        node, beside = value.node, other.node
        if (
            node is None
            or beside is None
            or not isinstance(node.op, Full)
            or self._form(node.op) != self._form(beside.op)
        ):
            return False
        self._ops[beside], self._beside[other] = node.op, value
        return True

    def _does_nothing(self, node: Node) -> bool:
        """Whether the other's node would be an identity here."""
        value = self._beside.get(node.operands[-1]) if node.operands else None
        op = None if value is None else self._identity(node.op, value)
        if value is None or op is None:
            return False
        if isinstance(op, WriteView):
            into = node.operands[0].node
            if into is None or not isinstance(into.op, Full):
                return False
            filled = into.op
            self._ops.setdefault(into, Full(value.shape, filled.dtype, filled.value, value.type.device))
        self._ops[node], self._beside[node.result] = op, value
        return True

    def _identity(self, op: Op, value: Value) -> Op | None:
        """An op of the same form as `op` that gives its last operand, `value`."""
        shape = value.shape
        made: Op | None = None
        match op:
            case BroadcastTo(shape=other) | Reshape(shape=other) if len(other) == len(shape):
                made = type(op)(shape)
            case Slice(starts=other) if len(other) == len(shape):
                made = Slice((0,) * len(shape), shape, (1,) * len(shape))
            case WriteView(views=(Slice() as view,)):
                whole = self._identity(view, value)
                made = WriteView((whole,)) if isinstance(whole, Slice) else None
            case Sum(axes=axes, keepdim=True) if self._sums and axes and all(shape[a] == 1 for a in axes):
                made = op
        return made if made is not None and self._form(made) == self._form(op) else None

    def _built(self, other: Graph) -> Graph:
        b, env = Builder(), dict(zip(other.inputs, self._graph.inputs, strict=True))
        b.inputs = list(self._graph.inputs)
        for node in other.nodes:
            own = self._own.get(node)
            b.location, b.scope = (own.location, own.scope) if own is not None else (b.location, b.scope)
            results = b.emit(self._ops[node], *[env[v] for v in node.operands])
            for k, (old, new) in enumerate(zip(node.results, results, strict=True)):
                env[old] = new
                new.name = new.name if own is None else own.results[k].name
        return b.build([env[v] for v in other.outputs])


def _is_other_name(node: Node) -> bool:
    """Whether a node is what indexing with a whole slice leaves."""
    return isinstance(node.op, Reshape) and node.op.shape == node.operands[0].shape
