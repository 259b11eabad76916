"""Captures what a function does to tensors, as a graph.

While a tracer is active in a thread, ops append nodes instead of running. Tensors made inside hold IR values;
tensors from outside stay untouched, and what happens to them (writes, gradients) is kept here in tables until the
trace ends. Where Python needs a value, a *segment* ends (`cuts`): it runs, and the trace goes on under the answer. The
trace ends in one of two ways: the function returns (`specialise` compiles the rest of the graph), or something comes
that no replay could repeat (`materialise` runs what was captured so far and makes it real, and Python goes on under a
`Retracer`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import CompileError, InternalError
from jitgrad.ir.graph import Value
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.creation import Constant, Full, Literal
from jitgrad.ir.ops.history import Detach, WithHistory
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.types import TensorType

from ..arrays import on_host
from ..backend import DeviceArray
from ..mode import local
from ..runtime_float import RuntimeFloat
from ..tape import is_packed_outside
from ..tensor import Tensor, ViewInfo, rebinding, wrap
from .asking import Asking
from .begun import Begun
from .cuts import Cuts
from .deferred import Deferred
from .drawing import Drawing
from .fingerprint import fingerprint
from .handlers import in_handler, located_at, not_one_graph
from .materialise import run_segment
from .memory import Spans, overlaps_itself
from .placement import Placement
from .questions import Question, refusal
from .sources import (
    ArgumentSource,
    CapturedSource,
    GradSource,
    HostSource,
    NumberSource,
    Source,
    TensorSource,
    grad_of_its_own,
)
from .strides import MemoryLayout
from .surroundings import Surroundings


def _origin(t: Tensor) -> Tensor:
    """The tensor whose history that of `t` follows."""
    return t if t._view is None or t._view.origin is None else t._view.origin


class Outside:
    """What the trace knows of a tensor from outside: its slot, its value now, whether it was written."""

    __slots__ = ("slot", "tensor", "value", "written")

    def __init__(self, tensor: Tensor, slot: int | None, value: Value) -> None:
        self.tensor = tensor
        self.slot = slot
        self.value = value
        self.written = False


class Tracer(Asking, Drawing):
    """The state of one trace. `leaves` are those of the call's arguments."""

    reruns = False  # whether Python runs at each call, so that its effects happen
    serves = False  # whether the trace is to serve later calls
    numerics = "default"  # how machine code of the trace rounds: see `CompileOptions`

    def __init__(self, leaves: Sequence[Any], fullgraph: bool = False, name: str = "graph") -> None:
        arguments = {i: x for i, x in enumerate(leaves) if isinstance(x, Tensor)}
        self.name = name
        self.dump: str | None = None
        self.continued: Callable[[], Tracer | None] = lambda: None  # what takes over where this trace has to end
        self.reached: Sequence[Tensor] = ()  # tensors that the function reaches without them being arguments
        self.rebound = rebinding.count
        self.cuts = Cuts(self)
        self.deferred = Deferred()
        self.leaves = leaves
        self.builder = Builder()
        self.sources: list[Source] = []
        self.outside: dict[int, Outside] = {}
        self.grads: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.grad_guards: dict[int, tuple[TensorSource, TensorSource | None]] = {}
        self.lost: str | None = None  # an effect on what is outside that a replay would not have
        self.draws, self.varying = {}, {}
        self.touched: dict[int, tuple[Any, int]] = {}
        self.surroundings = Surroundings()
        self.host_values: dict[int, Any] = {}  # what Python's numbers were when the trace read them, by slot
        self.array_values: dict[int, Any] = {}  # the same for users' arrays
        self.broken: str | None = None
        self.broken_at: str | None = None
        self.is_over = False  # whether Python has gone on without this trace
        self.exact_numbers: frozenset[int] = frozenset()  # argument leaves that count as the numbers they are
        self.refused = False  # whether an op refused a value while the trace was going on
        self.fullgraph = fullgraph
        self._traced: list[weakref.ref[Tensor]] = []
        self._known: dict[int, Source] = {id(t): ArgumentSource(i) for i, t in reversed(arguments.items())}
        self._location: Any = None
        self.arrays: list[np.ndarray[Any, Any]] = []  # users' arrays that became tensors
        self._written, self._written_spans, self._spans = set[int](), Spans(), Spans(arguments.values())
        self.writes: list[tuple[int, Outside, Value]] = []  # after how many nodes, to what, its value then
        self.placement = Placement()
        self.met: dict[Value, Tensor] | None = None  # in a part that is computed again: the tensors of its operands
        self.casts: dict[Any, Any] = {}  # of parameters, by autocast: see `autocasting`
        self.scopes: dict[int, tuple[str, ...]] = {}  # of tape nodes, by their number: their gradients' scopes
        self.layout = MemoryLayout(self)
        self.begun = Begun(self)

    # values -------------------------------------------------------------------------------------------------

    def value(self, t: Tensor) -> Value:
        """The IR value a tensor has at this point of the trace."""
        data = t._data
        value: Value = data if data.__class__ is Value else self.state(t).value
        if self.met is not None:
            self.met.setdefault(value, t)
        return value

    def state(self, t: Tensor) -> Outside:
        """The table entry of a tensor from outside, made at its first use."""
        found = self.outside.get(id(t))
        if found is not None:
            return found
        root, chain = self.root(t)
        if root is not t:
            value = self._derive(self.state(root).value, chain)
            if root._requires_grad and not t._requires_grad:
                value = self.detached(value)
            entry = Outside(t, None, value)
        else:
            source = self._known.get(id(t)) or CapturedSource(t)
            entry = Outside(t, len(self.sources), self._slot(source, t.type_))
            self._spans.add(t)
            if any(t._data is array for array in self.arrays):
                self.array_values[len(self.sources) - 1] = t._data.copy()
        self.outside[id(t)] = entry
        return entry

    def root(self, t: Tensor) -> tuple[Tensor, tuple[Op, ...]]:
        """The tensor whose value stands for the memory of `t`, and the views from there to `t`.

        Arguments and gradients stand for themselves, even views: where they start in the base may differ at each call.
        """
        info = t._view
        if info is None or isinstance(self._known.get(id(t)), (ArgumentSource, GradSource)):
            return t, ()
        return info.base, info.ops

    def view_info(self, t: Tensor) -> ViewInfo | None:
        """How views of `t` are derived in this trace."""
        return None if self.root(t)[0] is t else t._view

    def _slot(self, source: Source, type: TensorType) -> Value:
        if isinstance(source, HostSource):
            self.host_values[len(self.sources)] = source.fetch(())
        value = self.builder.input(type)
        self.cuts.known[value] = len(self.sources)
        self.sources.append(source)
        return value

    def _derive(self, value: Value, chain: Sequence[Op]) -> Value:
        for op in chain:
            (value,) = self.emit(op, [value])
        return value

    def emit(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append a node, with the user's line."""
        self.builder.location = self._location or user_location()
        if type(op).value_checks is not Op.value_checks:
            for i, check in op.value_checks(*[v.type for v in operands]):
                operands = list(operands)
                operands[i] = self._checked(check, operands[i])
        return self.builder.emit(op, *operands)

    def _checked(self, check: Op, value: Value) -> Value:
        """`value` behind a check, which a number known now needs no longer, nor what has been checked so before.

        Gradients go past the check.
        """
        if value.type.numel == 0 or (value.node is not None and value.node.op is check):
            return value
        number = _number(value)
        if number is None and self.cuts_in_place and not self.fullgraph and in_handler():
            self._refuse_here(check, value)
            return value
        if number is None:
            seen = self.cuts.at_hand(value) if self.cuts_in_place else None
            if seen is not None:
                with located_at(self.builder.location):
                    check.reference(seen)  # so that Python does not go on as if it had been taken
            checked = self.builder(check, value)
            is_differentiable = value.type.dtype.is_differentiable
            return self.builder(WithHistory(), checked, value) if is_differentiable else checked
        with located_at(self.builder.location):
            check.reference(np.asarray(number, value.type.dtype.np))
        return value

    def _refuse_here(self, check: Op, value: Value) -> None:
        """Raise now what `check` raises of `value`, because the user's code may handle it."""
        why = "an error that the function may handle depends on values"
        if self.cuts.ask([value], Question(refusal, (check,)), why, user_location()) is not None:
            with located_at(self.builder.location):
                check.reference(on_host(self.cuts.array(self.cuts.known[value])))

    def add(self, a: Value, b: Value) -> Value:
        """The sum of two cotangents."""
        return self.emit(Add(), [a, b])[0]

    def note(self, tensors: Sequence[Tensor]) -> None:
        """These tensors hold values of this trace."""
        self._traced.extend(map(weakref.ref, tensors))

    def traced(self, value: Value) -> Tensor:
        """A tensor for `value`."""
        t = wrap(value)
        self.note((t,))
        return t

    def full(self, type: TensorType, number: Any) -> Tensor:
        """A tensor filled with a number."""
        return self.traced(self.emit(Full(type.shape, type.dtype, number, type.device), [])[0])

    def constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        """A tensor of numbers known to Python."""
        dtype = dtypes.FROM_NUMPY[array.dtype]
        if array.size == 1 and not dtype.is_complex:
            return self.full(TensorType(array.shape, dtype), array.item())
        return self.traced(self.emit(Constant(Literal(array)), [])[0])

    def lift(self, x: Any, type: TensorType) -> Value:
        """Saved data of a tape node as a value."""
        if x.__class__ is Value:
            return x  # type: ignore[no-any-return]
        if isinstance(x, (bool, int, float)):
            return self.emit(Full(type.shape, type.dtype, x, type.device), [])[0]
        raise InternalError("a tape node from outside reached the trace")

    @contextmanager
    def at(self, location: Any) -> Iterator[None]:
        """Nodes emitted inside carry this location."""
        before, self._location = self._location, location
        try:
            yield
        finally:
            self._location = before

    @contextmanager
    def module(self, *names: str) -> Iterator[None]:
        """Nodes emitted inside belong to the module of that name, or of the last of several nested ones."""
        before = self.builder.scope
        self.builder.scope = (*before, *names)
        try:
            yield
        finally:
            self.builder.scope = before

    # effects ------------------------------------------------------------------------------------------------

    def detached(self, value: Value) -> Value:
        """`value` without its gradient."""
        return self.emit(Detach(), [value])[0]

    def write(self, t: Tensor, value: Tensor) -> None:
        """`t` gets new contents; tensors that share its memory follow.

        Gradients see the write in `t`, its origin and the origin's views, if they see it at all: other tensors
        that share the memory, and all of them without recording, keep the history they had.
        """
        rebases = local.mode.grad and (value._requires_grad or t._requires_grad)
        root, chain = self.root(t)
        origin = _origin(t)
        seen = rebases and origin is root
        new = self.value(value)
        bare = new if seen or not value._requires_grad else self.detached(new)
        content = bare
        if chain:
            base = self.value(root)
            content = self.emit(
                WriteView(chain), [base if seen or not root._requires_grad else self.detached(base), bare]
            )[0]
        if rebases and not seen:
            assert t._view is not None
            views = t._view.origin_ops
            new = self.emit(WriteView(views), [self.value(origin), new])[0] if views else new
        for v in self.sharing(root):
            if rebases and _origin(v) is origin:
                ops = () if v is origin or v._view is None else v._view.origin_ops
                self._set(v, self._derive(content if seen else new, ops))
            else:
                self._set(v, self._unseen(v, self._derive(content, self.root(v)[1]), seen))
        if root._data.__class__ is not Value:
            state = self.state(root)
            state.written = True
            self.writes.append((len(self.builder.nodes), state, state.value))

    def sharing(self, root: Tensor) -> list[Tensor]:
        """The tensors of this trace whose memory is that of `root`, itself first."""
        storage = root._storage
        views = [] if storage is None else [v for ref in storage.views if (v := ref()) is not None]
        return [
            root,
            *[
                v
                for v in views
                if v is not root and (v._data.__class__ is Value or id(v) in self.outside) and self.root(v)[0] is root
            ],
        ]

    def _unseen(self, v: Tensor, value: Value, has_history: bool) -> Value:
        """The value of `v` after a write that its history does not show."""
        if v._requires_grad:
            return self.emit(WithHistory(), [value, self.value(v)])[0]
        return self.detached(value) if has_history else value

    def _set(self, v: Tensor, value: Value) -> None:
        if v._data.__class__ is Value:
            v._data = self.layout.as_of(value, v._data)
        else:
            state = self.state(v)
            state.value = self.layout.as_of(value, state.value)

    def ends_before(self, operands: Sequence[Tensor], op: Op | None = None) -> bool:
        """End the trace if one of these shares memory with a tensor whose writes are still pending here."""
        operands = [t for t in operands if t._data.__class__ is not Value or t._view is not None]  # not made here
        if self.placement.end_unless_takes(self, operands):
            return True
        if self.arrays and self.changed_array(operands):
            self.materialise("a NumPy array that became a tensor was changed")
            return True
        for root in [self.root(t)[0] for t in operands] if self._written else ():
            fresh = root._data.__class__ is not Value and id(root) not in self.outside
            if fresh and self._written_spans.meet(root):
                self.materialise("a tensor shares memory with one that was written in place")
                return True
        return False

    def changed_array(self, tensors: Sequence[Tensor]) -> bool:
        """Whether Python has written to an array behind one of these since it was read here."""
        for t in tensors:
            entry = self.outside.get(id(t))
            seen = None if entry is None or entry.slot is None else self.array_values.get(entry.slot)
            if seen is not None and seen.tobytes() != t._data.tobytes():
                return True
        return False

    def ends_before_write(self, t: Tensor) -> bool:
        """End the trace if a write to `t` would be seen by other tensors from outside that this trace reads."""
        root = self.root(t)[0]
        if root._data.__class__ is Value or id(root) in self._written:
            return False
        if self.placement.end_unless_takes(self, (root,)):
            return True
        if overlaps_itself(root._data):
            self.materialise("an in-place write reaches a tensor of which several elements share memory")
            return True
        if self._spans.meet(root):
            self.materialise("an in-place write reaches memory that another argument shares")
            return True
        self._written.add(id(root))
        self._written_spans.add(root)
        return False

    def ends_before_rebasing(self, t: Tensor) -> bool:
        """End the trace if a write to `t` gives a history to what an argument is a view of."""
        origin = _origin(t)
        if origin._data.__class__ is Value or origin._view is None:
            return False
        self.rebased(origin)
        return True

    def rebased(self, t: Tensor) -> None:
        """`t` is about to get a history; for a tensor from outside that ends the trace."""
        if t._data.__class__ is not Value:
            self.materialise("a tensor from outside was written in place and takes part in gradients")

    def read_grad(self, t: Tensor) -> Tensor | None:
        """`t.grad` at this point of the trace."""
        if id(t) in self.grads:
            return self.grads[id(t)][1]
        grad = t._grad
        if t._data.__class__ is not Value:
            self._guard_grad(t, grad)
        return grad  # type: ignore[no-any-return]

    def _guard_grad(self, t: Tensor, grad: Tensor | None) -> None:
        if id(t) in self.grad_guards:
            return
        source = self._tensor_source(t)
        known: TensorSource | None = None
        if grad is not None:
            entry = self.outside.get(id(grad))
            at = self._known.get(id(grad)) or (None if entry is None else CapturedSource(grad))
            known = at if isinstance(at, (ArgumentSource, CapturedSource, GradSource)) else grad_of_its_own
            if at is None:
                self._known[id(grad)] = GradSource(source)
        self.grad_guards[id(t)] = source, known

    def _tensor_source(self, t: Tensor) -> ArgumentSource | CapturedSource:
        source = self._known.get(id(t))
        return source if isinstance(source, ArgumentSource) else CapturedSource(t)

    def watch_hooks(self, t: Tensor) -> None:
        """Depend on the gradient hooks of a tensor from outside, which are about to be called."""
        if t._data.__class__ is not Value:
            self.surroundings.watch(t, "hooks of a tensor", lambda: fingerprint(list((t._hooks or {}).values())))

    def write_grad(self, t: Tensor, grad: Tensor | None) -> None:
        """`t.grad = grad`."""
        if t._data.__class__ is Value:
            t._grad = grad
        else:
            self.grads[id(t)] = (t, grad)

    def drop_grad(self, t: Tensor) -> None:
        """`t.grad = None`, whatever it is at a call."""
        self.write_grad(t, None)

    def touch(self, thing: Any) -> None:
        """The trace depends on a module or optimizer: it holds while `thing._epoch` stays."""
        if id(thing) not in self.touched:
            self.touched[id(thing)] = (thing, thing._epoch)
            self.surroundings.add(thing)

    def host_scalar(self, read: Callable[[], Any], dtype: DType, name: str) -> Tensor:
        """A 0-d tensor whose number `read()` gives anew at each call."""
        return self.traced(self._slot(HostSource(read, dtype.np, name), TensorType((), dtype)))

    def number(self, index: int) -> RuntimeFloat:
        """A float among the argument leaves as a number that each call gives."""
        t = self.traced(self._slot(NumberSource(index), TensorType((), dtypes.float64)))
        return RuntimeFloat(self, frozenset((index,)), t, self.leaves[index])

    # ends ---------------------------------------------------------------------------------------------------

    def live(self) -> list[Tensor]:
        """Tensors of this trace that something still holds."""
        found = {id(t): t for ref in self._traced if (t := ref()) is not None and t._data.__class__ is Value}
        return list(found.values())

    def before_backward(self, nodes: Sequence[Any]) -> None:
        """A tape begun before the trace is not captured: its residuals are arrays, not values."""
        for node in nodes:
            if any(isinstance(x, (np.ndarray, DeviceArray)) or is_packed_outside(x) for x in node.saved or ()):
                self.materialise("backward() reached operations recorded before the compiled function was called")
                return

    def dependencies(self) -> tuple[int, ...]:
        """How much the trace depends on so far; each number only ever grows."""
        written = sum(s.written for s in self.outside.values())
        kept = (self.sources, self.outside, self.touched, self.surroundings, self.grad_guards)
        return (*map(len, kept), written)

    def materialise(self, reason: str) -> None:
        """End the trace here: run what was captured, give every live tensor its data, and go on as `continued` says."""
        location = user_location()
        if self.fullgraph:
            raise self.broken_off(reason, (), location)
        self.is_over = True
        self.broken, self.broken_at = reason, str(location) if location else None
        local.mode.tracer = None
        run_segment(self)
        following = local.mode.tracer = self.continued()
        if following is not None:
            following.arrays = self.arrays

    def broken_off(self, reason: str, values: Sequence[Value], location: Any) -> CompileError:
        """What to raise where the whole function has to be one graph."""
        return not_one_graph(reason, values, location)


def _number(value: Value) -> Any:
    """The number that fills `value`, if that is known while tracing."""
    node = value.node
    while node is not None and isinstance(node.op, (BroadcastTo, Convert, Reshape)):
        node = node.operands[0].node
    return node.op.value if node is not None and isinstance(node.op, Full) else None
