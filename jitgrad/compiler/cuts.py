"""Where a trace had to know values: what was captured is run there, and the trace goes on under the answer.

Nothing that the function does to tensors happens at a cut: writes, gradients and random draws wait for the end, so
that a replay that meets an answer it does not know has changed nothing yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.op import View
from jitgrad.ir.ops.creation import Full, Iota
from jitgrad.ir.types import TensorType

from ..arrays import on_device, on_host
from ..dump import observer_for
from ..tensor import Tensor, tensor_type
from .guards import Guards
from .materialise import tape_nodes
from .questions import Question
from .segments import Segment, runnable
from .sources import MadeSource, Source

if TYPE_CHECKING:
    from .tracer import Tracer

_CHEAP = (View, Full, Iota)  # made again where they are used
_SOON = 64  # ops that are computed soon
_ELEMENTS = 1 << 14  # so many count as one more


@dataclass(eq=False)
class Cut:
    """A segment, and the question that ended it. References: a source by its slot, computed values as -1 - number."""

    run: Any  # None where all that is asked about was known
    inputs: tuple[int, ...]
    asked: tuple[int, ...]
    question: Question
    answer: Hashable
    sources: tuple[Source, ...]  # those that this segment met first
    guards: Guards | None  # None: nothing to check that was not checked before
    location: str | None
    why: str
    told: str  # the answer

    def __str__(self) -> str:
        where = f" at {self.location}" if self.location else ""
        return f"{self.why}{where}: {self.told}"


class Refused(BaseException):
    """An op refused a value in a segment: the call has to run eagerly, to fail or to go on as eager code does."""


class _Arrays(dict[Value, Any]):
    """Arrays by value; those that are known are looked up."""

    def __init__(self, cuts: Cuts) -> None:
        super().__init__()
        self._cuts = cuts

    def __missing__(self, value: Value) -> Any:
        return on_host(self._cuts.array(self._cuts.known[value]))


class Cuts:
    """The cuts of one trace, and the arrays known since."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.made: list[Cut] = []
        self.known: dict[Value, int] = {}  # references
        self.computed: list[Any] = []
        self.done: set[Node] = set()  # those with effects that have run
        self._arrays: dict[int, Any] = {}  # of sources, by slot
        self._seen = 0  # sources that belong to earlier segments
        self._depends = -1

    def array(self, ref: int) -> Any:
        """The array behind a reference."""
        if ref < 0:
            return self.computed[-1 - ref]
        found = self._arrays.get(ref)
        if found is None:
            tracer = self.tracer
            found = tracer.host_values.get(ref, tracer.array_values.get(ref))
            if found is None:
                found = tracer.sources[ref].fetch(tracer.leaves)
            self._arrays[ref] = found
        return found

    def at_hand(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The elements that `value` has in this call, if they are known or soon computed."""
        nodes: dict[Node, None] = {}
        stack, left = [value], _SOON
        while stack:
            v = stack[-1]
            node = v.node
            if v in self.known or node in nodes:
                stack.pop()
                continue
            if node is None:
                return None
            missing = [x for x in node.operands if x not in self.known and x.node not in nodes]
            if missing:
                stack += missing
                continue
            left -= 1 + sum([x.type.numel for x in (*node.operands, *node.results)]) // _ELEMENTS
            if left < 0:
                return None
            nodes[node] = None
            stack.pop()
        env = _Arrays(self)
        for node in nodes:
            env.update(zip(node.results, apply_reference(node.op, [env[v] for v in node.operands]), strict=True))
        return env[value]  # type: ignore[no-any-return]

    def arrays(self) -> list[Any]:
        """Those of all sources."""
        return [self.array(i) for i in range(len(self.tracer.sources))]

    def ask(self, values: Sequence[Value], question: Question, why: str, location: Any) -> Any:
        """Run what `values` need, and give the answer: for a question that makes arrays, tensors of them."""
        run, inputs = self._run([*values, *self._live()])
        asked = tuple([self.known[v] for v in values])
        key, answer = question.ask([self.array(ref) for ref in asked])
        guards, sources = self._new_guards(), tuple(self.tracer.sources[self._seen :])
        self.made.append(Cut(run, inputs, asked, question, key, sources, guards, location, why, question.words(answer)))
        self._seen = len(self.tracer.sources)
        return self._go_on_with(answer) if question.makes else answer

    def _run(self, values: Sequence[Value]) -> tuple[Any, tuple[int, ...]]:
        wanted = [v for v in dict.fromkeys(values) if v not in self.known]
        tracer = self.tracer
        segment = Segment(tracer.builder.nodes, self.known, wanted, done=self.done)
        if not segment.nodes:
            return None, ()
        self.done.update(segment.effects)
        where = tracer.placement.where
        run = runnable(
            segment, tracer.name, where, lambda: observer_for(tracer.dump, tracer.name), numerics=tracer.numerics
        )
        try:
            outs = run([self.array(ref) for ref in segment.places])
        except InternalError:
            raise
        except Exception as error:
            tracer.refused = True
            raise Refused from error
        for v, array in zip(wanted, outs, strict=True):
            self.known[v] = -1 - len(self.computed)
            self.computed.append(array)
        return run, segment.places

    def _live(self) -> list[Value]:
        """Values that what follows may read: those of tensors and of the tape, but for what is cheap to make again."""
        tracer = self.tracer
        live = tracer.live()
        found: list[Value] = [s.value for s in tracer.outside.values()]
        found += [t._data for t in live]
        found += [g._data for _, g in tracer.grads.values() if g is not None and g._data.__class__ is Value]
        for node in tape_nodes([t._node for t in live if t._node is not None]):
            found += [x for x in node.saved or () if x.__class__ is Value]
        kept: dict[Value, None] = {}
        seen: set[Value] = set()
        while found:
            v = found.pop()
            if v in seen or v in self.known or v.node is None:
                continue
            seen.add(v)
            if isinstance(v.node.op, _CHEAP):
                found.extend(v.node.operands)
            else:
                kept[v] = None
        return list(kept)[::-1]

    def _new_guards(self) -> Guards | None:
        """Guards of what the trace depends on by now, if that is more than at the last cut."""
        depends = self.tracer.dependencies()
        if depends == self._depends:
            return None
        self._depends = depends
        return Guards(self.tracer)

    def last_guards(self) -> Guards | None:
        """Those of what follows the last cut."""
        return self._new_guards()

    def last_sources(self) -> tuple[Source, ...]:
        """Those met since the last cut."""
        return tuple(self.tracer.sources[self._seen :])

    def _go_on_with(self, arrays: Sequence[Any]) -> list[Tensor]:
        made = []
        for x in arrays:
            array = on_device(x, self.tracer.placement.where)
            type: TensorType = tensor_type(array.shape, array.dtype)
            slot = len(self.tracer.sources)
            value = self.tracer._slot(MadeSource(len(self.made) - 1), type)
            self._arrays[slot] = array
            made.append(self.tracer.traced(value))
        self._seen = len(self.tracer.sources)
        return made
