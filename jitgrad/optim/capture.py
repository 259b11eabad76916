"""The update of one parameter as two graphs: what follows from numbers alone, and the rest.

Bias corrections and the like come out the same for all parameters that have taken equally many steps, so their graph
runs once for all of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Node, Value

from ..autograd.grad_mode import no_grad
from ..backend import can_join, compile_graph
from ..compiler.segments import Segment
from ..compiler.sources import HostSource
from ..compiler.specialise import uncounted
from ..compiler.tracer import Tracer
from ..memo import Memo
from ..mode import local
from ..tensor import Tensor

if TYPE_CHECKING:
    from .by_parameter import ByParameter

# What an input is, whichever parameter it is for: ("param",), ("grad",), ("state", name); of all parameters alike are
# ("number", k), the k-th number that was read, and ("tensor", t), an option that is a tensor.
Role = tuple[Any, ...]

_compiled: Memo[Any] = Memo(limit=512)


@dataclass(frozen=True, eq=False)
class Part:
    """A compiled graph with the roles of its inputs; an output that has a role is written over that input."""

    run: Any
    inputs: tuple[Role, ...]
    outputs: tuple[Role | None, ...]


@dataclass(frozen=True, eq=False)
class Update:
    """One parameter's update: `elements` takes, behind the inputs that have roles, these results of `numbers`."""

    numbers: Part | None
    elements: Part
    taken: tuple[int, ...]
    reads: tuple[Any, ...]  # the functions that give the numbers


def capture(optimizer: ByParameter, group: dict[str, Any], p: Tensor) -> Update | None:
    """The update of `p`, whose state is there. None if it can't be one piece of native code."""
    mode = local.mode
    tracer = Tracer((), True, f"{type(optimizer).__name__}_step")
    state = dict.get(optimizer.state, p)
    mode.tracer = tracer
    try:
        with no_grad():
            optimizer.update_traced(group, p)
    except JitgradError:
        return None
    finally:
        mode.tracer = None
        tracer.is_over = True
        uncounted(tracer)
    if tracer.grads or tracer.draws or tracer.lost is not None:
        return None
    known = {id(p): ("param",), id(p._grad): ("grad",), **{id(t): ("state", k) for k, t in (state or {}).items()}}
    tensors = {s.slot: s.tensor for s in tracer.outside.values()}
    if None in tensors:  # a view: what is written is more than the parameter
        return None
    roles: dict[Value, Role] = {}
    reads: list[Any] = []
    for k, (value, source) in enumerate(zip(tracer.builder.inputs, tracer.sources, strict=True)):
        if isinstance(source, HostSource):
            roles[value] = ("number", len(reads))
            reads.append(source.read)
        else:
            roles[value] = known.get(id(tensors[k]), ("tensor", tensors[k]))
    written = {roles[tracer.builder.inputs[s.slot]]: s.value for s in tracer.outside.values() if s.written}  # type: ignore[index]
    return _split(tracer.name, tracer.builder.nodes, roles, written, optimizer.shared_state, tuple(reads))


def _split(
    name: str, nodes: Sequence[Node], roles: dict[Value, Role], written: dict[Role, Value], shared: frozenset[str],
    reads: tuple[Any, ...],
) -> Update | None:  # fmt: skip
    numbers = _numbers(nodes, {v for v, role in roles.items() if _is_number(role, shared)})
    alike = {role: v for role, v in written.items() if _is_number(role, shared) and v in numbers}
    own = {role: v for role, v in written.items() if role not in alike}
    by_value = {v: role for role, v in alike.items()}
    if any(role[0] not in ("param", "state") for role in written) or len(by_value) != len(alike):
        return None
    arrays = [v for v in roles if v not in numbers]
    known = {v: k for k, v in enumerate([*roles, *(v for v in numbers if v not in roles)])}
    elements = Segment(nodes, known, list(own.values()), arrays)
    taken = [v for v in elements.inputs if v in numbers]
    results = list(dict.fromkeys([*(v for v in taken if v not in roles), *alike.values()]))
    sources = {v: k for k, v in enumerate(roles)}
    before = Segment(nodes, sources, results, [v for v in roles if v in numbers])
    first = _part(name, before, roles, [by_value.get(v) for v in results]) if results else None
    second = _part(name, elements, roles, list(own))
    if second is None or (results and first is None):
        return None
    return Update(first, second, tuple([results.index(v) if v in results else -1 for v in taken]), reads)


def _numbers(nodes: Sequence[Node], given: set[Value]) -> set[Value]:
    """The 0-d values that follow from those `given` and constants, with them."""
    found = set(given)
    constants: set[Value] = set()
    for node in nodes:
        if constants.issuperset(node.operands):
            constants.update(node.results)
        elif all(v in found or v in constants for v in node.operands) and not any(r.type.shape for r in node.results):
            found.update(node.results)
    return found


def _is_number(role: Role, shared: frozenset[str]) -> bool:
    return role[0] in ("number", "tensor") or (role[0] == "state" and role[1] in shared)


def _part(name: str, segment: Segment, roles: dict[Value, Role], outputs: Sequence[Role | None]) -> Part | None:
    """A segment as machine code, found again by its structure."""
    inputs = tuple([roles.get(v, ()) for v in segment.inputs])
    aliases = {k: inputs.index(role) for k, role in enumerate(outputs) if role is not None}
    key = (segment.key, tuple(segment.constants), tuple(aliases.items()))
    run = _compiled.get(key)
    if run is None:
        run = _compiled.add(key, compile_graph(segment.graph(), name=name, aliases=aliases, numerics="strict"))
    return Part(run, inputs, tuple(outputs)) if can_join(run) else None
