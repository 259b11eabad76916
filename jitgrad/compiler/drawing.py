"""The random numbers of a trace: counters of generators, each drawn from where the one before has stopped.

How many a call draws is known, but for what branches and loops in the graph draw; that is a value of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.graph import Value
from jitgrad.ir.types import TensorType

from ..tensor import Tensor
from .sources import HostSource

_SCALAR = TensorType((), dtypes.int64)


class Drawing:
    """The part of a tracer that draws."""

    draws: dict[int, tuple[Any, int, tuple[Value, Value]]]  # it, how many, seed and offset before the call
    varying: dict[int, Tensor]  # how many more, as the graph finds out

    def _slot(self, source: Any, type: TensorType) -> Value:
        raise NotImplementedError

    def full(self, type: TensorType, number: Any) -> Tensor:
        """A tensor filled with a number."""
        raise NotImplementedError

    def traced(self, value: Value) -> Tensor:
        """A tensor for `value`."""
        raise NotImplementedError

    def value(self, t: Tensor) -> Value:
        """The value of a tensor."""
        raise NotImplementedError

    def add(self, a: Value, b: Value) -> Value:
        """The sum."""
        raise NotImplementedError

    def random_state(self, generator: Any, draws: int) -> tuple[Tensor, Tensor]:
        """Seed and offset for a random op, which consumes `draws` steps of `generator` at each call."""
        key = id(generator)
        if key not in self.draws:
            seed = self._slot(HostSource(lambda: generator.seed_value, np.int64, "random seed"), _SCALAR)
            offset = self._slot(HostSource(lambda: generator.offset, np.int64, "random offset"), _SCALAR)
            self.draws[key] = (generator, 0, (seed, offset))
        _, used, (seed, offset) = self.draws[key]
        self.draws[key] = (generator, used + draws, (seed, offset))
        if key in self.varying:
            offset = self.add(offset, self.value(self.varying[key]))
        return self.traced(seed), self.traced(self.add(offset, self.value(self.full(_SCALAR, used))))

    def advance(self, generator: Any, taken: Tensor) -> None:
        """`taken` more are used up of a generator that was asked for its state."""
        before = self.varying.get(id(generator))
        self.varying[id(generator)] = taken if before is None else before + taken  # type: ignore[operator]

    def drawn(self) -> Iterator[tuple[Any, int, Tensor | None]]:
        """The generators, how many are drawn from each, and how many more."""
        for key, (generator, used, _) in self.draws.items():
            yield generator, used, self.varying.get(key)
