"""Which node is to blame for a compiled call that differs from the eager one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.types import CPU

from ..arrays import on_host
from ..backend import compile_graph
from .numeric import difference_of, unequal
from .segments import Segment
from .sources import MadeSource
from .specialise import Specialisation

if TYPE_CHECKING:
    from .checking import State

_EXCITED = 16.0  # times what a change of the inputs in the last place does to an output: rounding


def culprit(
    specs: Sequence[Specialisation], leaves: Sequence[Any], before: State, fresh: Callable[[], tuple[Any, bool]]
) -> str | None:
    """What to say of the first differing node; None if nothing but rounding is to blame.

    `fresh` traces the function anew and gives the new path's specialisation, and whether that one agrees with eager.
    """
    made, agrees = fresh()
    before.restore()
    if agrees:
        return _of_capture(specs, made)
    for spec in [made] if made is not None else specs:
        told = _of_kernels(spec, leaves)
        if told != "":
            return told
    return (
        "the graph's nodes compute what eager code does: the difference is in gradients, or in how a call is replayed"
    )


def _of_capture(specs: Sequence[Specialisation], made: Specialisation | None) -> str:
    """Traced anew the function agrees with eager: what was captured no longer is what Python does."""
    head = "what was captured is not what Python does now (a change was not noticed)"
    for spec in specs if made is not None else ():
        assert made is not None
        node = _first_other(made.graph, spec.graph)
        if node is not None:
            return f"{head}; first differing node: {_text(node)}"
    return head


def _first_other(now: Graph, before: Graph) -> Node | None:
    """The first node of a graph that the other one does not have at this place."""
    numbers = [{v: k for k, v in enumerate(g.inputs)} for g in (now, before)]
    for k, node in enumerate(now.nodes):
        other = before.nodes[k] if k < len(before.nodes) else None
        if other is None or node.op != other.op:
            return node
        if [numbers[0][v] for v in node.operands] != [numbers[1][v] for v in other.operands]:
            return node
        for table, results in zip(numbers, (node.results, other.results), strict=True):
            for v in results:
                table[v] = len(table)
    return None


def _of_kernels(spec: Specialisation, leaves: Sequence[Any]) -> str | None:
    """The first node whose machine code differs from its reference; "" if there is none, None if rounding is."""
    graph = spec.graph
    if any(isinstance(s, MadeSource) for s in spec.sources) or any(v.type.device != CPU for v in graph.inputs):
        return ""
    inputs = [np.array(on_host(s.fetch(leaves))) for s in spec.sources]
    want = _values(graph, inputs)
    got = compile_graph(graph, name="check")([x.copy() for x in inputs])
    other = _values(graph, [_moved(x) for x in inputs])
    is_rounding = False
    for value, array in zip(graph.outputs, got, strict=True):
        if difference_of(array, np.asarray(want[value])) is None:
            continue
        if not _differs(array, want[value], other[value]):
            is_rounding = True
            continue
        found = _bisect(graph, inputs, want, other, value)
        if found is not None:
            node, mine = found
            told = difference_of(mine, np.asarray(want[node.results[0]])) or "differs"
            return f"first differing node: {_text(node)}, {told}"
    return None if is_rounding else ""


def _differs(got: Any, want: Any, other: Any) -> bool:
    """Whether by more than rounding may do: `other` is what comes of inputs changed in the last place."""
    want, other = np.asarray(want), np.asarray(other)
    slack = 0.0
    if want.dtype.kind in "fc" and want.size:
        moved = np.abs(other - want)
        slack = _EXCITED * float(moved[np.isfinite(moved)].max(initial=0.0))
    return bool(unequal(got, want, slack).any())


def _values(graph: Graph, inputs: Sequence[Any]) -> dict[Value, Any]:
    """Every value of a graph, op by op."""
    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            env.update(zip(node.results, apply_reference(node.op, [env[v] for v in node.operands]), strict=True))
    return env


def _moved(x: Any) -> Any:
    """Floats changed in the last place, this way and that."""
    if x.dtype.kind != "f" or not x.size:
        return x
    towards = np.where(np.arange(x.size).reshape(x.shape) % 2, np.inf, -np.inf).astype(x.dtype)
    return np.nextafter(x, towards)


def _bisect(
    graph: Graph, inputs: Sequence[Any], want: dict[Value, Any], other: dict[Value, Any], last: Value
) -> tuple[Node, Any] | None:
    """The first node before `last` whose value, compiled with what it comes from, differs."""
    known = {v: k for k, v in enumerate(graph.inputs)}
    nodes = Segment(graph.nodes, known, [last]).nodes
    low, high = 0, len(nodes) - 1
    found = None
    while low <= high:
        middle = (low + high) // 2
        node = nodes[middle]
        value = node.results[0]
        segment = Segment(graph.nodes, known, [value])
        (got,) = compile_graph(segment.graph(), name="check")([inputs[k].copy() for k in segment.places])
        if _differs(got, want[value], other[value]):
            found, high = (node, got), middle - 1
        else:
            low = middle + 1
    return found


def _text(node: Node) -> str:
    results = ", ".join(str(v.type) for v in node.results)
    operands = ", ".join(str(v.type) for v in node.operands)
    where = f" at {node.location}" if node.location is not None else ""
    return f"{node.op.name}({operands}) : {results}{where}"
