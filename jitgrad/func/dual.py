"""The level of forward mode: tensors that hold a primal and a tangent."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import AutogradError
from jitgrad.ir.graph import Value
from jitgrad.ir.op import Op, View
from jitgrad.ir.tangents import Pushforward, pushforward

from ..aliasing import alias, copy, storage_of, view, views, write
from ..dispatch import apply_all
from ..errors import located
from ..levels import Level, LevelData, Outward, in_likeness, innermost
from ..memo import Memo
from ..mode import local
from ..tape import Storage
from ..tensor import Tensor, ViewInfo, wrap
from .steps import Steps


class _Rule:
    """The tangents of an op's results, for operands of some types."""

    __slots__ = ("flows", "steps")

    def __init__(self, made: Pushforward) -> None:
        self.flows, self.steps = made.flows, Steps(made.graph)


_rules: Memo[_Rule] = Memo(limit=8192)


class Dual(LevelData):
    """A primal and its tangent, which has its shape and dtype; None for zero."""

    __slots__ = ("primal", "tangent")

    level: DualLevel

    def __init__(self, level: DualLevel, primal: Tensor, tangent: Tensor | None) -> None:
        super().__init__(level, primal._data.shape, primal._data.dtype)
        self.primal = primal
        self.tangent = tangent

    def outer(self) -> Tensor:
        """The primal."""
        return self.primal

    def values(self) -> Tensor:
        """The primal."""
        return self.primal

    def copied(self) -> Dual:
        """Copies of both."""
        with Outward(self.level):
            return Dual(self.level, copy(self.primal), None if self.tangent is None else copy(self.tangent))

    def detached(self) -> Dual:
        """The primal alone, detached."""
        with Outward(self.level):
            return Dual(self.level, alias(self.primal), None)


class DualLevel(Level):
    """One call of a forward-mode transform."""

    def dual(self, primal: Tensor, tangent: Tensor) -> Tensor:
        """A tensor of this level."""
        made = wrap(Dual(self, primal, tangent))
        made._storage = storage_of(primal)
        self.note((made,))
        return made

    def lift(self, part: Tensor) -> Dual:
        """A constant: its tangent is zero."""
        return Dual(self, part, None)

    def data_of(self, t: Tensor) -> Dual:
        """The tensor's data at this level."""
        data = t._data
        return data if isinstance(data, Dual) and data.level is self else self.lift(t)

    def run(self, op: Op, data: Sequence[Any]) -> list[LevelData]:
        """`op` of the primals, and the tangents by the transpose of its gradient rule."""
        primals = [x.primal for x in data]
        active = tuple([x.tangent is not None and x.tangent.dtype.is_differentiable for x in data])
        with Outward(self):
            results = apply_all(op, *primals)
            tangents: list[Any] = [None] * len(results)
            if True in active and op.differentiable:
                rule = self._rule(op, primals, active)
                given = [x.tangent for x, has in zip(data, active, strict=True) if has]
                found = iter(rule.steps([*primals, *results, *given]))
                tangents = [next(found) if flows else None for flows in rule.flows]
        return [Dual(self, r, t) for r, t in zip(results, tangents, strict=True)]

    def _rule(self, op: Op, primals: Sequence[Tensor], active: tuple[bool, ...]) -> _Rule:
        types = tuple([t.type_ for t in primals])
        key = (op, types, active)
        found = _rules.get(key)
        return _rules.add(key, _Rule(pushforward(op, types, active))) if found is None else found

    def view(self, op: View, data: Any) -> tuple[LevelData, bool]:
        """The view of both."""
        with Outward(self):
            primal = view(op, data.primal)
            tangent = None if data.tangent is None or not op.differentiable else view(op, data.tangent)
        shares = primal._storage is not None and primal._storage is data.primal._storage
        return Dual(self, primal, tangent), shares

    def write(self, t: Tensor, value: Tensor, what: str, assigned: bool, uniform: bool) -> None:
        """Both are written; what had no tangent gets one, and so do the tensors that share its memory."""
        coming = self.data_of(value)
        if coming.tangent is not None:
            self._track(t if t._view is None else t._view.base, coming.tangent)
        there = self.data_of(t)
        with Outward(self):
            write(there.primal, coming.primal, what, assigned, uniform)
            if there.tangent is not None:
                tangent = there.tangent.new_zeros(()) if coming.tangent is None else coming.tangent  # type: ignore[attr-defined]
                there.tangent.copy_(tangent)  # type: ignore[attr-defined]

    def _track(self, root: Tensor, like: Tensor) -> None:
        """Give the owner of some memory, and the views of it, a tangent to which one like `like` can be written."""
        known = self.data_of(root)
        before = known.tangent
        if before is not None and innermost((like._data,)) in (None, innermost((before._data,))):
            return
        if local.mode.tracer is not None and known.primal is root and root._data.__class__ is not Value:
            raise located(
                AutogradError(
                    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call an "
                    "in-place operation that would mutate a captured Tensor. This is not supported; please rewrite "
                    "the function being transformed to explicitly accept the mutated Tensor(s) as inputs."
                )
            )
        primal = _stand_in(root, None) if known.primal is root else known.primal
        with Outward(self):
            tangent: Any = in_likeness(primal.new_zeros(tuple(primal.shape)), like)  # type: ignore[attr-defined]
            if before is not None:
                tangent.copy_(before)
        root._data = Dual(self, primal, tangent)
        for ref in storage_of(root).views:
            v = ref()
            if v is None or v._view is None or v._view.base is not root:
                continue
            at = self.data_of(v)
            shown = _stand_in(v, primal) if at.primal is v else at.primal
            with Outward(self):
                v._data = Dual(self, shown, views(v._view.ops, tangent))


def _stand_in(t: Tensor, base: Tensor | None) -> Tensor:
    """A tensor that is what `t` was one level further out; `base` is that of the one that `t` is a view of."""
    old = wrap(t._data)
    old._node, old._index, old._requires_grad = t._node, t._index, t._requires_grad
    if local.mode.tracer is not None and not isinstance(old._data, LevelData):
        local.mode.tracer.note((old,))
    if base is None:
        old._storage, t._storage = storage_of(t), Storage()
        t._storage.views, old._storage.views = old._storage.views, []
    else:
        info = t._view
        assert info is not None
        origin = None if info.origin is None else base
        old._view = ViewInfo(base, info.ops, origin, info.origin_ops if origin is not None else ())
        old._storage = storage_of(base)
        old._storage.views.append(weakref.ref(old))
    t._node, t._index, t._requires_grad = None, 0, False
    return old
