"""What must hold, beyond the key of a call, for a specialisation to serve it.

Captured tensors are looked at again only when some tensor was rebound since (got other memory, another shape,
`requires_grad`, a hook); what they and the arguments share of memory, and whether gradients are there, at each call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arrays import Data, may_share_memory
from ..tensor import Tensor, rebinding
from .fingerprint import Same
from .memory import layout, owner
from .placement import MovedSource
from .sources import ArgumentSource, CapturedSource, GradSource, TensorSource, grad_of_its_own
from .surroundings import Surroundings

if TYPE_CHECKING:
    from .tracer import Tracer

Array = Data


class Guards:
    """The guards of what a trace depends on so far."""

    def __init__(self, tracer: Tracer) -> None:
        leaves = tracer.leaves
        self.touched = _outermost(tracer.touched)
        self.surroundings: Surroundings = tracer.surroundings.copy()
        sources = [s.of if isinstance(s, MovedSource) else s for s in tracer.sources]
        slots = [s for s in sources if isinstance(s, (ArgumentSource, CapturedSource, GradSource))]
        self.captured = [s.captured for s in slots if isinstance(s, CapturedSource)]
        self._views = [s.tensor for s in tracer.outside.values() if s.slot is None]
        self._ids = {id(t) for t in self.captured}
        self._moving: list[TensorSource] = [s for s in slots if not isinstance(s, CapturedSource)]
        written = {id(s.tensor) for s in tracer.outside.values() if s.written}
        self._writes = bool(written)
        self._written_grads = [s for s in slots if isinstance(s, GradSource) and id(s.tensor(leaves)) in written]
        roots = [t._view.base for t in self._views if t._view is not None]  # of views that are reached in other ways
        known = {id(t) for t in (*tracer.reached, *roots, *_held(tracer.touched.values()))}
        self._fixed = [(i, x) for i, x in enumerate(leaves) if isinstance(x, Tensor) and id(x) in known]
        self._grads = [(s, _grad_source(s.tensor(leaves)._grad, g, known)) for s, g in tracer.grad_guards.values()]
        self._rebound = tracer.rebound
        self._facts = self._find_facts()
        self._memory = self._find_memory()
        self._shared = self._find_shared(leaves)

    def hold(self, leaves: Sequence[Any]) -> bool:
        """Whether all of them hold for a call with these arguments."""
        for thing, epoch in self.touched:
            if thing._epoch != epoch:
                return False
        if self.surroundings.changed() is not None or not self._grads_hold(leaves):
            return False
        for i, t in self._fixed:
            if leaves[i] is not t:
                return False
        if self._rebound != rebinding.count and not self.captured_hold():
            return False
        return self._find_shared(leaves) == self._shared

    def captured_hold(self) -> bool:
        """Whether captured tensors are as they were, now that some tensor was rebound."""
        count = rebinding.count
        if self._find_facts() != self._facts:
            return False
        self._memory = self._find_memory()
        self._rebound = count
        return True

    def _grads_hold(self, leaves: Sequence[Any]) -> bool:
        """Whether the gradients that were there are there, and are what they were."""
        for source, known in self._grads:
            grad = source.tensor(leaves)._grad
            if grad is None:
                if known is not None:
                    return False
            elif known is None or (known is not grad_of_its_own and known.tensor(leaves) is not grad):
                return False
        return all(s.fetch(leaves).flags.c_contiguous for s in self._written_grads)

    # what is told of them ---------------------------------------------------------------------------------

    def changed_grads(self, leaves: Sequence[Any]) -> Iterator[tuple[TensorSource, str, str]]:
        """Tensors whose gradient is there and was not, or the other way round, or is another one."""
        for source, known in self._grads:
            grad = source.tensor(leaves)._grad
            if (grad is None) != (known is None):
                yield (source, "None", "a tensor") if known is None else (source, "a tensor", "None")
            elif known is not None and known is not grad_of_its_own and known.tensor(leaves) is not grad:
                yield source, "a tensor", "another tensor"

    def grads(self) -> list[tuple[TensorSource, bool]]:
        """Tensors whose gradient was asked for, and whether there was one."""
        return [(source, known is not None) for source, known in self._grads]

    def changed_facts(self) -> Iterator[tuple[Tensor, tuple[Any, ...], tuple[Any, ...]]]:
        """Captured tensors that are not as they were, with what was taken for granted and what is."""
        old, new = self._facts[0], self._find_facts()[0]  # type: ignore[index]
        yield from ((t, a, b) for t, a, b in zip(self.captured, old, new, strict=True) if a != b)

    def has_other_memory(self, leaves: Sequence[Any]) -> bool:
        """Whether what is the same tensor, or shares memory, is not what it was."""
        others = any(leaves[i] is not t for i, t in self._fixed)
        return others or self._find_facts() != self._facts or self._find_shared(leaves) != self._shared

    def _find_facts(self) -> Hashable:
        """What the trace took for granted of captured tensors."""
        tensors = [
            (t._data.shape, t._data.dtype, layout(t._data), t._requires_grad, bool(t._hooks)) for t in self.captured
        ]
        views = [(t._requires_grad, t._view and (Same(t._view.base), t._view.ops)) for t in self._views]
        by_owner = self._find_memory()
        return tensors, views, [tuple(i for i, _ in group) for group in by_owner.values()]

    def _find_memory(self) -> dict[int, list[tuple[int, Array]]]:
        """Captured arrays, each with its number, by who owns their memory."""
        found: dict[int, list[tuple[int, Array]]] = {}
        for i, t in enumerate(self.captured):
            found.setdefault(owner(t._data), []).append((i, t._data))
        return found

    def _find_shared(self, leaves: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Which arguments and gradients are captured tensors, or share memory with something that others write."""
        found: list[tuple[Any, ...]] = []
        seen: dict[int, list[tuple[int, Array]]] = {}
        for k, source in enumerate(self._moving):
            t = source.tensor(leaves)
            if id(t) in self._ids:
                found.append((k, "captured"))
            if not self._writes:
                continue
            array = t._data
            at = owner(array)
            if at in self._memory:
                found += [(k, i) for i, x in self._memory[at] if may_share_memory(array, x)]
            others = seen.setdefault(at, [])
            found += [(k, "with", i) for i, x in others if may_share_memory(array, x)]
            others.append((k, array))
        return found


def _grad_source(grad: Tensor | None, source: TensorSource | None, known: set[int]) -> TensorSource | None:
    """Where a gradient comes from; one that the function also reaches in another way has to stay the same."""
    return CapturedSource(grad) if source is grad_of_its_own and grad is not None and id(grad) in known else source


def _outermost(touched: Mapping[int, tuple[Any, int]]) -> tuple[tuple[Any, int], ...]:
    """Those that no other one contains: their counters tell the changes of all."""
    return tuple([(thing, epoch) for thing, epoch in touched.values() if not _is_inside(thing, touched)])


def _is_inside(thing: Any, others: Mapping[int, Any]) -> bool:
    found = [thing]
    for current in found:
        for ref in list(current._containers.values()):
            container = ref()
            if container is not None and container is not thing:
                if id(container) in others:
                    return True
                if all(container is not x for x in found):
                    found.append(container)
    return False


def _held(touched: Iterable[tuple[Any, int]]) -> Iterator[Tensor]:
    """Tensors that modules and optimizers hold."""
    for thing, _ in touched:
        for list_tensors in (getattr(thing, "parameters", None), getattr(thing, "buffers", None)):
            if callable(list_tensors):
                yield from list_tensors()
