"""Distances between tensors and between rows, and bounds on norms."""

from __future__ import annotations

import math

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Sub
from jitgrad.ir.ops.comparison import Gt
from jitgrad.ir.ops.select import Where

from ..dispatch import apply
from ..errors import located
from ..functions.dims import normalize_dim
from ..functions.joining import cat
from ..functions.linalg import matmul
from ..functions.pointwise import broadcast, check_tensor, convert, expand, filled, pointwise
from ..functions.registry import public
from ..functions.statistics import root
from ..tensor import Tensor
from .arguments import mT, no_batch_mismatch, reshaped
from .norms import vector_norm, vector_norm_of

_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
_FEW_ROWS = 25  # up to so many, distances are summed up one by one, which is more exact


@public()
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The `p`-norm of `input - other`.

    >>> import jitgrad as jg
    >>> jg.dist(jg.tensor([3.0, 0.0]), jg.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(pointwise(Sub(), input, other), float(p))


def _check_rows(x1: Tensor, x2: Tensor, p: float, compute_mode: str) -> None:
    for name, x in (("X1", x1), ("X2", x2)):
        if check_tensor(x, "cdist").ndim < 2:
            raise located(ShapeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D"))
        if not x.dtype.is_floating_point:
            raise located(DTypeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype.name}"))
    if x1.shape[-1] != x2.shape[-1]:
        raise located(
            ShapeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
        )
    if p < 0:
        raise located(OperationError("cdist only supports non-negative p values"))
    if compute_mode not in _MODES:
        raise located(ArgumentError(f"{compute_mode} is not a valid value for compute_mode"))


@public(method=False)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The `p`-norm distances between each row of `x1` and each row of `x2`; batch dims broadcast.

    Euclidean distances among more than 25 rows go through a matrix product, which is fast and less exact, unless
    `compute_mode` says otherwise. Gradients are 0 at distance 0.

    >>> import jitgrad as jg
    >>> jg.cdist(jg.tensor([[0.0, 0.0]]), jg.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    _check_rows(x1, x2, p, compute_mode)
    dtype = dtypes.promote(x1.dtype, x2.dtype)
    x, y = no_batch_mismatch("cdist", convert(x1, dtype), convert(x2, dtype))
    many = max(x.shape[-2], y.shape[-2]) > _FEW_ROWS
    if p == 2 and (compute_mode == _MODES[1] or (compute_mode == _MODES[0] and many)):
        return _by_product(x, y)
    *batch, n, width = x.shape
    m = y.shape[-2]
    left = expand(reshaped(x, (*batch, n, 1, width)), (*batch, n, m, width))
    right = expand(reshaped(y, (*batch, 1, m, width)), (*batch, n, m, width))
    if not width:
        return filled((*batch, n, m), dtype, 0).clone()  # type: ignore[attr-defined, no-any-return]
    return vector_norm_of(apply(Sub(), left, right), float(p), (len(batch) + 2,), False)


def _by_product(x: Tensor, y: Tensor) -> Tensor:
    """`sqrt(|x|² - 2 x·y + |y|²)`, as one matrix product."""
    sizes = [(t * t).sum(-1, keepdim=True) for t in (x, y)]  # type: ignore[operator]
    ones = [filled(tuple(s.shape), s.dtype, 1) for s in sizes]
    left = cat([x * -2, sizes[0], ones[0]], -1)  # type: ignore[operator]
    squares = matmul(left, mT(cat([y, ones[1], sizes[1]], -1)))
    return root(squares.clamp(min=0))  # type: ignore[attr-defined]


@public(inplace=True, out=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along `dim`, those scaled down whose `p`-norm is larger than `maxnorm`.

    >>> import jitgrad as jg
    >>> jg.renorm(jg.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    x = check_tensor(input, "renorm")
    if isinstance(p, complex):
        raise located(OperationError("renorm: p must be real-valued"))
    if p <= 0:
        raise located(OperationError("renorm: non-positive-norm not supported"))
    if maxnorm < 0:
        raise located(OperationError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}"))
    if x.ndim < 2:
        raise located(ShapeError(f"renorm: input needs at least 2 dimensions, got {x.ndim} dimensions"))
    axis = normalize_dim(dim, x.ndim)
    wide = convert(x, dtypes.float32) if x.dtype.itemsize == 2 else x
    size = vector_norm(wide, math.inf if p == math.inf else float(p), [a for a in range(x.ndim) if a != axis], True)
    shape = tuple(size.shape)
    limit = filled(shape, size.dtype, maxnorm)
    scale = limit / (size + 1e-7)  # type: ignore[operator]
    factor = apply(Where(), apply(Gt(), size, limit), scale, filled(shape, size.dtype, 1))
    wide, factor = broadcast("renorm", wide.dtype, wide, factor)
    return convert(wide * factor, x.dtype)  # type: ignore[operator]
