"""Other shapes, orders and choices of elements, as the standard has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError

from .. import conversions
from ..errors import located
from ..functions import gathering, joining, positions, repeating, searching, sorting
from ..functions import shape as shapes
from ..functions.dims import normalize_dim, normalize_dims
from ..functions.pointwise import convert
from ..promotion import result_dtype
from ..tensor import Tensor
from .types import alike

__all__ = [
    "argsort", "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "nonzero",
    "permute_dims", "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze", "stack", "take", "take_along_axis",
    "tile", "unstack",
]  # fmt: skip


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """`x` with axes of length 1 repeated, and new ones in front."""
    return shapes.broadcast_to(x, shape)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays in their common shape."""
    return list(repeating.broadcast_tensors(*arrays)) if arrays else []


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The elements in row-major order in another shape; `copy=False` raises where memory can't be shared."""
    if copy is False:
        return shapes.view_method(x, *shape)
    made = shapes.reshape(x, tuple(shape))
    return conversions.clone(made) if copy else made


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after another along an axis, in their common dtype; flattened first without one."""
    if axis is None:
        return joining.cat([shapes.ravel(x) for x in alike(*arrays)], 0)
    if any(x.shape == (0,) for x in arrays) and any(x.ndim != 1 for x in arrays):
        raise located(ArgumentError("concat: the arrays have different numbers of dimensions"))
    return joining.cat(list(alike(*arrays)), axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis, in their common dtype."""
    arrays = alike(*arrays)
    dtype = result_dtype(*arrays)
    return joining.stack([convert(x, dtype) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """All places along an axis, as a tuple."""
    return joining.unbind(x, axis)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """With new axes of length 1 at these places of the result."""
    added = (axis,) if isinstance(axis, int) else axis
    rank = x.ndim + len(added)
    for a in sorted(normalize_dims(added, rank)):
        x = shapes.unsqueeze(x, a)
    return x


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without these axes, which must be of length 1."""
    axes = normalize_dims(axis, x.ndim)
    for a in axes:
        if x.ndim and x.shape[a] != 1:
            raise located(ArgumentError(f"squeeze: axis {a} has length {x.shape[a]}, not 1"))
    return shapes.squeeze(x, axes)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order."""
    return shapes.permute(x, tuple(axes))


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """The axes `source` at the places `destination`."""
    return shapes.movedim(x, source, destination)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The order reversed along these axes, or all."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return repeating.flip(x, axes)


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Elements moved on along these axes, or in the flat array; those that fall off come back in front."""
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return repeating.roll(x, shift, axis)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Every place along an axis, or of the flat array, repeated."""
    return repeating.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """Copies laid out along the axes."""
    return repeating.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The places along an axis that the indices name; of a vector without one."""
    if axis is None:
        if x.ndim != 1:
            raise located(ArgumentError("take: an axis is needed for arrays that are no vectors"))
        axis = 0
    at = normalize_dim(axis, x.ndim)
    taken = gathering.index_select(x, at, shapes.ravel(indices))
    return shapes.reshape(taken, (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements that the indices name along an axis, the others broadcast."""
    at = normalize_dim(axis, x.ndim)
    fixed = indices.where(indices >= 0, indices + x.shape[at])  # type: ignore[attr-defined, operator]
    return gathering.take_along_dim(x, convert(fixed, dtypes.int64), at)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, a vector per axis."""
    if x.ndim == 0:
        raise located(ArgumentError("nonzero: not allowed for 0-d arrays"))
    return positions.nonzero(x, as_tuple=True)  # type: ignore[no-any-return]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort along an axis; equal elements keep their order."""
    return sorting.argsort(x, axis, descending, stable=True)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along an axis."""
    return sorting.sort(x, axis, descending, stable=True)[0]


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where the elements of `x2` would have to be put into the sorted vector `x1`."""
    return searching.searchsorted(x1, x2, side=side, sorter=sorter)
