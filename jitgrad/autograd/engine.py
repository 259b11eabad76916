"""Backward: collects the tape behind some tensors, and runs its gradient.

Two ways, one set of rules. A plain tape runs as a whole: one plan per structure, compiled when seen again.
Where Python has a say in between (hooks, retained gradients, custom functions, `create_graph`, tracing, anomaly
mode), nodes run one after the other, each through the plan of a structure of one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from jitgrad.ir.errors import AutogradError
from jitgrad.ir.interpreter import evaluate
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.types import TensorType

from ..arrays import on_device
from ..backend import DeviceArray
from ..dispatch import apply_all, apply_data, run_data
from ..levels import LevelData
from ..memo import Memo
from ..mode import local
from ..tape import PackedNode, TapeNode, saved_data
from ..tensor import Tensor, wrap
from . import whole
from .anomaly import check_node
from .plan import Plan, Structure, build_plan

_step_plans: Memo[Plan] = Memo(limit=4096)


def collect(roots: Sequence[Any]) -> list[TapeNode]:
    """All nodes behind the edges `roots`, oldest first."""
    seen: set[TapeNode] = set()
    stack = [_node_of(e) for e in roots]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for e in node.edges:
            if e is not None and e.__class__ is not Tensor:
                stack.append(_node_of(e))
    return sorted(seen, key=_seq)


def _seq(node: TapeNode) -> int:
    return node.seq


def _node_of(e: Any) -> TapeNode | None:
    if isinstance(e, TapeNode):
        return e
    return e[0] if e.__class__ is tuple else None


def backward(
    roots: Sequence[Any],
    cotangents: Sequence[Any],
    targets: Sequence[Any] | None,
    *,
    retain: bool,
    create: bool,
) -> dict[Any, Any]:
    """Cotangents by target edge, given those of the root edges.

    An edge is a leaf tensor, a node, or (node, result index). `targets=None` means every leaf reached. Values are
    data (arrays, or IR values while tracing), or tensors with history when `create` is set.
    """
    nodes = collect(roots)
    if targets is not None:
        present = towards(nodes, targets)
        _note_types(nodes, present)
        nodes = present
    _check(nodes)
    if nodes and not create and _is_plain(nodes, cotangents) and whole.one_value_each(nodes):
        grads = whole.run_whole(nodes, roots, cotangents, targets)
    else:
        grads = _step_by_step(nodes, roots, cotangents, targets, create)
    if not retain:
        for node in nodes:
            node.release()
    tracer = local.mode.tracer
    if tracer is not None:
        return grads if create else {e: g if isinstance(g, LevelData) else _final(tracer, g) for e, g in grads.items()}
    return {e: _beside_leaf(e, g if create else _row_major(g)) for e, g in grads.items()}


def _final(tracer: Any, g: Any) -> Any:
    """A gradient without history, laid out as those of eager code."""
    value = tracer.detached(g)
    tracer.layout.row_major(value)
    return value


def _beside_leaf(e: Any, g: Any) -> Any:
    """The gradient of a leaf where the leaf is: of a number on the CPU that met a tensor on a device."""
    if not isinstance(e, Tensor) or isinstance(g, LevelData):
        return g
    if isinstance(g, Tensor):
        return g if g.device == e.device else g.to(e.device)  # type: ignore[attr-defined]
    return g if g.__class__ is e._data.__class__ is np.ndarray else on_device(g, e.device)


def _row_major(g: Any) -> Any:
    """A gradient laid out without regard to how it was computed."""
    return g if g.__class__ is not np.ndarray or g.flags.c_contiguous else g.copy()


def towards(nodes: list[TapeNode], targets: Sequence[Any]) -> list[TapeNode]:
    """The nodes on a path to one of the targets."""
    wanted = set(targets)
    on_path: set[Any] = set()
    for node in nodes:
        for e in node.edges:
            if e is not None and (e in wanted or _node_of(e) in on_path):
                on_path.add(node)
                break
    return [n for n in nodes if n in on_path]


def _note_types(nodes: Sequence[TapeNode], present: Sequence[TapeNode]) -> None:
    """Let those of `present` that leave the types of operands to their producers say them, where these are left out."""
    inside = set(present)
    found: dict[Any, Any] = {}
    for node in present:
        partly = node.types is None or None in node.types
        if partly and any(n is not None and n not in inside for n in map(_node_of, node.edges)):
            found = found or result_types(nodes)
            node.types = operand_types(node, found)


def _check(nodes: Sequence[TapeNode]) -> None:
    for node in nodes:
        if node.saved is None:
            raise AutogradError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they "
                "have already been freed). Specify retain_graph=True when calling .backward() or autograd.grad() "
                "the first time"
            )
        expected = node.versions
        for i, owner in enumerate(node.owners):
            if owner is not None and owner._version != (0 if expected is None else expected[i]):
                raise AutogradError(
                    f"one of the variables needed for gradient computation has been modified by an inplace "
                    f"operation: {node.name()} needs version {0 if expected is None else expected[i]} of its "
                    f"{_slot_name(node, i)}, which is now at version {owner._version}"
                )


def _slot_name(node: TapeNode, i: int) -> str:
    count = len(node.edges)
    return f"operand {i}" if i < count else f"result {i - count}"


def _is_plain(nodes: Sequence[TapeNode], cotangents: Sequence[Any]) -> bool:
    mode = local.mode
    if mode.tracer is not None or mode.anomaly:
        return False
    if mode.levels and any(isinstance(x, LevelData) for node in nodes for x in (*cotangents, *node.saved)):
        return False
    return all(node.hooks is None and node.__class__ is TapeNode for node in nodes)


def operand_types(node: TapeNode, known: dict[Any, TensorType]) -> tuple[TensorType, ...]:
    """Types of a node's operands; `known` gives those of edges."""
    types = []
    for i, e in enumerate(node.edges):
        if e is not None and e in known:
            types.append(known[e])
        elif e.__class__ is not TapeNode and e.__class__ is not tuple and e is not None:
            types.append(e.type_)
        else:
            types.append(node.constant_type(i))
    return tuple(types)


