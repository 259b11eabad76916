"""The level of `vmap`: tensors that stand for one sample and hold all of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from jitgrad.ir.batching import BatchedGraph, batched_op
from jitgrad.ir.errors import OperationError
from jitgrad.ir.op import Op, View
from jitgrad.ir.ops.random import RandomOp
from jitgrad.ir.types import TensorType

from ..aliasing import alias, copy, view, write
from ..dispatch import apply, apply_all
from ..errors import located
from ..levels import Level, LevelData, Outward, in_likeness
from ..memo import Memo
from ..tensor import Tensor, wrap
from .steps import Steps

Randomness = Literal["error", "different", "same"]


class OneByOne:
    """How often ops went through the samples one after the other, for want of a batching rule: `counts` by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, op: Op) -> None:
        """Count an op."""
        self.counts[op.name] += 1


one_by_one = OneByOne()


class _Rule:
    """What an op is for samples, for operands of some types."""

    __slots__ = ("graph", "is_mapped", "steps")

    def __init__(self, made: BatchedGraph) -> None:
        self.graph, self.is_mapped, self.steps = made.graph, made.is_mapped, Steps(made.graph)


_rules: Memo[_Rule] = Memo(limit=8192)


class Batched(LevelData):
    """All samples: `physical` has their axis in front if they are `batched`, else they are the same."""

    __slots__ = ("batched", "physical")

    level: BatchLevel

    def __init__(self, level: BatchLevel, physical: Tensor, batched: bool) -> None:
        data = physical._data
        super().__init__(level, data.shape[1:] if batched else data.shape, data.dtype)
        self.physical = physical
        self.batched = batched

    def outer(self) -> Tensor:
        """All samples."""
        return self.physical

    def values(self) -> Tensor:
        """What all samples have in common."""
        if self.batched:
            raise located(
                OperationError(
                    "vmap: the value of a Tensor was asked for (.item(), an `if` or `while` on it, its elements, or an "
                    "operation whose result's shape depends on them), but it has one for each sample; use jg.where, "
                    "or do this outside of vmap"
                )
            )
        return self.physical

    def copied(self) -> Batched:
        """A copy of all samples."""
        with Outward(self.level):
            return Batched(self.level, copy(self.physical), self.batched)

    def detached(self) -> Batched:
        """All samples detached."""
        with Outward(self.level):
            return Batched(self.level, alias(self.physical), self.batched)

    def __repr__(self) -> str:
        where = "0" if self.batched else "None"
        return f"BatchedTensor(lvl={self.level.depth}, bdim={where}, value={self.physical!r})"


class BatchLevel(Level):
    """One call of `vmap` for `size` samples."""

    def __init__(self, size: int, randomness: Randomness) -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness

    def lift(self, part: Tensor) -> Batched:
        """The same for all samples."""
        return Batched(self, part, False)

    def run(self, op: Op, data: Sequence[Any]) -> list[LevelData]:
        """By the op's batching rule."""
        parts, flags = [x.physical for x in data], tuple([x.batched for x in data])
        with Outward(self):
            if True not in flags:
                return [Batched(self, t, False) for t in apply_all(op, *parts)]
            rule = self._rule(op, [t.type_ for t in parts], flags)
            if rule.is_mapped:
                one_by_one.note(op)
            return [Batched(self, t, True) for t in rule.steps(parts)]

    def _rule(self, op: Op, types: Sequence[TensorType], flags: tuple[bool, ...]) -> _Rule:
        key = (op, tuple(types), flags, self.size)
        found = _rules.get(key)
        return _rules.add(key, _Rule(batched_op(op, types, flags, self.size))) if found is None else found

    def view(self, op: View, data: Any) -> tuple[LevelData, bool]:
        """The view of all samples, which may take several."""
        source = data.physical
        with Outward(self):
            shown = source
            nodes = self._rule(op, [source.type_], (True,)).graph.nodes if data.batched else ()
            for step in [node.op for node in nodes] if data.batched else [op]:
                shown = view(step, shown) if isinstance(step, View) else apply(step, shown)
        shares = shown._storage is not None and shown._storage is source._storage
        return Batched(self, shown, data.batched), shares

    def like(self, made: Tensor, data: Any) -> Tensor:
        """One for each sample, so that samples can be written to it."""
        if not data.batched:
            return made
        with Outward(self):
            whole = copy(made.expand(self.size, *made.shape))  # type: ignore[attr-defined]
            return wrap(Batched(self, in_likeness(whole, data.physical), True))

    def draw(self, op: RandomOp, outside: Callable[[Any], Tensor]) -> Tensor:
        """One draw for all samples, or one for each, as the user has said."""
        if self.randomness == "error":
            raise located(
                OperationError(
                    "vmap: called random operation while in randomness error mode. Use randomness='same' or "
                    "randomness='different', or draw outside of vmap"
                )
            )
        with Outward(self):
            if self.randomness == "same":
                return outside(op)
            made = Batched(self, outside(dataclasses.replace(op, shape=(self.size, *op.shape))), True)
        return wrap(made)

    def write(self, t: Tensor, value: Tensor, what: str, assigned: bool, uniform: bool) -> None:
        """All samples are written at once; what is the same for all can't get different contents."""
        there, coming = self.data_of(t), self.data_of(value)
        if coming.batched and not there.batched:
            raise located(
                OperationError(
                    f"vmap: {what} is not possible: the values differ from sample to sample, and the tensor that they "
                    "are written to is the same for all samples. Use an operation that is not in place, or make the "
                    "tensor from one of the samples (x.new_zeros(...), jg.zeros_like(x))"
                )
            )
        with Outward(self):
            source = coming.physical
            if there.batched and not coming.batched:
                source = source.expand(self.size, *source.shape)  # type: ignore[attr-defined]
            write(there.physical, source, what, assigned, uniform)

    def data_of(self, t: Tensor) -> Batched:
        """The tensor's data at this level."""
        data = t._data
        return data if isinstance(data, Batched) and data.level is self else self.lift(t)
