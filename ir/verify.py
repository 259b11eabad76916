"""The verifier: checks every rule of the IR and points into the printed graph where one is broken.

It recomputes what it checks (types by `op.infer`, order by walking) and trusts no pass. The rules are the
methods of `_Verifier` and the messages in them; each has a test with a graph that breaks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NoReturn

from . import dtypes
from .errors import InvalidGraphError, JitgradError
from .graph import Graph, Node, Value
from .op import Op, Pointwise
from .printer import Printer
from .types import TensorType

_CONTEXT_LINES: Final = 6


def verify(graph: Graph, *, allow_free: bool = False) -> None:
    """Raise `InvalidGraphError` if `graph` breaks a rule. `allow_free` admits values defined outside of it.

    >>> from jitgrad.ir import dtypes
    >>> from jitgrad.ir.graph import Graph, Value
    >>> x, y = (Value(TensorType((2,), dtypes.float32), name=n) for n in "xy")
    >>> verify(Graph([x], [], [y]))
    Traceback (most recent call last):
    jitgrad.ir.errors.InvalidGraphError: invalid graph: output 0 is not defined in the graph
        graph(%x: f32[2]) -> (f32[2]) {
    >     return %?0
        }
    """
    _Verifier(graph, allow_free).run()


class _Verifier:
    def __init__(self, graph: Graph, allow_free: bool) -> None:
        self.graph = graph
        self.allow_free = allow_free
        self.defined: set[Value] = set()
        self.later = {r for node in graph.nodes for r in node.results}
        self.checked_ops: set[Op] = set()

    def run(self) -> None:
        for i, value in enumerate(self.graph.inputs):
            self.input(i, value)
        seen: set[Node] = set()
        for node in self.graph.nodes:
            if node in seen:
                self.fail("node is in the graph twice", node)
            seen.add(node)
            self.operands(node)
            self.op(node)
            self.types(node)
            self.results(node)
        for i, value in enumerate(self.graph.outputs):
            if value not in self.defined and not (self.allow_free and value not in self.later):
                self.fail(f"output {i} is not defined in the graph", None)

    def input(self, i: int, value: Value) -> None:
        if value.node is not None:
            self.fail(f"input {i} is the result of a node", None)
        if value in self.defined:
            self.fail(f"input {i} is there twice", None)
        if not is_well_formed(value.type):
            self.fail(f"input {i} has a malformed type", None)
        self.defined.add(value)

    def operands(self, node: Node) -> None:
        for i, value in enumerate(node.operands):
            if value in self.defined:
                continue
            if value in self.later:
                self.fail(f"operand {i} is used before it is defined", node)
            if not self.allow_free:
                self.fail(f"operand {i} is a free value: no input and no result of the graph", node)

    def op(self, node: Node) -> None:
        op = node.op
        if op in self.checked_ops:
            return
        if type(op)(**op.attributes()) is not op:
            self.fail(f"op {op.name} is not interned: made without its class's constructor", node)
        for name, value in op.attributes().items():
            for graph in sub_graphs(value):
                try:
                    verify(graph)
                except InvalidGraphError as error:
                    self.fail(f"sub-graph {name!r} is invalid\n{error.message}", node)
        self.checked_ops.add(op)

    def types(self, node: Node) -> None:
        if isinstance(node.op, Pointwise) and len(node.operands) != node.op.arity:
            self.fail(f"op {node.op.name} takes {node.op.arity} operands, not {len(node.operands)}", node)
        try:
            types = node.op.infer(*[v.type for v in node.operands])
        except JitgradError as error:
            self.fail(f"operands break a rule of the op: {error.message}", node)
        except (IndexError, ValueError) as error:  # too few or too many operands
            self.fail(f"operands do not fit the op: {error}", node)
        if len(types) != len(node.results):
            self.fail(f"the op has {len(types)} results, not {len(node.results)}", node)
        for i, (inferred, result) in enumerate(zip(types, node.results, strict=True)):
            if not is_well_formed(result.type):
                self.fail(f"result {i} has a malformed type", node)
            if inferred != result.type:
                self.fail(f"result {i} should have type {inferred}", node)

    def results(self, node: Node) -> None:
        for i, result in enumerate(node.results):
            if result.node is not node:
                self.fail(f"result {i} belongs to another node", node)
            if result.index != i:
                self.fail(f"result {i} says it is result {result.index}", node)
            self.defined.add(result)

    def fail(self, message: str, node: Node | None) -> NoReturn:
        printer = Printer(locations=False)
        lines = printer.print(self.graph)
        at = (0 if message.startswith("input") else len(lines) - 2) if node is None else printer.line_of[node]
        shown = [f"{'> ' if i == at else '  '}  {line}" for i, line in enumerate(lines)]
        first, last = max(0, at - _CONTEXT_LINES), at + _CONTEXT_LINES + 1
        window = [*(["    ..."] if first else []), *shown[first:last], *(["    ..."] if shown[last:] else [])]
        error = InvalidGraphError("\n".join([f"invalid graph: {message}", *window]))
        error.attach_location(str(node.location) if node is not None and node.location else None)
        raise error


def is_well_formed(type: TensorType) -> bool:
    """Whether `type` has a shape of non-negative ints and one of jitgrad's dtypes."""
    shape = type.shape
    return (
        isinstance(shape, tuple)
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
        and type.dtype in dtypes.ALL
    )


def sub_graphs(field: Any) -> Iterator[Graph]:
    """The graphs in a field of an op, also those within tuples and ops."""
    if isinstance(field, Graph):
        yield field
    elif isinstance(field, tuple):
        for item in field:
            yield from sub_graphs(item)
    elif isinstance(field, Op):
        for item in field.attributes().values():
            yield from sub_graphs(item)
