"""From a function and example arguments to a `Program`: traces, and what they use put in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.ops.creation import Constant
from jitgrad.ir.printer import INLINE_ELEMENTS

from ..errors import located
from ..tensor import to_array
from .capture import Role
from .dims import Constraint
from .example import Example, name_of
from .exploring import Explorer
from .locations import portable
from .naming import named_tensors
from .program import Program
from .snapshot import Snapshot
from .spec import Argument, Number, Spec, StateEntry
from .steady import Steady
from .trees import Container, Leaf, Tree


def make_program(
    f: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], dynamic: Mapping[str, Any], metadata: Any,
    name: str | None,
) -> Program:  # fmt: skip
    """The program of `f`; see `jitgrad.export`."""
    if not callable(f):
        raise located(ArgumentTypeError(f"export: expected a function or a module, not {type(f).__name__}"))
    kept = _as_json(metadata)
    example = Example(f, args, kwargs, dynamic)
    steady, before = Steady(example), Snapshot(f)
    try:
        first, constraints = steady.first()
        explorer = Explorer(steady.trace, example.dims, example.fixed)
        explorer.explore(first, constraints)
        assembly = _Assembly(example, explorer)
        return assembly.program(name or name_of(f), kept).to(first.tracer.placement.where)
    finally:
        steady.restore()
        before.restore()


class _Assembly:
    """Names inputs, numbers and state, and puts the program together."""

    def __init__(self, example: Example, explorer: Explorer) -> None:
        self.example = example
        self.explorer = explorer
        self.roles: list[Role] = explorer.samples[0].roles
        self.outputs = dict(explorer.samples[0].updates)
        self.known = named_tensors(example.f)
        self.labels: dict[int, str] = {}
        self.numbers: list[Number] = []
        self.state: list[StateEntry] = []
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def program(self, name: str, metadata: dict[str, Any]) -> Program:
        """All of it."""
        explorer, example = self.explorer, self.example
        names = _number_names([r.name for r in self.roles if r.kind == "number"], {a.name for a in example.arguments})
        for i, role in enumerate(self.roles):
            if role.kind == "number":
                self._add_number(i, names.pop(0), role)
            elif role.kind != "argument":
                self._add_state(i, role)
        place = {role.key: i for i, role in enumerate(self.roles) if role.kind == "argument"}
        inputs = list(explorer.graph.inputs)
        types = example.types({name: dim.example for name, dim in explorer.dims.items()})
        for k, type in enumerate(types):  # those that the graph does not use
            if k not in place:
                place[k] = len(inputs)
                inputs.append(Value(type))
        arguments = tuple(
            [Argument(a.name, self._renumber(a.tree, place, a.name), a.keyword) for a in example.arguments]
        )
        graph = self._graph(inputs)
        graph = self._with_constants_as_state(graph)
        constraints = tuple([_portable(c) for c in explorer.constraints.values()])
        spec = Spec(
            name, explorer.dims, constraints, arguments, tuple(self.numbers), tuple(self.state), explorer.result, graph,
            metadata,
        )  # fmt: skip
        return Program(spec, self.arrays)

    def _add_number(self, i: int, name: str, role: Role) -> None:
        assert role.read is not None
        self.numbers.append(Number(name, i, role.read()))
        self.labels[i] = name

    def _add_state(self, i: int, role: Role) -> None:
        name, kind, array = self._entry(role)
        made = self._free_name(name)
        self.state.append(StateEntry(made, kind, i, self.outputs.get(i)))
        self.arrays[made] = array
        self.labels[i] = made

    def _free_name(self, name: str) -> str:
        made, count = name, 1
        while made in self.arrays:
            count += 1
            made = f"{name}_{count}"
        return made

    def _entry(self, role: Role) -> tuple[str, str, np.ndarray[Any, Any]]:
        """Name, kind and a copy of the numbers of a state entry."""
        if role.kind == "random":
            assert role.read is not None
            return f"random.{role.name}", "random", np.asarray(role.read(), np.int64)
        t = role.tensor
        assert t is not None
        if role.kind == "constant":
            return "constant", "constant", np.array(to_array(t))
        name, kind, _ = self.known.get(id(t), ("captured", "tensor", t))
        if role.kind == "gradient":
            return f"{name}.grad", "gradient", np.array(to_array(t._grad))  # type: ignore[arg-type]
        return name, kind, np.array(to_array(t))

    def _renumber(self, tree: Tree, place: Mapping[int, int], where: str) -> Tree:
        """The tree of an argument in terms of graph inputs."""
        if isinstance(tree, Leaf):
            self.labels[place[tree.index]] = where
            return Leaf(place[tree.index])
        if not isinstance(tree, Container):
            return tree
        keys = tree.keys or range(len(tree.items))
        items = [self._renumber(x, place, f"{where}.{k}") for k, x in zip(keys, tree.items, strict=True)]
        return Container(tree.kind, tuple(items), tree.keys, tree.title)

    def _graph(self, inputs: list[Value]) -> Graph:
        """The graph with all inputs, named, and with lines that do not depend on where the source lies."""
        graph = self.explorer.graph
        env = {v: Value(v.type, name=self.labels.get(i, "")) for i, v in enumerate(inputs)}
        new_inputs = list(env.values())
        nodes = []
        for node in graph.nodes:
            types = [r.type for r in node.results]
            made = Node(node.op, [env[v] for v in node.operands], types, portable(node.location), node.scope)
            env.update(zip(node.results, made.results, strict=True))
            nodes.append(made)
        return Graph(new_inputs, nodes, [env[v] for v in graph.outputs])

    def _with_constants_as_state(self, graph: Graph) -> Graph:
        """Large literals become state entries, which lie with the weights."""
        large = [n for n in graph.nodes if isinstance(n.op, Constant) and n.op.literal.array.size > INLINE_ELEMENTS]
        env: dict[Value, Value] = {}
        for node in large:
            assert isinstance(node.op, Constant)
            name = self._free_name("constant")
            self.arrays[name] = np.array(node.op.literal.array)
            self.state.append(StateEntry(name, "constant", len(graph.inputs) + len(env)))
            env[node.result] = Value(node.result.type, name=name)
        b = Builder()
        b.inputs = [*graph.inputs, *env.values()]
        for node in graph.nodes:
            if node not in large:
                b.copy(node, env)
        return b.build([env.get(v, v) for v in graph.outputs]) if large else graph


def _portable(c: Constraint) -> Constraint:
    return Constraint(c.left, c.relation, c.right, None if c.location is None else str(portable(c.location)))


def _number_names(names: list[str], taken: set[str]) -> list[str]:
    """Names for numbers; those that occur more than once are counted."""
    counts: dict[str, int] = {}
    made = []
    for name in names:
        counts[name] = counts.get(name, -1) + 1
        wanted = name if names.count(name) == 1 else f"{name}_{counts[name]}"
        made.append(f"{wanted}_" if wanted in taken else wanted)
    return made


def _as_json(metadata: Any) -> dict[str, Any]:
    try:
        made = json.loads(json.dumps(dict(metadata), sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise located(ArgumentError(f"export: metadata must be what JSON can hold: {error}")) from None
    return made  # type: ignore[no-any-return]
