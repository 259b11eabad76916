"""Reads the text of a program. Runs no code; any text gives a checked `Spec`, or a `ParseError` with its place.

    program    ::= "jitgrad" "program" version "name" string ["metadata" constant]
                   {dim} {require} {argument} {number} {state} "result" tree graph weights
    dim        ::= "dim" word "=" integer "," "min" integer ["," "max" integer] ["," "step" integer]
    require    ::= "require" expression relation expression ["at" string]
    argument   ::= ("argument" | "keyword") string "=" tree
    number     ::= "number" string "=" value "," "default" field
    state      ::= "state" string "=" value ":" kind ["," "output" integer]
    tree       ::= value | "output" integer | "size" "(" expression ")" | field | "(" [tree {"," tree}] [","] ")"
                 | "[" [tree {"," tree}] "]" | ["ordered" | "record" string] "{" [pair {"," pair}] "}"
    pair       ::= field ":" tree
    weights    ::= "weights" ("none" | "beside" | "here" offset) ["," "bytes" integer "," "sha256" string]
    relation   ::= "==" | "!=" | "<" | "<=" | ">" | ">="
    kind       ::= one of `spec.STATE_KINDS`

Words, strings, values, fields, expressions and the graph are those of `ir.parser`. A `value` in a tree is an input of
the graph; each input belongs to exactly one argument, number or state entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from jitgrad.ir.attributes import AttributeReader
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.expressions import ExpressionReader
from jitgrad.ir.graph import Graph
from jitgrad.ir.instantiate import instantiate
from jitgrad.ir.parser import GraphReader
from jitgrad.ir.registry import REGISTRY
from jitgrad.ir.symbols import Expression, SymbolicInt
from jitgrad.ir.tokens import Token, Tokens
from jitgrad.ir.verify import verify

from .dims import COMPARISONS, Constraint, Dim
from .spec import STATE_KINDS, Argument, Number, Spec, StateEntry
from .trees import CONSTANTS, Container, Fixed, Leaf, Size, Tree, is_field_name, leaves, renumbered
from .versions import VERSION, upgraded

MAX_DEPTH: Final = 32
MAX_DIMS: Final = 64
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where the weights are: `kind` is none, beside (in a file of their own) or here (at `offset` of this file)."""

    kind: str
    offset: int = 0
    nbytes: int = 0
    sha256: str = ""


def read_program(text: str) -> tuple[Spec, Place]:
    """The program that `text` describes, and where its weights are."""
    return _Reader(Tokens(upgraded(text))).program()


