"""Distances and angles between vectors, and vectors of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import DTypeError, OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.arithmetic import Add, Div, Mul, Sub

from ...dispatch import constant
from ...errors import located
from ...functions.dims import normalize_dim
from ...functions.gathering import index_select
from ...functions.pointwise import broadcast, check_tensor, pointwise
from ...functions.reductions import sum
from ...functions.registry import public, write_out
from ...functions.shape import reshape
from ...hot_path import hot
from ...linalg.older import norm
from ...promotion import result_dtype
from ...tensor import Tensor


@hot
@public(method=False)
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The `p`-norm of `x1 - x2 + eps` over the last axis.

    >>> import jitgrad as jg
    >>> jg.pairwise_distance(jg.tensor([[3.0, 4.0]]), jg.zeros(1, 2))
    tensor([5.0000])
    """
    a, b = check_tensor(x1, "pairwise_distance"), check_tensor(x2, "pairwise_distance")
    difference = pointwise(Add(), pointwise(Sub(), a, b), eps)
    return norm(difference, p, -1, keepdim)


@hot
@public(method=False)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`, whose lengths are taken to be at least `eps`.

    >>> import jitgrad as jg
    >>> jg.cosine_similarity(jg.tensor([1.0, 0.0]), jg.tensor([1.0, 1.0]), dim=0)
    tensor(0.7071)
    """
    a, b = check_tensor(x1, "cosine_similarity"), check_tensor(x2, "cosine_similarity")
    dtype = result_dtype(a, b)
    if not dtype.is_differentiable:
        raise located(
            DTypeError(
                "expected common dtype to be floating point, yet common dtype is "
                f"{dtype.name}{operand_lines([a.type_, b.type_])}"
            )
        )
    a, b = broadcast("cosine_similarity", dtype, a, b)
    axis = normalize_dim(dim, a.ndim)
    return sum(pointwise(Mul(), _unit(a, axis, eps), _unit(b, axis, eps)), axis if a.ndim else None)


def _unit(x: Tensor, axis: int, eps: float) -> Tensor:
    """`x` over its length, at least `eps`; the bound is unseen by gradients, as in PyTorch."""
    length: Any = norm(x, 2.0, axis if x.ndim else None, keepdim=True)
    raised = (length.clamp_min(eps) - length).detach()
    return pointwise(Div(), x, length + raised)


@public(method=False)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The `p`-norm distances between all pairs of rows: (0, 1), (0, 2), ..., (1, 2), ...

    >>> import jitgrad as jg
    >>> jg.pdist(jg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    x: Any = check_tensor(input, "pdist")
    if x.ndim != 2:
        raise located(ShapeError(f"pdist only supports 2D tensors, got: {x.ndim}D"))
    if not x.dtype.is_floating_point:
        raise located(DTypeError(f"pdist only supports floating-point dtypes{operand_lines([x.type_])}"))
    if p < 0:
        raise located(OperationError("pdist only supports non-negative p values"))
    n = x.shape[0]
    first, second = np.triu_indices(n, 1)
    distances = norm(x.unsqueeze(1) - x.unsqueeze(0), float(p) if x.shape[1] else 2.0, -1)
    return index_select(reshape(distances, (n * n,)), 0, constant(first * n + second, x))


@hot
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """`x / max(norm(x), eps)` with the `p`-norm over `dim`.

    >>> import jitgrad as jg
    >>> jg.nn.functional.normalize(jg.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    x = check_tensor(input, "normalize")
    length: Any = norm(x, p, dim, keepdim=True)
    result = pointwise(Div(), x, length.clamp_min(eps))
    return result if out is None else write_out(result, out, "normalize")
