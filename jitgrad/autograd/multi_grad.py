"""Hooks on several gradients together, and what they ask: which pass backward is under way, and what it reaches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ..dispatch import edge
from ..errors import located
from ..tape import TapeNode
from ..tensor import Tensor
from . import engine
from .hooks import RemovableHandle, register_hook


class _Passes(threading.local):
    """The passes backward that are under way in this thread, the innermost last."""

    def __init__(self) -> None:
        self.open: list[BackwardPass] = []


_passes = _Passes()


class BackwardPass:
    """A call of `backward` or `grad` while it runs: from `outputs` to `targets`, or to all leaves if that is None."""

    __slots__ = ("_outputs", "_reached", "_targets", "notes")

    def __init__(self, outputs: Sequence[Tensor], targets: Sequence[Any] | None) -> None:
        self._outputs = outputs
        self._targets = targets
        self._reached: set[Any] | None = None
        self.notes: dict[Any, Any] = {}  # what hooks remember as long as it runs

    def __enter__(self) -> None:
        _passes.open.append(self)

    def __exit__(self, *exc: object) -> None:
        _passes.open.pop()

    def reaches(self, place: Any) -> bool:
        """Whether a gradient may come to a leaf or a node."""
        if self._reached is None:
            roots = [edge(t) for t in self._outputs]
            nodes = engine.collect(roots)
            if self._targets is not None:
                nodes = engine.towards(nodes, self._targets)
            edges = [*roots, *[e for node in nodes for e in node.edges]]
            leaves = {e for e in edges if isinstance(e, Tensor)}
            targets = set(leaves if self._targets is None else self._targets)
            self._reached = {*nodes, *(leaves & targets), *map(_place, targets - leaves)}
        return place in self._reached


def _place(e: Any) -> Any:
    return e[0] if isinstance(e, tuple) else e


class MultiHandle:
    """The handles of several hooks as one."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take all the hooks off."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all") -> MultiHandle:
    """Call `fn` once in each pass backward: when the gradients of all `tensors` that it reaches are known, or of any.

    With mode "all", `fn` gets a list of gradients, with None for tensors that are not reached; with "any", the first
    gradient. It cannot change them.

    >>> import jitgrad as jg
    >>> a, b, c = (jg.ones(1, requires_grad=True) for _ in range(3))
    >>> handle = jg.autograd.graph.register_multi_grad_hook((a, b, c), print)
    >>> (a * 2 + b * 3).sum().backward()
    [tensor([2.]), tensor([3.]), None]
    """
    if mode not in ("all", "any"):
        raise located(ArgumentError(f"Expects mode to be one of ('all', 'any') but got {mode}"))
    if mode == "any":
        hook = _First(fn)
        return MultiHandle([register_hook(t, hook) for t in tensors if t.requires_grad])
    collector = _Collector([_place(edge(t)) for t in tensors], fn)
    return MultiHandle([register_hook(t, collector.hook(i)) for i, t in enumerate(tensors)])


class _First:
    """A hook that passes on the first gradient of a pass."""

    def __init__(self, fn: Callable[[Any], None]) -> None:
        self._fn = fn

    def __call__(self, grad: Tensor) -> None:
        notes = _passes.open[-1].notes
        if self not in notes:
            notes[self] = True
            self._fn(grad)


class _Collector:
    """Waits for the gradients of several leaves and nodes, and passes them on together."""

    def __init__(self, places: Sequence[Tensor | TapeNode], fn: Callable[[Any], None]) -> None:
        self._places = places
        self._fn = fn

    def hook(self, i: int) -> Callable[[Tensor], None]:
        """The hook of place `i`."""

        def collect(grad: Tensor) -> None:
            now = _passes.open[-1]
            if self not in now.notes:
                now.notes[self] = [None] * len(self._places), sum(map(now.reaches, self._places))
            grads, expected = now.notes[self]
            grads[i] = grad
            if sum(g is not None for g in grads) == expected:
                self._fn(grads)

        return collect
