"""A program as text. Its grammar is in `reader`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jitgrad.ir.graph import Value
from jitgrad.ir.printer import Printer

from .dims import Dim
from .spec import Spec
from .trees import Container, Fixed, Leaf, Size, Tree
from .versions import VERSION


def program_text(spec: Spec, *, locations: bool = True) -> str:
    """The text of `spec`, ending in a newline, without the line that says where its weights are."""
    return "\n".join(_Writer(spec, locations).lines()) + "\n"


class _Writer:
    def __init__(self, spec: Spec, locations: bool) -> None:
        self.spec = spec
        self.printer = Printer(locations=locations)
        self.graph = self.printer.print(spec.graph, "main")
        self.locations = locations

    def lines(self) -> Iterator[str]:
        """The lines of the text."""
        spec = self.spec
        yield f"jitgrad program {VERSION}"
        yield f"name {json.dumps(spec.name)}"
        if spec.metadata:
            yield f"metadata {self.constant(dict(spec.metadata))}"
        yield from map(_dim, spec.dims.values())
        for c in spec.constraints:
            at = f" at {json.dumps(c.location)}" if c.location and self.locations else ""
            yield f"require {c}{at}"
        for a in spec.arguments:
            yield f"{'keyword' if a.keyword else 'argument'} {json.dumps(a.name)} = {self.tree(a.tree, self.input)}"
        for n in spec.numbers:
            yield f"number {json.dumps(n.name)} = {self.input(n.input)}, default {self.printer.field(n.default)}"
        for s in spec.state:
            updated = "" if s.output is None else f", output {s.output}"
            yield f"state {json.dumps(s.name)} = {self.input(s.input)} : {s.kind}{updated}"
        yield f"result {self.tree(spec.result, lambda i: f'output {i}')}"
        yield ""
        yield from self.graph
        yield ""

    def input(self, index: int) -> str:
        """The name of a graph input."""
        value: Value = self.spec.graph.inputs[index]
        return self.printer.label(value)

    def tree(self, tree: Tree, leaf: Any) -> str:
        """A tree of arguments or results."""
        if isinstance(tree, Leaf):
            return str(leaf(tree.index))
        if isinstance(tree, Fixed):
            return self.printer.field(tree.value)
        if isinstance(tree, Size):
            return f"size({tree.expression})"
        items = [self.tree(x, leaf) for x in tree.items]
        return self._container(tree, items)

    def constant(self, x: Any) -> str:
        """Nested lists, tuples and dicts of numbers, strings and None."""
        if isinstance(x, dict):
            items = [f"{self.printer.field(k)}: {self.constant(x[k])}" for k in x]
            return f"{{{', '.join(items)}}}"
        if isinstance(x, list):
            return f"[{', '.join(map(self.constant, x))}]"
        return self.printer.field(x)

    def _container(self, tree: Container, items: list[str]) -> str:
        if tree.kind == "tuple":
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if tree.kind == "list":
            return f"[{', '.join(items)}]"
        pairs = ", ".join(f"{self.printer.field(k)}: {x}" for k, x in zip(tree.keys, items, strict=True))
        head = {"dict": "", "ordered": "ordered "}.get(tree.kind, f"record {json.dumps(tree.title)} ")
        return f"{head}{{{pairs}}}"


def _dim(dim: Dim) -> str:
    parts = [f"dim {dim.name} = {dim.example}", f"min {dim.min}"]
    if dim.max is not None:
        parts.append(f"max {dim.max}")
    if dim.step != 1:
        parts.append(f"step {dim.step}")
    return ", ".join(parts)
