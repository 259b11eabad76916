"""All that a program is but its numbers: what is written as text, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jitgrad.ir.graph import Graph
from jitgrad.ir.types import TensorType

from .dims import Constraint, Dim
from .trees import Container, Fixed, Leaf, Tree, show

STATE_KINDS = ("parameter", "buffer", "optimizer", "gradient", "random", "constant", "tensor")


@dataclass(frozen=True)
class Argument:
    """An argument of the program. One that is `keyword` can't be given by position."""

    name: str
    tree: Tree
    keyword: bool = False


@dataclass(frozen=True)
class Number:
    """A number given by keyword, graph input `input`; `default` is what it was at export."""

    name: str
    input: int
    default: float | int | bool


@dataclass(frozen=True)
class StateEntry:
    """A tensor that the program keeps: graph input `input`, and graph output `output` if a call updates it."""

    name: str
    kind: str
    input: int
    output: int | None = None


@dataclass(frozen=True)
class Signature:
    """How a program is called and what it returns. It prints as a Python signature with tensor types."""

    name: str
    arguments: tuple[Argument, ...]
    numbers: tuple[Number, ...]
    result: Tree
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    def __str__(self) -> str:
        parts, star = [], False
        for a in self.arguments:
            if a.keyword and not star:
                parts, star = [*parts, "*"], True
            parts.append(_argument(a, self.inputs))
        if self.numbers and not star:
            parts.append("*")
        parts += [f"{n.name}: {self.inputs[n.input]} = {n.default!r}" for n in self.numbers]
        result = show(self.result, lambda leaf: str(self.outputs[leaf.index]))
        return f"{self.name}({', '.join(parts)}) -> {result}"


def _argument(a: Argument, inputs: tuple[TensorType, ...]) -> str:
    if isinstance(a.tree, Leaf):
        return f"{a.name}: {inputs[a.tree.index]}"
    if isinstance(a.tree, Container):
        return f"{a.name}: {show(a.tree, lambda leaf: str(inputs[leaf.index]))}"
    return f"{a.name}={a.tree.value!r}" if isinstance(a.tree, Fixed) else a.name


@dataclass(frozen=True)
class Spec:
    """A program without its state's numbers. `graph` is symbolic, at the examples of `dims`."""

    name: str
    dims: Mapping[str, Dim]
    constraints: tuple[Constraint, ...]
    arguments: tuple[Argument, ...]
    numbers: tuple[Number, ...]
    state: tuple[StateEntry, ...]
    result: Tree
    graph: Graph
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signature(self) -> Signature:
        """How the program is called."""
        types = [tuple(v.type for v in vs) for vs in (self.graph.inputs, self.graph.outputs)]
        return Signature(self.name, self.arguments, self.numbers, self.result, *types)

    @property
    def sizes(self) -> dict[str, int]:
        """The lengths of the dimensions at export."""
        return {name: dim.example for name, dim in self.dims.items()}
