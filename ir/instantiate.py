"""A graph with symbolic sizes at one choice of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import ArgumentError
from .graph import Graph, Node, Value
from .op import Op
from .symbols import Symbolic
from .types import TensorType


def instantiate(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """`graph` with every symbolic number replaced by what it is at `sizes`; names, lines and scopes stay.

    Types are computed from their expressions; whoever does not trust those runs the verifier on the result.

    >>> from .parser import parse
    >>> graph = parse("graph(%x: f32[n,2]) -> (f32[n,2]) { return %x }", sizes={"n": 4})
    >>> str(instantiate(graph, {"n": 7}).inputs[0].type)
    'f32[7,2]'
    """
    return _Instance(sizes).graph(graph)


def concrete(x: Any, sizes: Mapping[str, int] | None = None) -> Any:
    """A field, type or op at `sizes`, or at the sizes in hand."""
    return _Instance(sizes).of(x)


class _Instance:
    def __init__(self, sizes: Mapping[str, int] | None) -> None:
        self.sizes = sizes
        self._known: dict[Any, Any] = {}

    def graph(self, graph: Graph) -> Graph:
        env: dict[Value, Value] = {}
        for v in graph.inputs:
            env[v] = Value(self.of(v.type), name=v.name)
        nodes = []
        for node in graph.nodes:
            types = [self.of(r.type) for r in node.results]
            made = Node(self.of(node.op), [env[v] for v in node.operands], types, node.location, node.scope)
            for old, new in zip(node.results, made.results, strict=True):
                new.name = old.name
                env[old] = new
            nodes.append(made)
        return Graph([env[v] for v in graph.inputs], nodes, [env[v] for v in graph.outputs])

    def of(self, x: Any) -> Any:
        """`x` without symbols; itself where it has none."""
        if isinstance(x, Symbolic):
            return self._number(x)
        if isinstance(x, tuple):
            return self._tuple(x)
        if isinstance(x, TensorType):
            shape = self._tuple(x.shape)
            return x if shape is x.shape else TensorType(shape, x.dtype, x.device)
        if isinstance(x, Op):
            found = self._known.get(x)
            if found is None:
                found = self._known[x] = self._op(x)
            return found
        return self.graph(x) if isinstance(x, Graph) else x

    def _number(self, x: Any) -> Any:
        kind = int if isinstance(x, int) else float
        if self.sizes is None:
            return kind(x)
        try:
            value = x.expression.at(self.sizes)
        except (ArithmeticError, ValueError) as error:
            raise ArgumentError(f"{x.expression} can't be computed at sizes {dict(self.sizes)}: {error}") from None
        if kind is int and not isinstance(value, int):
            raise ArgumentError(f"{x.expression} is {value} at sizes {dict(self.sizes)}, which is no integer")
        return value

    def _tuple(self, x: tuple[Any, ...]) -> tuple[Any, ...]:
        for item in x:
            if item.__class__ is not int:
                made = tuple([self.of(item) for item in x])
                return x if all(a is b for a, b in zip(x, made, strict=True)) else made
        return x

    def _op(self, op: Op) -> Op:
        attributes = op.attributes()
        new = {k: self.of(v) for k, v in attributes.items()}
        if all(new[k] is v for k, v in attributes.items()):
            return op
        return type(op)(**new)
