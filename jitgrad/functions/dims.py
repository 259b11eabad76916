"""Dimension and size arguments: negative dims count from the end, and out of range is an `IndexError`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from jitgrad.ir.errors import ArgumentTypeError, DimError, ShapeError
from jitgrad.ir.symbols import SymbolicInt

from ..errors import located

__all__ = ["Dims", "located", "normalize_dim", "normalize_dims", "reduced_axes", "sizes"]

Dims = int | Sequence[int] | None


def _integer(value: Any, what: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise located(ArgumentTypeError(f"{what} must be an int, not {type(value).__name__}")) from None


def normalize_dim(dim: int, ndim: int, name: str = "dim") -> int:
    """`dim` as a number from 0 to `ndim - 1`; a 0-d tensor takes 0 and -1, as in PyTorch.

    >>> normalize_dim(-1, 3)
    2
    """
    axis = dim if dim.__class__ is int else _integer(dim, name)
    span = max(ndim, 1)
    if not -span <= axis < span:
        raise located(
            DimError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {axis})")
        )
    return axis % span


def normalize_dims(dims: int | Sequence[int], ndim: int, name: str = "dim") -> tuple[int, ...]:
    """`dims` as distinct numbers from 0 to `ndim - 1`, in the order given.

    >>> normalize_dims((-1, 0), 3)
    (2, 0)
    """
    given = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    axes = tuple([normalize_dim(d, ndim, name) for d in given])  # type: ignore[arg-type]
    if len(set(axes)) != len(axes):
        raise located(ShapeError(f"{name} appears multiple times in the list of dims: {list(given)}"))
    return axes


def reduced_axes(dim: Dims, ndim: int) -> tuple[int, ...]:
    """`dim` as sorted axes to reduce; None and no dims at all mean every axis, and 0-d tensors have none.

    >>> reduced_axes((-1, 0), 3)
    (0, 2)
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    axes = normalize_dims(dim, ndim)
    return tuple(sorted(axes)) if ndim else ()


def sizes(args: Sequence[Any], name: str = "size") -> tuple[int, ...]:
    """Lengths given one by one or as one sequence: `zeros(2, 3)` and `zeros((2, 3))`.

    >>> sizes((2, 3)), sizes(([2, 3],))
    ((2, 3), (2, 3))
    """
    given = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    return tuple([n if n.__class__ is int or isinstance(n, SymbolicInt) else _integer(n, name) for n in given])