def _step_by_step(
    nodes: list[TapeNode],
    roots: Sequence[Any],
    cotangents: Sequence[Any],
    targets: Sequence[Any] | None,
    create: bool,
) -> dict[Any, Any]:
    known = result_types(nodes)
    flow: dict[Any, Any] = {}
    for e, g in zip(roots, cotangents, strict=True):
        _accumulate(flow, e, g, create)
    wanted = None if targets is None else set(targets)
    checks = local.mode.anomaly and local.mode.check_nan
    for node in reversed(nodes):
        count = len(known[node, None])
        places = [node if k == 0 else (node, k) for k in range(count)]
        out = [flow.get(e) if wanted is not None and e in wanted else flow.pop(e, None) for e in places]
        if node.hooks is not None:
            out = node.hooks.run(out, create)
            flow.update({e: g for e, g in zip(places, out, strict=True) if g is not None and wanted and e in wanted})
        if all(g is None for g in out):
            continue
        grads = node_gradients(node, out, known, create)
        if node.hooks is not None:
            grads = node.hooks.run_after(grads, out, create)
        if checks:
            check_node(node, grads)
        for e, g in zip(node.edges, grads, strict=True):
            if e is not None and g is not None:
                _accumulate(flow, e, g, create)
    return {e: g for e, g in flow.items() if (isinstance(e, Tensor) if wanted is None else e in wanted)}


def result_types(nodes: Sequence[TapeNode]) -> dict[Any, Any]:
    """Types by edge of every node's results, and the tuple of them under `(node, None)`."""
    known: dict[Any, Any] = {}
    for node in nodes:
        types = node.infer_results(operand_types(node, known))
        known[node, None] = types
        known[node] = types[0]
        for k, t in enumerate(types[1:], 1):
            known[node, k] = t
    return known


