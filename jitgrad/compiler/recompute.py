"""A checkpointed part of a traced function as one op, `Recompute`, whose gradient keeps its operands alone.

The part is traced like everything else, and then taken out of the graph into a sub-graph. It stays as it is where it
does more than compute results: where it writes to tensors from before, or where Python takes part in its gradients.
"""

from __future__ import annotations

from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Value
from jitgrad.ir.ops.again import Again
from jitgrad.ir.recompute import Recompute

from ..autograd.engine import collect
from ..dispatch import apply, edge, record
from ..mode import local
from ..tape import PackedNode, TapeNode, next_seq
from ..tensor import Tensor, wrap
from .tracer import Tracer


def once_more(t: Tensor) -> Tensor:
    """`t`, to compute something from again: while tracing, if gradients go there, as a value not merged with it."""
    return apply(Again(), t) if local.mode.tracer is not None and t._requires_grad else t


class Part:
    """A part of a trace, from where it is made to `close()`."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._outer = tracer.met
        self._met: dict[Value, Tensor] = {}
        self._own: set[Value] = set()
        tracer.met = self._met
        self._builder = tracer.builder
        self._start = len(tracer.builder.nodes)
        self._since = next_seq()
        self._writes = {id(s) for s in tracer.outside.values() if s.written}

    def leave(self) -> None:
        """The part is over; what it met from before, an outer one has met, too."""
        tracer = self._tracer
        tracer.met = self._outer
        self._own = {r for node in tracer.builder.nodes[self._start :] for r in node.results}
        self._met = {v: t for v, t in self._met.items() if v not in self._own}
        if self._outer is not None:
            for value, t in self._met.items():
                self._outer.setdefault(value, t)

    def close(self) -> None:
        """Make the part one op, if that says all it does."""
        tracer = self._tracer
        is_going_on = local.mode.tracer is tracer and tracer.builder is self._builder
        if not is_going_on or len(tracer.builder.nodes) == self._start:
            return
        nodes, own = tracer.builder.nodes[self._start :], self._own
        live = [t for t in tracer.live() if t._data in own]
        if not live or self._does_more(live, own):
            return
        operands = list(dict.fromkeys(v for node in nodes for v in node.operands if v not in own))
        results = list(dict.fromkeys(t._data for t in live))
        b = Builder()
        env = {v: b.input(v.type, v.name) for v in operands}
        for node in nodes:
            b.copy(node, env)
        op = Recompute(b.build([env[v] for v in results]))
        del tracer.builder.nodes[self._start :]
        made = dict(zip(results, tracer.emit(op, operands), strict=True))
        for value, result in made.items():
            tracer.layout.lies_as(result, value)
        self._replace(op, operands, live, made)
        for entry in tracer.outside.values():
            if entry.value in own:  # a view of a tensor from outside, met in the part
                root, chain = tracer.root(entry.tensor)
                entry.value = tracer._derive(tracer.state(root).value, chain)

    def _does_more(self, live: list[Tensor], own: set[Value]) -> bool:
        tracer = self._tracer
        if any(s.written and id(s) not in self._writes for s in tracer.outside.values()):
            return True
        if any(s.value in own and tracer.root(s.tensor)[0] is s.tensor for s in tracer.outside.values()):
            return True
        if any(tracer.value(t) is not v for v, t in self._met.items()):
            return True
        tape = [n for n in collect([edge(t) for t in live if t._requires_grad]) if n.seq > self._since]
        if any(n.__class__ not in (TapeNode, PackedNode) or n.hooks is not None for n in tape):
            return True
        leaves = [e for n in tape for e in n.edges if isinstance(e, Tensor)]
        return any(leaf._data.__class__ is Value and leaf._data in own for leaf in leaves)

    def _replace(self, op: Recompute, operands: list[Value], live: list[Tensor], made: dict[Value, Value]) -> None:
        """The results are those of the op, on the tape too."""
        tensors = [self._met[v] if v in self._met else wrap(v) for v in operands]
        heads = {old: wrap(new) for old, new in made.items()}
        record(op, tensors, operands, list(heads.values()))
        for t in live:
            head = heads[t._data]
            if t._requires_grad and t._node is not None and t._node.seq > self._since:
                t._node, t._index = head._node, head._index
            t._data = head._data


__all__ = ["Part", "once_more"]
