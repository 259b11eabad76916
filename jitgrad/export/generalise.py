"""From traces of one function at several sizes to one graph with symbolic sizes.

The graphs must be equal but for numbers; each number that differs is replaced by an expression (`fitting`). Where they
differ in more, or where no expression is found, the function does something else at other sizes, and the error names
its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad.ir.errors import CompileError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.op import Op
from jitgrad.ir.ops.creation import Literal
from jitgrad.ir.symbols import Expression, symbolic
from jitgrad.ir.types import TensorType

from .capture import Captured, Role
from .fitting import Fitter, Near
from .trees import Container, Fixed, Leaf, Size, Tree


class Differs(CompileError):
    """Traces at different sizes that are no instances of one graph."""

    def __init__(self, message: str, location: str | None = None) -> None:
        super().__init__(message)
        self.attach_location(location)


def generalise(traces: Sequence[Captured]) -> tuple[Graph, Tree]:
    """The graph and the result of which `traces` are instances, at the sizes of the first."""
    _compare_roles(traces)
    made = _Generaliser(traces)
    graph = made.graph([t.graph for t in traces])
    return graph, made.tree([t.result for t in traces])


def _compare_roles(traces: Sequence[Captured]) -> None:
    keys = [[(r.kind, r.key) for r in t.roles] for t in traces]
    updates = [t.updates for t in traces]
    for pairs in (keys, updates):
        if any(p != pairs[0] for p in pairs):
            raise Differs(f"export: which tensors the function uses depends on {_sizes(traces, pairs)}")
    for k, role in enumerate(traces[0].roles):
        if role.kind == "constant":
            _compare_constants(traces, [t.roles[k] for t in traces])


def _compare_constants(traces: Sequence[Captured], roles: Sequence[Role]) -> None:
    arrays = [r.tensor._data for r in roles if r.tensor is not None]
    contents = [(a.dtype, a.shape, a.tobytes()) for a in arrays]
    if any(c != contents[0] for c in contents):
        raise Differs(f"export: {_MADE_OUTSIDE} {_sizes(traces, contents)}; make them by tensor ops", roles[0].location)


def _sizes(traces: Sequence[Captured], seen: Sequence[Any]) -> str:
    """The dimensions that vary between the first trace and one at which something else was seen, as `batch (4, 7)`."""
    other = next((t for t, x in zip(traces, seen, strict=False) if x != seen[0]), traces[-1])
    pairs = [(n, traces[0].sizes[n], other.sizes[n]) for n in other.sizes if traces[0].sizes[n] != other.sizes[n]]
    return " or ".join(f"{n} ({a}, {b})" for n, a, b in pairs) or "what is no argument of it (random numbers, a clock)"


_MADE_OUTSIDE = "numbers made by NumPy or Python depend on"


class _Generaliser:
    def __init__(self, traces: Sequence[Captured]) -> None:
        self.traces = traces
        self.fitter = Fitter([t.sizes for t in traces])
        self.types: dict[Value, Value] = {}
        self._near = self._arguments = Near(())
        self._where: Node | None = None
        self._what = "an argument"

    def graph(self, graphs: Sequence[Graph]) -> Graph:
        """One graph out of several."""
        first = graphs[0]
        numbers = [{v: i for i, v in enumerate(g.values())} for g in graphs]
        env: dict[Value, Value] = {}
        for values in zip(*[g.inputs for g in graphs], strict=True):
            env[values[0]] = Value(self._type(values), name=values[0].name)
        self._arguments = Near([v.type.shape for v in env.values()])
        nodes = []
        for k in range(len(first.nodes)):
            same = [g.nodes[k] if k < len(g.nodes) else None for g in graphs]
            self._compare(same, numbers)
            nodes.append(self._node([n for n in same if n is not None], env))
        longer = next((g for g in graphs if len(g.nodes) > len(first.nodes)), None)
        if longer is not None:
            self._where = longer.nodes[len(first.nodes)]
            self._fail("what the function does", [len(g.nodes) for g in graphs])
        outputs = [[numbers[i][v] for v in g.outputs] for i, g in enumerate(graphs)]
        if any(o != outputs[0] for o in outputs):
            self._fail("what the function returns", outputs)
        return Graph([env[v] for v in first.inputs], nodes, [env[v] for v in first.outputs])

    def _compare(self, nodes: Sequence[Node | None], numbers: Sequence[dict[Value, int]]) -> None:
        first = nodes[0]
        assert first is not None
        self._where = first
        seen = [
            None if n is None else (type(n.op), len(n.results), [table[v] for v in n.operands])
            for n, table in zip(nodes, numbers, strict=True)
        ]
        if any(s != seen[0] for s in seen):
            self._fail("what the function does", seen)

    def _node(self, nodes: Sequence[Node], env: dict[Value, Value]) -> Node:
        first = nodes[0]
        tracer = self.traces[0].tracer
        operands = [env[v] for v in first.operands]
        self._near = Near([v.type.shape for v in operands])
        carried = tracer.carried.get(first)
        hint = first.op if carried is None else carried
        self._what = f"a field of {first.op.name}"
        op = self._merge([n.op for n in nodes], hint)
        others = [n.expression for n in _numbers(op) if hasattr(n, "expression")]
        self._near = Near([v.type.shape for v in operands], others)
        self._what = f"the shape of {first.op.name}"
        types = [self._type(rs) for rs in zip(*[n.results for n in nodes], strict=True)]
        node = Node(op, operands, types, first.location, first.scope)
        for old, new in zip(first.results, node.results, strict=True):
            new.name = old.name
            env[old] = new
        return node

    def _type(self, values: Sequence[Value]) -> TensorType:
        """The type of one value in all traces."""
        first = values[0].type
        kinds = [(v.type.dtype, v.type.ndim) for v in values]
        if any(k != kinds[0] for k in kinds):
            self._fail("the type of a tensor", kinds)
        hint = self.traces[0].tracer.shape_of(values[0]) or first.shape
        shape = self._merge([v.type.shape for v in values], hint)
        for n in shape:
            if hasattr(n, "expression"):
                self.fitter.remember(n.expression)
        return TensorType(shape, first.dtype, first.device)

    def tree(self, trees: Sequence[Tree]) -> Tree:
        """One result out of several."""
        first = trees[0]
        self._near, self._where, self._what = self._arguments, None, "a number that the function returns"
        kinds = [isinstance(t, Container) or (isinstance(t, Leaf) and t) for t in trees]
        if any(k != kinds[0] for k in kinds):
            self._fail("what the function returns", kinds)
        if isinstance(first, Container):
            shapes = [(t.kind, t.keys, len(t.items)) for t in trees if isinstance(t, Container)]
            if any(s != shapes[0] for s in shapes):
                self._fail("what the function returns", shapes)
            items = zip(*[t.items for t in trees if isinstance(t, Container)], strict=True)
            return Container(first.kind, tuple(self.tree(x) for x in items), first.keys, first.title)
        if isinstance(first, Leaf):
            return first
        sizes = [t.sizes for t in self.traces]
        values = [t.value if isinstance(t, Fixed) else t.expression.at(s) for t, s in zip(trees, sizes, strict=True)]  # type: ignore[union-attr]
        if isinstance(first, Size) and self.fitter.at(first.expression) == tuple(values):
            return first
        merged = self._merge(values, values[0])
        return Size(merged.expression) if hasattr(merged, "expression") else Fixed(merged)

    # numbers ------------------------------------------------------------------------------------------------

    def _merge(self, values: Sequence[Any], hint: Any) -> Any:
        """One field out of several; a symbolic number where they differ."""
        first = values[0]
        if isinstance(first, Literal):
            return self._literal(values)
        kinds = [(type(v), len(v) if isinstance(v, tuple) else 0) for v in values]
        if any(k != kinds[0] for k in kinds):
            self._fail(self._what, kinds)
        if isinstance(first, tuple):
            hints = hint if isinstance(hint, tuple) and len(hint) == len(first) else first
            return tuple(self._merge(items, h) for items, h in zip(zip(*values, strict=True), hints, strict=True))
        if isinstance(first, Op):
            hints = hint.attributes() if type(hint) is type(first) else first.attributes()
            fields = {k: self._merge([v.attributes()[k] for v in values], hints[k]) for k in first.attributes()}
            return type(first)(**fields)
        if isinstance(first, Graph):
            return self._sub_graph(values)
        if all(_same(v, first) for v in values):
            return first
        return self._number(tuple(values), hint)

    def _sub_graph(self, graphs: Sequence[Graph]) -> Graph:
        """One graph in a field out of several."""
        outer = self._arguments, self._near, self._where, self._what
        try:
            return self.graph(graphs)
        finally:
            self._arguments, self._near, self._where, self._what = outer

    def _number(self, values: tuple[Any, ...], hint: Any) -> Any:
        fit: Callable[..., Expression | None] | None = None
        if isinstance(values[0], int) and not isinstance(values[0], bool):
            fit = self.fitter.integer
        elif isinstance(values[0], float):
            fit = self.fitter.real
        found = None if fit is None else fit(values, hint, self._near)
        if found is None:
            shown = ", ".join(map(repr, list(dict.fromkeys(values))[:3]))
            raise Differs(
                f"export: {self._what} is {shown}, depending on {_sizes(self.traces, values)}, and no expression of "
                "dimensions was found for it. A program can't hold a number that Python computes anew at each call",
                self._location(),
            )
        return symbolic(found, self.traces[0].sizes)

    def _literal(self, values: Sequence[Literal]) -> Literal:
        contents = [(v.array.dtype, v.array.shape, v.array.tobytes()) for v in values]
        if any(c != contents[0] for c in contents):
            where = _sizes(self.traces, contents)
            raise Differs(f"export: {_MADE_OUTSIDE} {where}; make them by tensor ops", self._location())
        return values[0]

    def _location(self) -> str | None:
        return None if self._where is None or self._where.location is None else str(self._where.location)

    def _fail(self, what: str, seen: Sequence[Any]) -> NoReturn:
        raise Differs(
            f"export: {what} depends on {_sizes(self.traces, seen)}: the graphs differ. A dimension that decides how "
            "often a loop runs, or which branch is taken, can't be dynamic",
            self._location(),
        )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return bool(a == b)


def _numbers(x: Any) -> list[Any]:
    """The numbers in a field, also those within tuples and ops."""
    if isinstance(x, Op):
        return [n for v in x.attributes().values() for n in _numbers(v)]
    if isinstance(x, tuple):
        return [n for v in x for n in _numbers(v)]
    return [x] if isinstance(x, (int, float)) else []
