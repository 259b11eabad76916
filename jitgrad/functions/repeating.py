"""Copies with elements repeated or in another order: `repeat`, `tile`, `flip`, `roll`, `rot90`, `meshgrid`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentTypeError, DimError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.indexing import IndexSelect
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.ops.slicing import Concat

from ..aliasing import copied, copy, view
from ..dispatch import apply, constant
from ..errors import located
from ..tensor import Size, Tensor, made_by_host, read_array
from .dims import normalize_dim, normalize_dims, sizes
from .joining import stretch
from .registry import public


@public(function=False)
def repeat(self: Tensor, *args: Any, repeats: Sequence[int] | None = None) -> Tensor:
    """Copies of the tensor laid out along its dims, and along new dims in front.

    >>> import jitgrad as jg
    >>> jg.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = sizes(args if repeats is None else (repeats,), "repeats")
    extra = len(counts) - self.ndim
    if extra < 0:
        raise located(
            ShapeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
        )
    if any(n < 0 for n in counts):
        raise located(ShapeError(f"repeat: negative counts in {list(counts)}"))
    shape = (1,) * extra + tuple(self.shape)
    if all(n == 1 for n in counts):
        return copied(Reshape(shape), self)
    spread = tuple(x for n in shape for x in (1, n))
    wide = tuple(x for count, n in zip(counts, shape, strict=True) for x in (count, n))
    repeated = view(BroadcastTo(wide), view(Reshape(spread), self))
    return copied(Reshape(tuple(count * n for count, n in zip(counts, shape, strict=True))), repeated)