def _accumulate(flow: dict[Any, Any], e: Any, g: Any, create: bool) -> None:
    before = flow.get(e)
    if before is None:
        flow[e] = g
    elif create:
        flow[e] = before + g
    else:
        tracer = local.mode.tracer
        if isinstance(before, LevelData) or isinstance(g, LevelData):
            (flow[e],) = apply_data(Add(), (before, g))
            return
        if tracer is None:
            flow[e] = whole.add_data(before, g)
            return
        node = e[0] if e.__class__ is tuple else e
        with tracer.module(*tracer.scopes.get(getattr(node, "seq", -1), ())):
            flow[e] = tracer.add(before, g)


def node_gradients(node: TapeNode, out: Sequence[Any], known: dict[Any, Any], create: bool) -> Sequence[Any]:
    """Cotangents of one node's operands (None where none flows)."""
    if node.__class__ is not TapeNode and node.__class__ is not PackedNode:
        return node.backward(out, create)  # type: ignore[no-any-return, attr-defined]
    present = tuple(k for k, g in enumerate(out) if g is not None)
    types = operand_types(node, known)
    needs = tuple(e is not None for e in node.edges)
    saved = tuple(s is not None for s in node.saved)
    key = (node.op, types, needs, present, saved)
    plan = _step_plans.get(key)
    if plan is None:
        refs = tuple(-1 - i for i in range(len(types)))
        wrt = tuple(-1 - i for i, need in enumerate(needs) if need)
        seeds = tuple((0, k) for k in present)
        plan = _step_plans.add(key, build_plan(Structure(((node.op, refs, saved),), types, seeds, wrt)))
    grads = iter(_run_step(node, plan, types, [g for g in out if g is not None], create))
    flows = iter(plan.flows)
    return [next(grads) if need and next(flows) else None for need in needs]


def _run_step(
    node: TapeNode, plan: Plan, types: Sequence[TensorType], seeds: Sequence[Any], create: bool
) -> Sequence[Any]:
    if create:
        inputs = [_saved_tensor(node, slot, types) for _, slot in plan.residuals]
        return evaluate(plan.graph, [*inputs, *seeds], lambda op, xs: apply_all(op, *xs))
    tracer = local.mode.tracer
    data = [saved_data(node, slot) for _, slot in plan.residuals]
    if any(isinstance(x, LevelData) for x in (*data, *seeds)):
        pairs = zip(data, plan.graph.inputs, strict=False)
        kept = [_saved_data(x, v.type) for x, v in pairs]
        with nullcontext() if tracer is None else tracer.at(node.location):
            return evaluate(plan.graph, [*kept, *seeds], apply_data)
    if tracer is None:
        arrays = [whole.as_array(x, v.type) for x, v in zip(data, plan.graph.inputs, strict=False)]
        return run_data(plan.graph, [*arrays, *seeds])
    values = [tracer.lift(x, v.type) for x, v in zip(data, plan.graph.inputs, strict=False)]
    with tracer.at(node.location), tracer.module(*tracer.scopes.get(node.seq, ())):
        return evaluate(plan.graph, [*values, *seeds], tracer.emit)


def _saved_data(x: Any, type: TensorType) -> Any:
    """Saved data of any kind; the fast path saves Python numbers as they are."""
    return np.asarray(x, dtype=type.dtype.np) if isinstance(x, (bool, int, float)) else x


def _saved_tensor(node: TapeNode, slot: int, types: Sequence[TensorType]) -> Tensor:
    """A residual as a tensor that still has its history."""
    count = len(node.edges)
    data = saved_data(node, slot)
    if slot >= count:
        t = wrap(data)
        t._node, t._index, t._requires_grad = node, slot - count, True
        return t
    if not isinstance(data, (np.ndarray, DeviceArray)) and not hasattr(data, "type"):
        data = np.asarray(data, dtype=types[slot].dtype.np)
    e = node.edges[slot]
    if isinstance(e, Tensor):
        return e
    t = wrap(data)
    if e is not None:
        t._node, t._index = (e, 0) if isinstance(e, TapeNode) else e
        t._requires_grad = True
    return t
