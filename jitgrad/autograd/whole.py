"""The gradient of a whole tape as one plan, compiled when its structure comes again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.call import Call
from jitgrad.ir.config import config
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.types import CPU, Device, TensorType

from ..arrays import device_of, owned
from ..backend import DeviceArray, compile_graph
from ..dispatch import data_op, run_data
from ..dump import observer_for
from ..memo import Memo
from ..tape import TapeNode
from ..tensor import Tensor
from .plan import Plan, Structure, build_plan


@dataclass
class BackwardStats:
    """How eager backward passes ran: whole plans interpreted, compiled and replayed, or node by node."""

    structures: int = 0
    interpreted: int = 0
    compiled: int = 0
    replayed: int = 0


class Entry:
    """A structure's plan, and its executable once it has come twice."""

    __slots__ = ("device", "executable", "lock", "plan")

    def __init__(self, plan: Plan, device: Device) -> None:
        self.plan = plan
        self.device = device
        self.executable: Any = None
        self.lock = threading.Lock()


_WORD = 8  # bytes of NumPy's longest whole number

stats = BackwardStats()
_entries: Memo[Entry] = Memo(limit=512)


def run_whole(
    nodes: Sequence[TapeNode], roots: Sequence[Any], cotangents: Sequence[Any], targets: Sequence[Any] | None
) -> dict[Any, Any]:
    """Cotangents by target edge."""
    inside = set(nodes)
    pairs = list(zip(roots, cotangents, strict=True))
    cotangents = [g for e, g in pairs if producer(e) in inside]
    entry, edges, is_new = find(nodes, [e for e, _ in pairs if producer(e) in inside], targets, cotangents)
    grads = run_entry(entry, [*_inputs(entry.plan, nodes), *cotangents], nodes, cotangents, is_new)
    given = iter(grads)
    out = {e: next(given) for e, flows in zip(edges, entry.plan.flows, strict=True) if flows}
    wanted = None if targets is None else set(targets)
    for e, g in pairs:
        if producer(e) not in inside and (isinstance(e, Tensor) if wanted is None else e in wanted):
            out[e] = g if e not in out else add_data(out[e], g)
    return out


def find(
    nodes: Sequence[TapeNode], roots: Sequence[Any], targets: Sequence[Any] | None, cotangents: Sequence[Any]
) -> tuple[Entry, list[Any], bool]:
    """The entry of a tape whose `roots` are all in it, the target edges in the order of its plan, and if it is new."""
    structure, edges = describe(nodes, roots, targets)
    device = _device(nodes, cotangents)
    key = (structure.key(), device)
    entry = _entries.get(key)
    if entry is not None:
        return entry, edges, False
    stats.structures += 1
    return _entries.add(key, Entry(build_plan(structure), device)), edges, True


def run_entry(
    entry: Entry, inputs: Sequence[Any], nodes: Sequence[TapeNode], cotangents: Sequence[Any], is_new: bool
) -> list[Any]:
    """What a plan gives for its inputs: interpreted the first time, compiled from the second on."""
    if is_new or not config.compile_backward:
        return _interpret(entry.plan, inputs, cotangents)
    return _replay(entry, inputs, nodes)


def is_on_host(nodes: Sequence[TapeNode], cotangents: Sequence[Any]) -> bool:
    """Whether the gradient is computed in host memory."""
    return _device(nodes, cotangents) is CPU


def producer(e: Any) -> TapeNode | None:
    """The node of an edge; None of a leaf."""
    return e if e.__class__ is TapeNode else e[0] if e.__class__ is tuple else None


def add_data(a: Any, b: Any) -> Any:
    """The sum of two cotangents."""
    if a.__class__ is DeviceArray or b.__class__ is DeviceArray:
        return data_op(Add(), a, b)
    return np.asarray(np.add(a, b), dtype=a.dtype)


def as_array(x: Any, type: TensorType) -> Any:
    """Saved data as an array: the fast path saves Python numbers as they are."""
    return x if x.__class__ is np.ndarray or x.__class__ is DeviceArray else np.asarray(x, dtype=type.dtype.np)


def _inputs(plan: Plan, nodes: Sequence[TapeNode]) -> list[Any]:
    out = []
    for (i, slot), value in zip(plan.residuals, plan.graph.inputs, strict=False):
        x = nodes[i].saved[slot]
        out.append(as_array(x, value.type))
    return out


