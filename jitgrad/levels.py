"""Functional transforms under way: what tensors hold inside `vmap` and forward mode, and who applies ops to that.

Each call of such a transform is a *level*. Inside, a tensor's data may be a `LevelData`: it looks like the data of one
sample, or of a primal, and its parts are tensors as they are one level further out. An op goes to the innermost level
that one of its operands belongs to, which applies ops to the parts in turn: to levels further out, to the tape, and in
the end to arrays or to the graph being traced. So transforms compose in any order.

The tape inside a level is that level's alone: what its nodes keep is `LevelData`, and what is recorded further out is
recorded for the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.op import Op, View
from jitgrad.ir.types import Device, TensorType

from .backend import DEVICE_DTYPES
from .mode import local

if TYPE_CHECKING:
    from .tensor import Tensor


class LevelData:
    """What a tensor of a level has where others have an array.

    Its dtype objects equal NumPy's and are others, so that the fast path passes by.
    """

    __slots__ = ("__weakref__", "dtype", "level", "shape")

    __array_ufunc__ = None  # NumPy's functions raise TypeError
    base = None

    def __init__(self, level: Level, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.level = level
        self.shape = shape
        self.dtype = DEVICE_DTYPES[dtype]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def type(self) -> TensorType:
        """The IR type."""
        return TensorType(self.shape, dtypes.FROM_NUMPY[self.dtype])

    @property
    def device(self) -> Device:
        """Where the parts are."""
        return self.outer().device

    def outer(self) -> Tensor:
        """The part that has the numbers: of all samples, or the primal."""
        raise NotImplementedError

    def values(self) -> Tensor:
        """A tensor further out with exactly the elements of this one; raises if there are several samples."""
        raise NotImplementedError

    def copied(self) -> LevelData:
        """The same in memory of its own."""
        raise NotImplementedError

    def detached(self) -> LevelData:
        """The same without what derivatives know of it, further out too."""
        raise NotImplementedError


class Level:
    """One call of a transform. `below` are the levels around it."""

    apply_function: ClassVar[Callable[..., Any]]  # custom functions here; set by who knows of those

    def __init__(self) -> None:
        mode = local.mode
        self.below: tuple[Level, ...] = mode.levels
        self.depth = len(self.below) + 1
        self.outer_grad: bool = mode.outer_grad
        self.alive = True

    def __enter__(self) -> Level:
        mode = local.mode
        mode.levels, mode.outer_grad = (*self.below, self), True
        mode.transforms += 1
        return self

    def __exit__(self, *exc: object) -> None:
        mode = local.mode
        mode.levels, mode.outer_grad = self.below, self.outer_grad
        mode.transforms -= 1
        self.alive = False

    def lift(self, part: Tensor) -> LevelData:
        """A tensor from further out as a constant of this level."""
        raise NotImplementedError

    def run(self, op: Op, data: Sequence[Any]) -> list[LevelData]:
        """The results of `op`; nothing is recorded at this level."""
        raise NotImplementedError

    def view(self, op: View, data: Any) -> tuple[LevelData, bool]:
        """What the view `op` shows, and whether that shares memory."""
        raise NotImplementedError

    def note(self, made: Sequence[Tensor]) -> None:
        """These are tensors of this level."""

    def like(self, made: Tensor, data: Any) -> Tensor:
        """A new tensor in the likeness of one that has this level's `data`."""
        return made

    def draw(self, op: Any, outside: Callable[[Any], Tensor]) -> Tensor:
        """What the random op draws; `outside` draws one level further out."""
        with Outward(self):
            return outside(op)

    def write(self, t: Tensor, value: Tensor, what: str, assigned: bool, uniform: bool) -> None:
        """Replace the contents of `t` by those of `value`, one of which is of this level; nothing is recorded at it."""
        raise NotImplementedError


class Outward:
    """Inside, ops are as they are one level further out: they record if that is on there as well as it is here."""

    __slots__ = ("_before", "_level")

    def __init__(self, level: Level) -> None:
        self._level = level

    def __enter__(self) -> None:
        mode = local.mode
        self._before = mode.levels, mode.grad, mode.outer_grad
        mode.levels, mode.grad = self._level.below, mode.grad and mode.outer_grad
        mode.outer_grad = self._level.outer_grad

    def __exit__(self, *exc: object) -> None:
        mode = local.mode
        mode.levels, mode.grad, mode.outer_grad = self._before


def innermost(data: Iterable[Any]) -> Level | None:
    """The innermost level that some of these data belong to."""
    found: Level | None = None
    for x in data:
        if isinstance(x, LevelData) and (found is None or x.level.depth > found.depth):
            found = x.level
    return found


def has_samples(t: Tensor) -> bool:
    """Whether a tensor has a value for each sample of some `vmap`, not one."""
    while isinstance(t._data, LevelData):
        whole = t._data.outer()
        if whole.ndim != t.ndim:
            return True
        t = whole
    return False


def in_likeness(made: Any, t: Any) -> Any:
    """What a function of creation has made in the likeness of its first argument: one for each sample of that."""
    data = getattr(t, "_data", None)
    if not isinstance(data, LevelData) or not hasattr(made, "_data") or innermost((made._data,)) is data.level:
        return made
    return data.level.like(made, data)


__all__ = ["Level", "LevelData", "Outward", "has_samples", "in_likeness", "innermost"]
