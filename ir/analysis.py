"""What can be learned from a graph without changing it: users, reachability, liveness, costs, equality."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .graph import Graph, Node, Value
from .interpreter import decomposition
from .op import Op, Pointwise, Reduction
from .ops.linalg import MatMul
from .scalar import Expr, arg


class Use(NamedTuple):
    """`node` takes the value as operand number `position`."""

    node: Node
    position: int


def users(graph: Graph) -> dict[Value, list[Use]]:
    """The uses of each value by nodes, in order; values that are only outputs have none."""
    found: dict[Value, list[Use]] = {v: [] for v in graph.values()}
    for node in graph.nodes:
        for i, value in enumerate(node.operands):
            found.setdefault(value, []).append(Use(node, i))
    return found


def free_values(graph: Graph) -> list[Value]:
    """Values used but not defined in `graph`, in order of first use."""
    defined = set(graph.values())
    used = [v for node in graph.nodes for v in node.operands]
    return list(dict.fromkeys(v for v in [*used, *graph.outputs] if v not in defined))


def reaching(graph: Graph, values: Iterable[Value]) -> set[Node]:
    """The nodes that `values` are computed from."""
    wanted = set(values)
    found = set()
    for node in reversed(graph.nodes):
        if any(r in wanted for r in node.results):
            found.add(node)
            wanted.update(node.operands)
    return found


def reachable(graph: Graph, values: Iterable[Value]) -> set[Node]:
    """The nodes whose results depend on `values`."""
    tainted = set(values)
    found = set()
    for node in graph.nodes:
        if any(v in tainted for v in node.operands):
            found.add(node)
            tainted.update(node.results)
    return found


def last_uses(graph: Graph) -> dict[Value, int]:
    """The position of the node after which each value is dead: its last user, or the node that defines it.

    Outputs live on: theirs is `len(graph.nodes)`. Inputs nobody uses have -1.
    """
    last = dict.fromkeys(graph.inputs, -1)
    for i, node in enumerate(graph.nodes):
        last.update(dict.fromkeys((*node.results, *node.operands), i))
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    return last


def peak_bytes(graph: Graph) -> int:
    """The most bytes alive at once if nodes run in order and no buffer is shared, inputs included."""
    last = last_uses(graph)
    alive = peak = sum(v.type.nbytes for v in graph.inputs)
    for i, node in enumerate(graph.nodes):
        alive += sum(r.type.nbytes for r in node.results)
        peak = max(peak, alive)
        alive -= sum(v.type.nbytes for v in {*node.operands, *node.results} if last.get(v) == i)
    return peak


def bytes_moved(node: Node) -> int:
    """Bytes read and written when the node runs alone."""
    return sum(v.type.nbytes for v in (*dict.fromkeys(node.operands), *node.results))


def flops(node: Node) -> int:
    """An estimate of the arithmetic a node does, counting each scalar function as one operation.

    Pointwise ops count the distinct functions of their scalar rule, reductions one per element, composites
    what they decompose into; index maps, and ops that run by their reference alone, count none.
    """
    op = node.op
    types = [v.type for v in node.operands]
    if isinstance(op, MatMul):
        return 2 * node.result.type.numel * types[0].shape[-1]
    if isinstance(op, Pointwise):
        return node.result.type.numel * _scalar_cost(op, node)
    if isinstance(op, Reduction):
        return types[0].numel
    if op.has_decomposition():
        return sum(map(flops, decomposition(op, types).nodes))
    return 0


def _scalar_cost(op: Pointwise, node: Node) -> int:
    if not op.can_emit(*[v.type for v in node.operands]):
        return 1
    pending: list[Expr] = [op.scalar(*(arg(i, v.type.dtype) for i, v in enumerate(node.operands)))]
    seen: set[Expr] = set()
    while pending:
        expr = pending.pop()
        if expr not in seen and expr.fn is not None:
            seen.add(expr)
            pending.extend(expr.args)
    return len(seen)


def equal(a: Graph, b: Graph, *, names: bool = False, locations: bool = False) -> bool:
    """Whether two graphs have the same structure: ops, operands and types, sub-graphs included.

    `names` compares the names of values as well, `locations` source lines and scopes, by their text.
    """
    if len(a.nodes) != len(b.nodes) or [v.type for v in a.inputs] != [v.type for v in b.inputs]:
        return False
    same = dict(zip(a.inputs, b.inputs, strict=True))
    for m, n in zip(a.nodes, b.nodes, strict=True):
        if not _equal_fields(m.op, n.op) or [same.get(v, v) for v in m.operands] != list(n.operands):
            return False
        if [r.type for r in m.results] != [r.type for r in n.results]:
            return False
        if locations and (_text(m.location), m.scope) != (_text(n.location), n.scope):
            return False
        same.update(zip(m.results, n.results, strict=True))
    if names and any(v.name != w.name for v, w in same.items()):
        return False
    return [same.get(v, v) for v in a.outputs] == list(b.outputs)


def _text(location: Any) -> str | None:
    return None if location is None else str(location)


def _equal_fields(a: Any, b: Any) -> bool:
    """Equality of ops and their fields, exact for floats, and that of structure for sub-graphs."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Graph):
        return equal(a, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_equal_fields, a, b))
    if isinstance(a, Op):
        return all(map(_equal_fields, a.attributes().values(), b.attributes().values()))
    return repr(a) == repr(b) if isinstance(a, float | complex) else bool(a == b)
