"""Vectors out of vectors' elements: `cartesian_prod`, `combinations`, and Vandermonde's matrix."""

from __future__ import annotations

import itertools

import numpy as np

from jitgrad.ir.errors import ShapeError
from jitgrad.ir.ops.indexing import IndexSelect
from jitgrad.ir.ops.shape import Reshape

from ..aliasing import view
from ..dispatch import apply, constant
from ..errors import located
from ..tensor import Tensor
from .joining import stack
from .pointwise import check_tensor
from .registry import public
from .repeating import meshgrid


@public(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """A row for each way to take one element of every vector; of a single vector, that vector.

    >>> import jitgrad as jg
    >>> jg.cartesian_prod(jg.tensor([1, 2]), jg.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    for t in given:
        if t.ndim != 1:
            raise located(ShapeError(f"Expect a 1D vector, but got shape {list(t.shape)}"))
    if len(given) == 1:
        return given[0]
    grids = meshgrid(*given, indexing="ij")
    return stack([g.reshape(-1) for g in grids], 1)  # type: ignore[attr-defined]


@public()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """A row for each way to take `r` elements of a vector, in their order; `with_replacement` takes some again.

    >>> import jitgrad as jg
    >>> jg.combinations(jg.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise located(ShapeError(f"Expect a 1D vector, but got shape {list(input.shape)}"))
    if r < 0:
        raise located(ShapeError(f"Expect a non-negative number, but got {r}"))
    if r == 0:
        return input[:0]  # type: ignore[index, no-any-return]
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.fromiter(itertools.chain.from_iterable(choose(range(input.shape[0]), r)), np.int64)
    chosen = apply(IndexSelect(0), input, constant(places, input))
    return view(Reshape((len(places) // r, r)), chosen)


@public(method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns, from the `N - 1`-th down to the 0-th, or up if `increasing`.

    >>> import jitgrad as jg
    >>> jg.vander(jg.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    check_tensor(x, "vander")
    if x.ndim != 1:
        raise located(ShapeError("x must be a one-dimensional tensor."))
    count = x.shape[0] if N is None else N
    if count < 0:
        raise located(ShapeError("N must be non-negative."))
    wide = x.new_ones((x.shape[0], count))  # type: ignore[attr-defined]
    if x.dtype.kind in ("int", "bool"):
        wide = wide.long()
    if count > 1:
        wide[:, 1:] = x.unsqueeze(-1)  # type: ignore[attr-defined]
    powers: Tensor = wide.cumprod(1)
    return powers if increasing else powers.flip(1)  # type: ignore[attr-defined, no-any-return]
