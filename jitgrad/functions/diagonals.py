"""Diagonals and triangles of matrices, and windows of an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Sub
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.comparison import Ge, Le
from jitgrad.ir.ops.creation import Full, Iota
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Diagonal, Slice
from jitgrad.ir.ops.windows import Windows
from jitgrad.ir.ops.write import WriteView

from ..aliasing import copied, view
from ..dispatch import apply, beside, constant
from ..errors import located
from ..hot_path import repeats
from ..known_views import known
from ..mode import local
from ..promotion import result_dtype
from ..tape import FIXED
from ..tensor import Tensor, wrap
from .dims import normalize_dim
from .pointwise import convert, filled
from .registry import public


@public()
@known
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of the elements whose indices along `dim2` and `dim1` differ by `offset`, as the last dim.

    >>> import jitgrad as jg
    >>> jg.tensor([[1, 2], [3, 4]]).diagonal()
    tensor([1, 4])
    """
    a, b = normalize_dim(dim1, input.ndim), normalize_dim(dim2, input.ndim)
    if a == b:
        raise located(ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}"))
    return view(Diagonal(offset, a, b), input)


@public(out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on a diagonal and zeros elsewhere; or of a matrix, a copy of that diagonal.

    >>> import jitgrad as jg
    >>> jg.diag(jg.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise located(ShapeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D"))
    return copied(Diagonal(diagonal, 0, 1), input)


@public()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dim put on a diagonal of the plane of two new dims, zeros elsewhere.

    >>> import jitgrad as jg
    >>> jg.diag_embed(jg.ones(3, 2)).shape
    jitgrad.Size([3, 2, 2])
    """
    rank = input.ndim + 1
    a, b = normalize_dim(dim1, rank), normalize_dim(dim2, rank)
    if a == b:
        raise located(ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}"))
    length = input.shape[-1] + abs(offset)
    rest = iter(input.shape[:-1])
    shape = tuple(length if axis in (a, b) else next(rest) for axis in range(rank))
    zeros = beside(apply(Full(shape, input.dtype, 0)), input)
    return apply(WriteView((Diagonal(offset, a, b),)), zeros, input)


@public()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all the elements on a diagonal."""
    return diag_embed(view(Reshape((input.type_.numel,)), input), offset)


def _triangle(input: Tensor, diagonal: int, upper: bool, name: str) -> Tensor:
    if input.ndim < 2:
        raise located(ShapeError(f"{name}: input tensor must have at least 2 dimensions"))
    plane, shape = tuple(input.shape[-2:]), tuple(input.shape)
    zeros = filled(shape, input.dtype, 0)
    if local.mode.tracer is None and isinstance(input._data, np.ndarray):
        below = np.tri(*plane, diagonal - upper, dtype=bool)
        kept = wrap(np.broadcast_to(~below if upper else below, shape))
        kept._storage = FIXED
        return apply(Where(), kept, input, zeros)
    offset = apply(Sub(), apply(Iota(plane, 1)), apply(Iota(plane, 0)))
    limit = apply(Full(plane, dtypes.int64, diagonal))
    kept = apply(BroadcastTo(shape), apply(Ge() if upper else Le(), offset, limit))
    kept._storage = FIXED
    return apply(Where(), kept, input, zeros)


@public(inplace=True, out="exact")
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, from a diagonal on; zeros below.

    >>> import jitgrad as jg
    >>> jg.triu(jg.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle(input, diagonal, True, "triu")


@public(inplace=True, out="exact")
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, up to a diagonal; zeros above.

    >>> import jitgrad as jg
    >>> jg.tril(jg.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(input, diagonal, False, "tril")


@public(method=False)
@repeats
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """The indices of the upper triangle of a matrix, a row for each dim.

    >>> import jitgrad as jg
    >>> jg.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return constant(np.stack(np.triu_indices(row, offset, col)).astype(dtype.np))


@public(method=False)
@repeats
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """The indices of the lower triangle of a matrix, a row for each dim.

    >>> import jitgrad as jg
    >>> jg.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return constant(np.stack(np.tril_indices(row, offset, col)).astype(dtype.np))


@public(function=False)
@known
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of the windows of `size` places along a dim, `step` apart, as a new last dim.

    >>> import jitgrad as jg
    >>> jg.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    if self.ndim == 0:
        return view(Reshape((1,)), self)
    axis = normalize_dim(dimension, self.ndim)
    if step <= 0:
        raise located(ShapeError(f"step is {step} but must be > 0"))
    if not 0 <= size <= self.shape[axis]:
        raise located(
            ShapeError(f"maximum size for tensor at dimension {axis} is {self.shape[axis]} but size is {size}")
        )
    return view(Windows((axis,), (size,), (step,), (1,)), self)


@public(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given matrices along its diagonal and zeros elsewhere, in their common dtype.

    >>> import jitgrad as jg
    >>> jg.block_diag(jg.tensor([[1]]), jg.tensor([[2, 3]]))
    tensor([[1, 0, 0],
            [0, 2, 3]])
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    for i, t in enumerate(given):
        if t.ndim > 2:
            raise located(
                OperationError(
                    f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions"
                )
            )
    dtype = result_dtype(*given)
    blocks = [convert(view(Reshape((1,) * (2 - t.ndim) + tuple(t.shape)), t), dtype) for t in given]
    shape = (sum(t.shape[0] for t in blocks), sum(t.shape[1] for t in blocks))
    out = beside(apply(Full(shape, blocks[0].dtype, 0)), blocks[0])
    row = column = 0
    for t in blocks:
        if local.mode.levels:  # a block may have samples that the others have not
            out = apply(WriteView((Slice((row, column), tuple(t.shape), (1, 1)),)), out, t)
        else:
            out[row : row + t.shape[0], column : column + t.shape[1]] = t  # type: ignore[index]
        row, column = row + t.shape[0], column + t.shape[1]
    return out
