"""Where a compiled function's inputs come from at each call.

Tensors a function reaches are never constants of its graph: each is a slot, fetched anew on every call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.errors import InternalError

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


@dataclass(frozen=True, eq=False, slots=True)
class NumberSource:
    """Leaf number `index` of the call's arguments, a Python float."""

    index: int
    name: str = "number"

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """The number of this call as a 0-d array."""
        return np.asarray(leaves[self.index], np.float64)

    def __str__(self) -> str:
        return f"number {self.index}"


@dataclass(frozen=True, eq=False, slots=True)
class MadeSource:
    """An array that the host makes from values of the trace at cut number `cut`: the places where a mask is true."""

    cut: int
    name: str = "made on the way"

    def fetch(self, leaves: Sequence[Any]) -> Any:
        """Only a replay that has got to the cut has it."""
        raise InternalError("an array that is made on the way was asked for before")

    def __str__(self) -> str:
        return f"made at cut {self.cut}"


TensorSource = ArgumentSource | CapturedSource | GradSource
Source = TensorSource | HostSource | NumberSource | MadeSource


def same_source(a: Any, b: Any) -> bool:
    """Whether two sources give the same at each call."""
    if a.__class__ is not b.__class__:
        return False
    match a:
        case ArgumentSource(index=index) | NumberSource(index=index):
            return bool(index == b.index)
        case CapturedSource(captured=captured):
            return captured is b.captured
        case GradSource(of=of):
            return same_source(of, b.of)
        case HostSource(read=read):
            return a.name == b.name and a.dtype == b.dtype and _same_function(read, b.read)
        case MadeSource(cut=cut):
            return bool(cut == b.cut)
    return same_source(a.of, b.of) and a.device == b.device


def _same_function(a: Any, b: Any) -> bool:
    """Whether two functions without arguments have the same code and see the same objects."""
    if isinstance(a, functools.partial) and isinstance(b, functools.partial):
        return _same_function(a.func, b.func) and _all_same(a.args, b.args) and not (a.keywords or b.keywords)
    if isinstance(a, types.FunctionType) and isinstance(b, types.FunctionType):
        cells = [[c.cell_contents for c in f.__closure__ or ()] for f in (a, b)]
        return a.__code__ is b.__code__ and _all_same(*cells) and _all_same(a.__defaults__ or (), b.__defaults__ or ())
    return a is b or a == b


def _all_same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y or (type(x) is type(y) is str and x == y) for x, y in zip(a, b, strict=True))


grad_of_its_own = ArgumentSource(-1)  # stands for a gradient that is not reached in another way as well
