"""Reads the text form of graphs back. Never runs code; any text gives a verified graph, or a `ParseError`.

    graph     ::= "graph" [word] "(" [inputs] ")" "->" "(" [types] ")" "{" statement* "return" [values] "}"
    inputs    ::= value ":" type {"," value ":" type}
    statement ::= [values "="] op "(" [values] ")" [":" types] ["at" string] ["in" string {"," string}]
    op        ::= word ["[" word "=" field {"," word "=" field} "]"]
    type      ::= dtype "[" [length {"," length}] "]" ["@" device]

A length is an integer, or an expression of named dimensions (`ir.symbols`); in a field such an expression stands in
braces. Fields read as `ir.printer` writes them and are checked against the annotations of the op's class, then the
op's `infer` is run, and last the verifier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

from .attributes import AttributeReader
from .graph import Graph, Node, Value
from .instantiate import concrete, instantiate
from .location import TextLocation
from .op import Op
from .registry import REGISTRY
from .tokens import Token, Tokens
from .types import TensorType
from .verify import verify

MAX_NESTED_GRAPHS: Final = 16
NO_SIZES: Final[Mapping[str, int]] = MappingProxyType({})
_SUFFIX: Final = re.compile(r"~[0-9]+\Z")
_T = TypeVar("_T")


def parse(text: str, ops: Mapping[str, type[Op]] = REGISTRY, sizes: Mapping[str, int] = NO_SIZES) -> Graph:
    """The graph that `text` describes, in terms of the op classes `ops` by name.

    `sizes` gives the dimensions that symbolic lengths may name, each with one length to check types with.

    >>> graph = parse("graph(%x: f32[2]) -> (f32[2]) { return %x }")
    >>> graph.inputs[0].type.shape
    (2,)
    >>> parse("graph(%x: f32[2]) -> (f32[2]) { return %y }")
    Traceback (most recent call last):
    jitgrad.ir.errors.ParseError: line 1, column 40: %y is not defined
      graph(%x: f32[2]) -> (f32[2]) { return %y }
                                             ^
    """
    tokens = Tokens(text)
    graph = GraphReader(tokens, ops, sizes).graph()
    if tokens.current.kind != "end":
        tokens.fail(f"expected the end of the text, found {tokens.current}")
    verify(instantiate(graph, sizes) if sizes else graph)
    return graph


class GraphReader:
    """Reads one graph, with names of its own; sub-graphs have a reader each."""

    def __init__(
        self, tokens: Tokens, ops: Mapping[str, type[Op]], sizes: Mapping[str, int] = NO_SIZES, depth: int = 0
    ) -> None:
        self.tokens = tokens
        self.attributes = AttributeReader(
            tokens, ops, lambda: GraphReader(tokens, ops, sizes, depth + 1).graph(), sizes
        )
        self.sizes = sizes
        self.depth = depth
        self.values: dict[str, Value] = {}

    def graph(self) -> Graph:
        """The graph that comes next."""
        tokens = self.tokens
        start = tokens.expect("graph")
        if self.depth > MAX_NESTED_GRAPHS:
            tokens.fail("nested too deeply", start)
        if tokens.current.kind == "word":
            tokens.advance()
        tokens.expect("(")
        inputs = self._list(self._input, ")")
        tokens.expect(")")
        tokens.expect("->")
        tokens.expect("(")
        types = self._list(self.attributes.type, ")")
        tokens.expect(")")
        tokens.expect("{")
        nodes = []
        while not tokens.at("return"):
            nodes.append(self._statement())
        start = tokens.expect("return")
        outputs = self._list(self._operand, "}")
        tokens.expect("}")
        self._compare_types(start, "the outputs", types, [v.type for v in outputs])
        return Graph(inputs, nodes, outputs)

    def _input(self) -> Value:
        name = self.tokens.take("value", "an input")
        self.tokens.expect(":")
        value = Value(self.attributes.type())
        self._define(name, value)
        return value

    def _statement(self) -> Node:
        tokens = self.tokens
        names = []
        if tokens.current.kind == "value":
            names = self._list(lambda: tokens.take("value", "a value"), "=")
            tokens.expect("=")
        elif tokens.current.kind != "word":
            tokens.fail(f"expected a statement or 'return', found {tokens.current}")
        start = tokens.current
        op = self.attributes.op()
        tokens.expect("(")
        operands = self._list(self._operand, ")")
        tokens.expect(")")
        inferred = self.attributes.guard(start, lambda: self._infer(op, operands))
        types = inferred
        if names:
            tokens.expect(":")
            types = self._list(self.attributes.type, "")
            self._compare_types(start, "the results", types, inferred)
        if len(names) != len(inferred):
            tokens.fail(f"op {start} has {len(inferred)} results, not {len(names)}", start)
        node = Node(op, operands, types, self._location(), self._scope())
        for name, value in zip(names, node.results, strict=True):
            self._define(name, value)
        return node

    def _infer(self, op: Op, operands: Sequence[Value]) -> Sequence[TensorType]:
        """The result types, by rules that see no symbols: they may remember what they are given."""
        types = [v.type for v in operands]
        return concrete(op).infer(*map(concrete, types)) if self.sizes else op.infer(*types)

    def _location(self) -> TextLocation | None:
        tokens = self.tokens
        return TextLocation(tokens.string("a source location")) if tokens.accept("at") else None

    def _scope(self) -> tuple[str, ...]:
        tokens = self.tokens
        return tuple(self._list(lambda: tokens.string("a module's name"), "")) if tokens.accept("in") else ()

    def _operand(self) -> Value:
        name = self.tokens.take("value", "a value")
        if name.text not in self.values:
            self.tokens.fail(f"{name.text} is not defined", name)
        return self.values[name.text]

    def _define(self, name: Token, value: Value) -> None:
        if name.text in self.values:
            self.tokens.fail(f"{name.text} is defined twice", name)
        self.values[name.text] = value
        text = _SUFFIX.sub("", name.text[1:])
        if text.startswith('"'):
            value.name = self.tokens.unquote(text, name)
        elif not text[0].isdigit():
            value.name = text

    def _compare_types(
        self, token: Token, what: str, given: Sequence[TensorType], actual: Sequence[TensorType]
    ) -> None:
        if list(given) != list(actual):
            shown = ", ".join(map(str, actual)) or "none"
            self.tokens.fail(f"the types of {what} are {shown}, not {', '.join(map(str, given))}", token)

    def _list(self, read: Callable[[], _T], end: str) -> list[_T]:
        """Items between commas; none if `end` comes next."""
        if self.tokens.at(end):
            return []
        items = [read()]
        while self.tokens.accept(","):
            items.append(read())
        return items