def _interpret(plan: Plan, inputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    stats.interpreted += 1
    arrays = run_data(plan.graph, inputs)
    taken = {id(g) for g in cotangents} | {id(x.base) for x in inputs if x.__class__ is DeviceArray}
    for i, g in enumerate(arrays):
        if g.__class__ is DeviceArray:
            memory, is_own = id(g.base), True
        else:
            memory, is_own = id(g), g.flags.owndata and g.flags.c_contiguous
        if memory in taken or not is_own or not g.flags.writeable:
            arrays[i] = owned(g, "C")
        taken.add(memory)
    return arrays


def _replay(entry: Entry, inputs: Sequence[Any], nodes: Sequence[TapeNode]) -> list[Any]:
    if entry.executable is None:
        with entry.lock:
            if entry.executable is None:
                empty = [k for k, v in enumerate(entry.plan.graph.inputs) if not v.type.numel]
                is_strict = any(isinstance(node.op, Call) and node.op.strict for node in nodes)
                entry.executable = compile_graph(
                    entry.plan.graph, name="backward", observer=observer_for(None, "backward"), device=entry.device,
                    numerics="strict" if is_strict else "default", varying=empty,
                )  # fmt: skip
                stats.compiled += 1
    stats.replayed += 1
    return entry.executable(inputs)  # type: ignore[no-any-return]


def _device(nodes: Sequence[TapeNode], cotangents: Sequence[Any]) -> Device:
    """Where the gradient is computed: on the device that something saved, or a cotangent, is on."""
    for g in cotangents:
        if g.__class__ is DeviceArray:
            return device_of(g)
    for node in nodes:
        for x in node.saved:
            if x.__class__ is DeviceArray:
                return device_of(x)
    return CPU


def one_value_each(nodes: Sequence[TapeNode]) -> bool:
    """Whether all nodes that saved a value saved the same data of it.

    An op in place, like `relu_`, keeps its result, and what comes after keeps the memory that result was written to:
    two arrays that are equal, unless the memory was then written through a detached alias. The plan of the whole would
    mix the two.
    """
    seen: dict[Any, Any] = {}
    for node in nodes:
        count = len(node.edges)
        for i, data in enumerate(node.saved):
            if data is not None:
                e = node.edges[i] if i < count else node if i == count else (node, i - count)
                if e is not None and (before := seen.setdefault(e, data)) is not data and not _equal(before, data):
                    return False
    return True


def _equal(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits; looked at in host memory alone, as whole numbers."""
    if a.__class__ is not np.ndarray or b.__class__ is not np.ndarray or a.shape != b.shape or a.dtype != b.dtype:
        return False
    bits = f"u{a.dtype.itemsize}"
    return a.dtype.itemsize <= _WORD and bool((a.view(bits) == b.view(bits)).all())


def describe(
    nodes: Sequence[TapeNode], roots: Sequence[Any], targets: Sequence[Any] | None
) -> tuple[Structure, list[Any]]:
    """The structure of a tape whose `roots` are all in it, and the target edges in the order of `wrt`."""
    number: dict[Any, int] = {node: i for i, node in enumerate(nodes)}
    outside: list[TensorType] = []
    leaves: dict[Any, int] = {}
    steps = []
    for node in nodes:
        refs: list[Any] = []
        for i, e in enumerate(node.edges):
            if e is None:
                refs.append(-1 - len(outside))
                outside.append(node.constant_type(i))
                continue
            made_by = producer(e)
            if made_by in number:
                refs.append((number[made_by], 0 if e is made_by else e[1]))
                continue
            at = leaves.get(e)
            if at is None:
                at = leaves[e] = -1 - len(outside)
                outside.append(_edge_type(node, i, e))
            refs.append(at)
        steps.append((node.op, tuple(refs), tuple([s is not None for s in node.saved])))

    def ref(e: Any) -> Any:
        if e in number:
            return (number[e], 0)
        if e.__class__ is tuple and e[0] in number:
            return (number[e[0]], e[1])
        return leaves.get(e)

    edges = (
        [e for e in leaves if isinstance(e, Tensor)] if targets is None else [e for e in targets if ref(e) is not None]
    )
    return Structure(tuple(steps), tuple(outside), tuple(map(ref, roots)), tuple(map(ref, edges))), edges


def _edge_type(node: TapeNode, i: int, e: Any) -> TensorType:
    if isinstance(e, Tensor):
        return e.type_
    return node.constant_type(i)