@public()
def tile(input: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """`input.repeat(dims)`, where `dims` may be shorter than the tensor has dims.

    >>> import jitgrad as jg
    >>> jg.tile(jg.tensor([[1, 2]]), (2,))
    tensor([[1, 2, 1, 2]])
    """
    counts = sizes(args if dims is None else (dims,), "dims")
    return repeat(input, *(1,) * (input.ndim - len(counts)), *counts)


def _repeated(counts: Any, length: int) -> list[Any]:
    """Each number below `length` as often as `counts` says."""
    return [np.repeat(np.arange(length), counts)]


@public()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every place along `dim` (of the flat tensor, without one) repeated: `repeats` times, or as often as it says.

    >>> import jitgrad as jg
    >>> jg.tensor([1, 2]).repeat_interleave(jg.tensor([2, 1]))
    tensor([1, 1, 2])
    """
    if repeats is None:  # the tensor holds the counts
        return made_by_host(_repeated, (input,), input.shape[0])[0]
    if dim is None:
        input, dim = view(Reshape((input.type_.numel,)), input), 0
    axis = normalize_dim(dim, input.ndim)
    length = input.shape[axis]
    if isinstance(repeats, int):
        return _each_repeated(input, axis, repeats)
    if isinstance(repeats, Tensor):
        if repeats.dtype not in (dtypes.int64, dtypes.int32):
            raise located(DTypeError("repeats has to be Long or Int tensor"))
        counts = read_array(repeats)
        if counts.size not in (1, length):
            raise located(
                ShapeError(
                    f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and "
                    f"input.size({axis}) = {length}"
                )
            )
    else:
        counts = np.asarray(repeats)
    if (counts < 0).any():
        raise located(ShapeError("repeats can not be negative"))
    places = np.repeat(np.arange(length), counts.reshape(-1) if counts.size > 1 else int(counts.reshape(-1)[0]))
    return apply(IndexSelect(axis), input, constant(places, input))


def _each_repeated(x: Tensor, axis: int, count: int) -> Tensor:
    """Without a list of places, which would be another one at each length."""
    if count < 0:
        raise located(ShapeError("repeats can not be negative"))
    before, length, behind = tuple(x.shape[:axis]), x.shape[axis], tuple(x.shape[axis + 1 :])
    wide = view(BroadcastTo((*before, length, count, *behind)), view(Reshape((*before, length, 1, *behind)), x))
    return copied(Reshape((*before, length * count, *behind)), wide)


@public()
def flip(input: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """A copy with the order reversed along `dims`.

    >>> import jitgrad as jg
    >>> jg.flip(jg.tensor([[1, 2], [3, 4]]), (1,))
    tensor([[2, 1],
            [4, 3]])
    """
    axes = normalize_dims(sizes(args if dims is None else (dims,), "dims"), input.ndim)
    return copied(Flip(axes if input.ndim else ()), input)


@public()
def fliplr(input: Tensor) -> Tensor:
    """A copy with the order reversed along dim 1."""
    if input.ndim < 2:
        raise located(ShapeError("Input must be >= 2-d."))
    return flip(input, 1)


@public()
def flipud(input: Tensor) -> Tensor:
    """A copy with the order reversed along dim 0."""
    if input.ndim < 1:
        raise located(ShapeError("Input must be >= 1-d."))
    return flip(input, 0)


@public()
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved on along `dims`, those that fall off coming back in front; the flat tensor without dims.

    >>> import jitgrad as jg
    >>> jg.roll(jg.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    steps = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    if dims is None or dims == ():
        if len(steps) != 1:
            raise located(ShapeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0"))
        flat = view(Reshape((input.type_.numel,)), input)
        return copied(Reshape(tuple(input.shape)), _rolled(flat, int(steps[0]), 0))
    given = dims if isinstance(dims, (tuple, list)) else (dims,)
    if input.ndim == 0 and given:
        raise located(DimError(f"Dimension specified as {given[0]} but tensor has no dimensions"))
    if len(given) != len(steps):
        raise located(ShapeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(given)}"))
    out = input
    for step, dim in zip(steps, given, strict=True):
        out = _rolled(out, int(step), normalize_dim(dim, input.ndim))
    return out if out is not input else copy(input)


def _rolled(x: Tensor, step: int, axis: int) -> Tensor:
    if x.ndim == 0:
        return copy(x)
    length = x.shape[axis]
    if length == 0 or step == 0:  # other multiples of the length are no other case, so that one graph serves all
        return copy(x)
    at = length - step % length
    return apply(Concat(axis), stretch(x, axis, at, length - at), stretch(x, axis, 0, at))


@public()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned `k` times by 90 degrees in the plane of two dims, from the first to the second.

    >>> import jitgrad as jg
    >>> jg.rot90(jg.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise located(ShapeError(f"expected total rotation dims == 2, but got dims = {len(dims)}"))
    if input.ndim < 2:
        raise located(ShapeError(f"expected total dims >= 2, but got total dims = {input.ndim}"))
    a, b = normalize_dim(dims[0], input.ndim), normalize_dim(dims[1], input.ndim)
    if a == b:
        raise located(
            ShapeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
        )
    turns = k % 4
    if turns == 0:
        return copy(input)
    if turns == 2:
        return copied(Flip((a, b)), input)
    perm = list(range(input.ndim))
    perm[a], perm[b] = b, a
    if turns == 1:
        return copied(Permute(tuple(perm)), view(Flip((b,)), input))
    return copied(Flip((b,)), view(Permute(tuple(perm)), input))


@public(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinate grids out of vectors, with matrix ("ij") or Cartesian ("xy") order of dims.

    >>> import jitgrad as jg
    >>> jg.meshgrid(jg.arange(2), jg.arange(3), indexing="ij")[0]
    tensor([[0, 0, 0],
            [1, 1, 1]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise located(
            OperationError(f'jitgrad.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
        )
    if any(t.ndim > 1 for t in tensors):
        at = next(t for t in tensors if t.ndim > 1)
        raise located(ShapeError(f"jitgrad.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {at.shape}"))
    swap = indexing == "xy" and len(tensors) >= 2
    order = (1, 0, *range(2, len(tensors))) if swap else tuple(range(len(tensors)))
    shape = tuple(tensors[i].type_.numel for i in order)
    grids = []
    for i, t in enumerate(tensors):
        axis = order.index(i)
        line = view(Reshape(tuple(t.type_.numel if a == axis else 1 for a in range(len(shape)))), t)
        grids.append(view(BroadcastTo(shape), line))
    return tuple(grids)


@public(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of the tensors in their common shape.

    >>> import jitgrad as jg
    >>> a, b = jg.broadcast_tensors(jg.zeros(2, 1), jg.zeros(3))
    >>> b.shape
    jitgrad.Size([2, 3])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return tuple([t if t.shape == shape else view(BroadcastTo(tuple(shape)), t) for t in tensors])


@public(method=False)
def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of shapes aligned at their last dims.

    >>> import jitgrad as jg
    >>> jg.broadcast_shapes((2, 1), (3,))
    jitgrad.Size([2, 3])
    """
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if not all(isinstance(n, int) for s in given for n in s):
        raise located(ArgumentTypeError("broadcast_shapes: shapes must be tuples of ints"))
    rank = max(map(len, given), default=0)
    out = [1] * rank
    for s in given:
        for i, n in enumerate(s, rank - len(s)):
            if n not in (1, out[i]) and out[i] != 1:
                raise located(ShapeError(f"Shape mismatch: objects cannot be broadcast to a single shape: {given}"))
            out[i] = n if out[i] == 1 else out[i]
    return Size(out)
