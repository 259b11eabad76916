"""`jitgrad.export`: from a function and example arguments to a `Program`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError
from jitgrad.ir.graph import Graph, Node, Value

from ..errors import located
from ..tensor import Tensor, to_array
from .capture import Captured, Role, capture
from .dims import Dim
from .naming import named_tensors
from .program import Program
from .sizes import SizeRecorder
from .spec import Argument, Number, Spec, StateEntry
from .trees import Leaf, Tree, build, describe


def export(
    f: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Program:
    """Turn a function, a module or a whole training step into a program that runs without its code.

    Args:
        f: what to call.
        args: example arguments, a tuple; their types are those that the program takes.
        kwargs: example keyword arguments.
        dynamic: which axes vary: `{"x": {0: "batch"}}` by argument name, or with a `Dim` for bounds.
        metadata: anything that JSON can hold, kept in the program.
        name: the program's name; by default that of the function or class.

    Example:
        >>> import jitgrad as jg
        >>> program = jg.export(lambda x, y: x @ y, (jg.ones(2, 3), jg.ones(3, 4)))
        >>> program(jg.ones(2, 3), jg.ones(3, 4)).shape
        jitgrad.Size([2, 4])
    """
    return _Export(f, args, dict(kwargs or {}), dynamic or {}, metadata or {}, name).program()


class _Export:
    def __init__(
        self, f: Any, args: Any, kwargs: dict[str, Any], dynamic: Mapping[str, Any], metadata: Any, name: str | None
    ) -> None:
        if not callable(f):
            raise located(ArgumentTypeError(f"export: expected a function or a module, not {type(f).__name__}"))
        self.f = f
        self.args = (args,) if isinstance(args, Tensor) else tuple(args)
        self.kwargs = kwargs
        self.name = name or _name_of(f)
        self.metadata = _as_json(metadata)
        self.examples: list[Tensor] = []
        self.arguments = self._describe()

    def _describe(self) -> list[Argument]:
        names = _parameter_names(self.f, len(self.args))
        found = [Argument(n, describe(x, self._leaf, f"argument {n!r}")) for n, x in zip(names, self.args, strict=True)]
        return found + [
            Argument(n, describe(x, self._leaf, f"argument {n!r}"), keyword=True) for n, x in self.kwargs.items()
        ]

    def _leaf(self, t: Tensor) -> Leaf:
        self.examples.append(t)
        return Leaf(len(self.examples) - 1)

    def call(self, tensors: dict[int, Tensor]) -> Any:
        """Call the function with these tensors."""
        built = [build(a.tree, tensors, {}) for a in self.arguments]
        args, kwargs = built[: len(self.args)], dict(zip(self.kwargs, built[len(self.args) :], strict=True))
        return self.f(*args, **kwargs)

    def program(self) -> Program:
        """Trace and put together."""
        types = [t.type_ for t in self.examples]
        captured = capture(self.call, self.examples, types, {}, SizeRecorder())
        return _assemble(self, captured, {})


def _assemble(e: _Export, c: Captured, dims: dict[str, Dim]) -> Program:
    known = named_tensors(e.f)
    inputs = {i: k for k, i in enumerate([i for i, r in enumerate(c.roles) if r.kind == "argument"])}
    outputs = dict(c.updates)
    numbers, state, arrays, labels = [], [], {}, {}
    taken: set[str] = set()
    for i, role in enumerate(c.roles):
        if role.kind == "number":
            numbers.append(Number(role.name, i, role.read()))
            labels[i] = role.name
        elif role.kind != "argument":
            name, kind, array = _entry(role, known)
            name = _free(name, taken)
            state.append(StateEntry(name, kind, i, outputs.get(i)))
            arrays[name] = array
            labels[i] = name
    del inputs
    arguments, graph = _complete(e, c, labels)
    spec = Spec(e.name, dims, (), tuple(arguments), tuple(numbers), tuple(state), c.result, graph, e.metadata)
    return Program(spec, arrays)


def _complete(e: _Export, c: Captured, labels: dict[int, str]) -> tuple[list[Argument], Graph]:
    """Arguments in terms of graph inputs; arguments that the graph does not use become inputs too."""
    place = {role.key: i for i, role in enumerate(c.roles) if role.kind == "argument"}
    inputs = list(c.graph.inputs)
    for k, t in enumerate(e.examples):
        if k not in place:
            place[k] = len(inputs)
            inputs.append(Value(t.type_))
    arguments = [Argument(a.name, _renumber(a.tree, place, a.name, labels), a.keyword) for a in e.arguments]
    env: dict[Value, Value] = {}
    for i, v in enumerate(inputs):
        env[v] = Value(v.type, name=labels.get(i, ""))
    nodes = []
    for node in c.graph.nodes:
        made = Node(node.op, [env[v] for v in node.operands], [r.type for r in node.results], node.location, node.scope)
        env.update(zip(node.results, made.results, strict=True))
        nodes.append(made)
    return arguments, Graph([env[v] for v in inputs], nodes, [env[v] for v in c.graph.outputs])


def _renumber(tree: Tree, place: Mapping[int, int], where: str, labels: dict[int, str]) -> Tree:
    if isinstance(tree, Leaf):
        labels[place[tree.index]] = where
        return Leaf(place[tree.index])
    items = getattr(tree, "items", None)
    if items is None:
        return tree
    keys = tree.keys or range(len(items))  # type: ignore[union-attr]
    new = tuple(_renumber(x, place, f"{where}.{k}", labels) for k, x in zip(keys, items, strict=True))
    return type(tree)(tree.kind, new, tree.keys, tree.title)  # type: ignore[union-attr, call-arg]


def _entry(role: Role, known: Any) -> tuple[str, str, np.ndarray[Any, Any]]:
    """Name, kind and a copy of the numbers of a state entry."""
    if role.kind == "random":
        return f"random.{role.name}", "random", np.asarray(role.read(), np.int64)  # type: ignore[misc]
    t = role.tensor
    assert t is not None
    name, kind, _ = known.get(id(t), ("captured", "tensor", t))
    if role.kind == "gradient":
        return f"{name}.grad", "gradient", np.array(to_array(t._grad))
    return name, kind, np.array(to_array(t))


def _free(name: str, taken: set[str]) -> str:
    made, count = name, 1
    while made in taken:
        count += 1
        made = f"{name}_{count}"
    taken.add(made)
    return made


def _name_of(f: Any) -> str:
    found = getattr(f, "__name__", None)
    name = found if isinstance(found, str) else type(f).__name__
    return "program" if name == "<lambda>" else name


def _parameter_names(f: Any, count: int) -> Sequence[str]:
    target = f.forward if hasattr(f, "forward") else f
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    return [names[i] if i < len(names) else f"{rest}{i - len(names)}" for i in range(count)]


def _as_json(metadata: Any) -> dict[str, Any]:
    try:
        made = json.loads(json.dumps(dict(metadata), sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise located(ArgumentError(f"export: metadata must be what JSON can hold: {error}")) from None
    return made  # type: ignore[no-any-return]
