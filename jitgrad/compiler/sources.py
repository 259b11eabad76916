"""Where a compiled function's inputs come from at each call.

Tensors a function reaches are never constants of its graph: each is a slot, fetched anew on every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tensor import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class ArgumentSource:
    """Leaf number `index` of the call's arguments."""

    index: int

    def tensor(self, leaves: Sequence[Any]) -> Tensor:
        """The tensor of this call."""
        return leaves[self.index]  # type: ignore[no-any-return]

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """The data of this call."""
        return leaves[self.index]._data

    def __str__(self) -> str:
        return f"argument {self.index}"


@dataclass(frozen=True, eq=False, slots=True)
class CapturedSource:
    """A tensor reached through a module, an optimizer, a closure or a global."""

    captured: Tensor

    def tensor(self, leaves: Sequence[Any]) -> Tensor:
        """The captured tensor."""
        return self.captured

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """Its data now."""
        return self.captured._data

    def __str__(self) -> str:
        return f"captured {self.captured.type_}"


@dataclass(frozen=True, eq=False, slots=True)
class GradSource:
    """The `.grad` of another source's tensor."""

    of: ArgumentSource | CapturedSource

    def tensor(self, leaves: Sequence[Any]) -> Tensor:
        """The gradient tensor of this call."""
        grad = self.of.tensor(leaves)._grad
        assert grad is not None
        return grad  # type: ignore[no-any-return]

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """Its data now."""
        return self.of.tensor(leaves)._grad._data

    def __str__(self) -> str:
        return f"gradient of {self.of}"


@dataclass(frozen=True, eq=False, slots=True)
class HostSource:
    """A number that Python gives anew at each call: a learning rate, a generator's offset."""

    read: Callable[[], Any]
    dtype: Any
    name: str

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """The number as a 0-d array."""
        return np.asarray(self.read(), dtype=self.dtype)

    def __str__(self) -> str:
        return self.name


TensorSource = ArgumentSource | CapturedSource | GradSource
Source = TensorSource | HostSource

grad_of_its_own = ArgumentSource(-1)  # stands for a gradient that is not reached in another way as well