class _Reader:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.sizes: dict[str, int] = {}
        self.attributes = AttributeReader(tokens, REGISTRY, self._no_graph, self.sizes)
        self._named: dict[str, Token] = {}  # values in the order they are first named in
        self._depth = 0

    def program(self) -> tuple[Spec, Place]:
        """The whole text."""
        tokens = self.tokens
        self._version()
        tokens.expect("name")
        name = tokens.string("the program's name")
        metadata = self._metadata()
        dims = {d.name: d for d in self._many("dim", self._dim)}
        constraints = self._many("require", self._require)
        arguments = self._arguments()
        numbers = self._many("number", self._number)
        state = self._many("state", self._state)
        start = tokens.expect("result")
        result = self._tree(self._output)
        at = tokens.current
        graph, place = self._graph(at)
        arguments = tuple([Argument(a.name, renumbered(a.tree, place), a.keyword) for a in arguments])
        numbers = tuple([Number(n.name, place[n.input], n.default) for n in numbers])
        state = tuple([StateEntry(s.name, s.kind, place[s.input], s.output) for s in state])
        spec = Spec(name, dims, constraints, arguments, numbers, state, result, graph, metadata)
        _Check(tokens, spec, dict(zip(place.values(), self._named.values(), strict=True)), start, at).all()
        weights = self._weights()
        if tokens.current.kind != "end":
            tokens.fail(f"expected the end of the text, found {tokens.current}")
        return spec, weights

    def _no_graph(self) -> NoReturn:
        self.tokens.fail("a graph is no value here")

    def _version(self) -> None:
        tokens = self.tokens
        tokens.expect("jitgrad")
        tokens.expect("program")
        at = tokens.current
        if self.attributes.integer("a version") != VERSION:
            tokens.fail(f"there is no version {at} of the format", at)

    def _many(self, word: str, read: Callable[[], T]) -> tuple[T, ...]:
        found = []
        while self.tokens.accept(word):
            found.append(read())
        return tuple(found)

    def _guard(self, at: Token, make: Callable[[], T]) -> T:
        try:
            return make()
        except JitgradError as error:
            self.tokens.fail(error.message, at)

    def _metadata(self) -> dict[str, Any]:
        if not self.tokens.accept("metadata"):
            return {}
        at = self.tokens.current
        found = self._constant()
        if not isinstance(found, dict):
            self.tokens.fail("metadata must be a dict", at)
        return found

    # dimensions ---------------------------------------------------------------------------------------------

    def _dim(self) -> Dim:
        tokens = self.tokens
        name = tokens.take("word", "the name of a dimension")
        if name.text in self.sizes or len(self.sizes) >= MAX_DIMS:
            tokens.fail(f"dimension {name} is there twice, or there are too many", name)
        tokens.expect("=")
        example = self.attributes.integer("a length")
        tokens.expect(",")
        tokens.expect("min")
        least = self.attributes.integer("a length")
        most = self._option("max")
        step = self._option("step")
        dim = self._guard(name, lambda: Dim(name.text, least, most, 1 if step is None else step, example))
        if not dim.allows(example):
            tokens.fail(f"length {example} does not fit {dim}", name)
        self.sizes[name.text] = example
        return dim

    def _option(self, word: str) -> int | None:
        """The number behind `, word`, if that comes next."""
        tokens = self.tokens
        if not tokens.at(",") or tokens.peek().text != word:
            return None
        tokens.advance()
        tokens.advance()
        return self.attributes.integer("a length")

    def _expression(self) -> Expression:
        return ExpressionReader(self.tokens, self.sizes).expression()

    def _require(self) -> Constraint:
        tokens, at = self.tokens, self.tokens.current
        left = self._expression()
        relation = tokens.advance()
        if relation.text not in COMPARISONS:
            tokens.fail(f"expected a comparison, found {relation}", relation)
        made = Constraint(left, relation.text, self._expression(), None)
        if tokens.accept("at"):
            made = Constraint(left, relation.text, made.right, tokens.string("a source location"))
        try:
            holds = made.holds(self.sizes)
        except (ArithmeticError, ValueError, TypeError) as error:
            tokens.fail(f"{made} can't be checked: {error}", at)
        if not holds:
            tokens.fail(f"{made} does not hold for the lengths that the dimensions have here", at)
        return made

    # arguments, numbers, state ------------------------------------------------------------------------------

    def _arguments(self) -> tuple[Argument, ...]:
        tokens, found = self.tokens, []
        while tokens.at("argument") or tokens.at("keyword"):
            keyword = tokens.advance().text == "keyword"
            name = tokens.string("an argument's name")
            tokens.expect("=")
            found.append(Argument(name, self._tree(self._input), keyword))
        return tuple(found)

    def _input(self) -> Leaf | None:
        return Leaf(self._value()) if self.tokens.current.kind == "value" else None

    def _value(self) -> int:
        """An input of the graph, which comes later: as the number of values that were named before it."""
        token = self.tokens.take("value", "an input of the graph")
        if token.text in self._named:
            self.tokens.fail(f"{token.text} is there twice", token)
        self._named[token.text] = token
        return len(self._named) - 1

    def _output(self) -> Leaf | None:
        return Leaf(self.attributes.integer("the number of an output")) if self.tokens.accept("output") else None

    def _number(self) -> Number:
        tokens = self.tokens
        name = tokens.string("a number's name")
        tokens.expect("=")
        index = self._value()
        tokens.expect(",")
        tokens.expect("default")
        at = tokens.current
        default = self.attributes.field()
        if not isinstance(default, (bool, int, float)):
            tokens.fail(f"expected a number, found {at}", at)
        return Number(name, index, default)

    def _state(self) -> StateEntry:
        tokens = self.tokens
        name = tokens.string("a state entry's name")
        tokens.expect("=")
        index = self._value()
        tokens.expect(":")
        kind = tokens.take("word", "a kind of state")
        if kind.text not in STATE_KINDS:
            tokens.fail(f"no kind of state is called {kind}", kind)
        output = None
        if tokens.accept(","):
            tokens.expect("output")
            output = self.attributes.integer("the number of an output")
        return StateEntry(name, kind.text, index, output)

    # trees --------------------------------------------------------------------------------------------------

    def _tree(self, leaf: Callable[[], Leaf | None]) -> Tree:
        tokens = self.tokens
        self._depth += 1
        if self._depth > MAX_DEPTH:
            tokens.fail("nested too deeply")
        made = leaf() or self._inner(leaf)
        self._depth -= 1
        return made

    def _inner(self, leaf: Callable[[], Leaf | None]) -> Tree:
        tokens = self.tokens
        if tokens.accept("("):
            return Container("tuple", self._items(leaf, ")"))
        if tokens.accept("["):
            return Container("list", self._items(leaf, "]"))
        if tokens.accept("size"):
            tokens.expect("(")
            size = Size(self._expression())
            tokens.expect(")")
            return size
        kind, title = "dict", ""
        if tokens.accept("ordered"):
            kind = "ordered"
        elif tokens.accept("record"):
            at = tokens.current
            kind, title = "record", tokens.string("a record's name")
            if not title.isidentifier():
                tokens.fail("a record's name must be an identifier", at)
        if kind != "dict" or tokens.at("{"):
            return self._pairs(leaf, kind, title)
        return Fixed(self._scalar())

    def _scalar(self) -> Any:
        at = self.tokens.current
        value = self.attributes.field()
        if not isinstance(value, CONSTANTS):
            self.tokens.fail(f"expected a value, found {at}", at)
        return value

    def _items(self, leaf: Callable[[], Leaf | None], end: str) -> tuple[Tree, ...]:
        tokens, items = self.tokens, []
        while not tokens.at(end):
            items.append(self._tree(leaf))
            if not tokens.accept(","):
                break
        tokens.expect(end)
        return tuple(items)

    def _pairs(self, leaf: Callable[[], Leaf | None], kind: str, title: str) -> Container:
        tokens = self.tokens
        tokens.expect("{")
        keys: dict[Any, None] = {}
        items = []
        while not tokens.at("}"):
            at = tokens.current
            key = self._scalar()
            if key in keys or (kind == "record" and not is_field_name(key)):
                tokens.fail(f"{at} is no key here, or is there twice", at)
            keys[key] = None
            tokens.expect(":")
            items.append(self._tree(leaf))
            if not tokens.accept(","):
                break
        tokens.expect("}")
        return Container(kind, tuple(items), tuple(keys), title)

    def _constant(self) -> Any:
        """Nested lists, tuples and dicts of numbers, strings and None."""
        return _plain(self._tree(lambda: None))

    # graph and weights --------------------------------------------------------------------------------------

    def _graph(self, at: Token) -> tuple[Graph, dict[int, int]]:
        """The graph, and which of its inputs the values named before are."""
        reader = GraphReader(self.tokens, REGISTRY, self.sizes)
        graph = reader.graph()
        try:
            verify(instantiate(graph, self.sizes))
        except JitgradError as error:
            self.tokens.fail(error.message, at)
        inputs = {v: i for i, v in enumerate(graph.inputs)}
        place = {}
        for k, token in enumerate(self._named.values()):
            value = reader.values.get(token.text)
            if value not in inputs:
                self.tokens.fail(f"{token.text} is no input of the graph", token)
            place[k] = inputs[value]
        return graph, place

    def _weights(self) -> Place:
        tokens = self.tokens
        if not tokens.accept("weights"):
            return Place("none")
        kind = tokens.advance()
        if kind.text not in ("none", "beside", "here"):
            tokens.fail(f"expected where the weights are, found {kind}", kind)
        offset = self.attributes.integer("an offset") if kind.text == "here" else 0
        if kind.text == "none":
            return Place("none")
        tokens.expect(",")
        tokens.expect("bytes")
        nbytes = self.attributes.integer("a number of bytes")
        tokens.expect(",")
        tokens.expect("sha256")
        return Place(kind.text, offset, nbytes, tokens.string("a digest"))


