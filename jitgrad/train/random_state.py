"""The state of everything that training draws random numbers from."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..random import Generator, default_generator
from ..tensor import Tensor


@dataclass(frozen=True)
class RandomState:
    """Where the streams of jitgrad, NumPy and `random` are, and those of a loader's own generators.

    >>> import jitgrad as jg
    >>> state = RandomState.of()
    >>> first = jg.rand(())
    >>> state.restore()
    >>> bool(first == jg.rand(()))
    True
    """

    default: Tensor
    numpy: Any
    python: Any
    loader: list[Tensor]

    @classmethod
    def of(cls, loader: Any = None) -> RandomState:
        """The state now."""
        own = [generator.get_state() for generator in _generators(loader)]
        return cls(default_generator.get_state(), np.random.get_state(), random.getstate(), own)

    def restore(self, loader: Any = None) -> None:
        """Go on from here. `loader` has as many generators as the one whose state this is."""
        default_generator.set_state(self.default)
        np.random.set_state(self.numpy)
        random.setstate(self.python)
        for generator, state in zip(_generators(loader), self.loader, strict=True):
            generator.set_state(state)


def _generators(loader: Any) -> list[Generator]:
    """The generators of a loader and of its samplers, each once."""
    found: list[Generator] = []
    pending = [loader]
    while pending:
        x = pending.pop()
        if isinstance(x, Generator) and x is not default_generator and not any(x is g for g in found):
            found.append(x)
        pending += [getattr(x, name, None) for name in ("generator", "sampler", "batch_sampler") if x is not None]
    return found