class _Check:
    """That the parts of a program fit one another."""

    def __init__(self, tokens: Tokens, spec: Spec, inputs: dict[int, Token], result: Token, graph: Token) -> None:
        self.tokens = tokens
        self.spec = spec
        self.inputs = inputs
        self.result = result
        self.graph = graph

    def all(self) -> None:
        """Raise a `ParseError` at what does not fit."""
        self._inputs()
        self._outputs()
        self._names()

    def _inputs(self) -> None:
        from_trees = [leaf.index for a in self.spec.arguments for leaf in leaves(a.tree)]
        used = Counter([*from_trees, *[n.input for n in self.spec.numbers], *[s.input for s in self.spec.state]])
        for i, value in enumerate(self.spec.graph.inputs):
            if used[i] != 1:
                shown = f"{i} ({value.name})" if value.name else str(i)
                self.tokens.fail(
                    f"input {shown} of the graph belongs to {used[i]} arguments or state entries", self.graph
                )
        for n in self.spec.numbers:
            if self.spec.graph.inputs[n.input].type.shape:
                self.tokens.fail(f"number {n.name!r} has more than one element", self.inputs[n.input])

        self._dims(from_trees)

    def _dims(self, arguments: list[int]) -> None:
        """Each dimension is an axis of an argument, and state has none."""
        inputs = self.spec.graph.inputs
        shown = {str(n) for i in arguments for n in inputs[i].type.shape if isinstance(n, SymbolicInt)}
        for name in self.spec.dims:
            if name not in shown:
                self.tokens.fail(f"dimension {name!r} is no axis of an argument", self.result)
        for s in self.spec.state:
            if any(isinstance(n, SymbolicInt) for n in inputs[s.input].type.shape):
                self.tokens.fail(f"state {s.name!r} can't have a dynamic size", self.inputs[s.input])

    def _outputs(self) -> None:
        graph = self.spec.graph
        for leaf in leaves(self.spec.result):
            if leaf.index >= len(graph.outputs):
                self.tokens.fail(f"there is no output {leaf.index}", self.result)
        taken = set()
        for s in self.spec.state:
            if s.output is None:
                continue
            if s.output >= len(graph.outputs) or s.output in taken:
                self.tokens.fail(f"state {s.name!r} can't be output {s.output}", self.inputs[s.input])
            taken.add(s.output)
            if graph.outputs[s.output].type != graph.inputs[s.input].type:
                self.tokens.fail(f"state {s.name!r} changes its type", self.inputs[s.input])

    def _names(self) -> None:
        spec = self.spec
        for what, names in (
            ("argument", [a.name for a in spec.arguments] + [n.name for n in spec.numbers]),
            ("state entry", [s.name for s in spec.state]),
        ):
            if len(set(names)) != len(names):
                self.tokens.fail(f"a name of {what} is there twice", self.result)


def _plain(tree: Tree) -> Any:
    if isinstance(tree, Fixed):
        return tree.value
    assert isinstance(tree, Container)
    items = [_plain(x) for x in tree.items]
    return dict(zip(tree.keys, items, strict=True)) if tree.keys or tree.kind == "dict" else items
