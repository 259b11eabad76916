"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.attention import Attention, AttentionLse
from jitgrad.ir.ops.comparison import Eq

from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...functions.comparison import choose
from ...functions.linalg import matmul
from ...functions.pointwise import check_tensor, expand, filled
from ...functions.reductions import all as all_of
from ...functions.repeating import broadcast_shapes
from ...hot_path import hot
from ...mode import local
from ...random import random_state
from ...tensor import Tensor
from .arguments import reshaped
from .dropout import check_probability, dropout
from .softmax import softmax


@hot
@autocasts("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """`softmax(scale query keyᵀ + mask) value` over the last two axes; a query that sees no key gets zeros.

    Shapes are [..., l, e], [..., s, e] and [..., s, d]. A bool mask tells which keys are seen; others are added.
    `is_causal` lets query i see the keys up to i. `scale` is 1 / √e if left out. With `enable_gqa`, groups of query
    heads (axis -3) share a head of keys and values. `dropout_p` drops weights, in evaluation too.

    >>> import jitgrad as jg
    >>> q = jg.zeros(1, 2, 2)
    >>> v = jg.tensor([[[1.0], [3.0]]])
    >>> jg.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    name = "scaled_dot_product_attention"
    q, k, v = (check_tensor(t, name) for t in (query, key, value))
    _check(q, k, v, attn_mask, is_causal)
    groups = _groups(q, k, v, name) if enable_gqa else 1
    mask = None if attn_mask is None else _additive(attn_mask, q.dtype)
    check_probability(dropout_p)
    by_ops = dropout_p > 0 and (bool(local.mode.levels) or q.device.type != "cpu")
    if enable_gqa and (groups == 1 or by_ops):
        groups, (k, v) = 1, (_for_each_query_head(t, q) for t in (k, v))
    q, k, v = _in_one_batch(q, k, v, mask, groups)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None and q.shape[-1] else 1.0 if scale is None else float(scale)
    if mask is not None:
        mask = reshaped(mask, (*(1,) * (q.ndim - mask.ndim), *mask.shape))
    if by_ops:
        return matmul(dropout(_weights(q, k, mask, factor, is_causal), dropout_p), v)
    operands = (q, k, v) if mask is None else (q, k, v, mask)
    recorded = local.mode.grad and any(t._requires_grad for t in operands)
    op = (AttentionLse if recorded else Attention)(factor, bool(is_causal), groups, float(dropout_p))
    random = random_state(None, math.prod(q.shape[:-1]) * k.shape[-2]) if dropout_p else ()
    return apply(op, *operands, *random)


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    if not q.dtype is k.dtype is v.dtype:
        raise located(
            OperationError(
                "Expected query, key, and value to have the same dtype, but got"
                f"{operand_lines([q.type_, k.type_, v.type_])}"
            )
        )
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise located(
            ShapeError(
                "Expected query, key, and value to all be at least 2 dimensional, but got"
                f"{operand_lines([q.type_, k.type_, v.type_])}"
            )
        )
    if is_causal and mask is not None:
        raise located(OperationError("Explicit attn_mask should not be set when is_causal=True"))
    if mask is not None and mask.dtype is not dtypes.bool_ and mask.dtype is not q.dtype:
        raise located(
            OperationError(
                f"Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: "
                f"{mask.dtype.name} and query.dtype: {q.dtype.name} instead."
            )
        )


def _groups(q: Tensor, k: Tensor, v: Tensor, name: str) -> int:
    """How many query heads share a head of keys and values."""
    _check_heads(k, q, name)
    _check_heads(v, q, name)
    return int(q.shape[-3] // k.shape[-3]) if k.shape[-3] == v.shape[-3] else 1


def _check_heads(t: Tensor, q: Tensor, name: str) -> None:
    if q.ndim < 3 or t.ndim < 3 or not t.shape[-3] or q.shape[-3] % t.shape[-3]:
        raise located(
            ShapeError(f"{name}: Number of heads in key and value must divide the number of heads in query"
                       f"{operand_lines([q.type_, t.type_])}")
        )  # fmt: skip


def _in_one_batch(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, groups: int) -> tuple[Tensor, ...]:
    """Queries, keys and values with equal axes in front, but for the heads that are shared."""

    def lead(t: Tensor) -> tuple[int, ...]:
        shape = tuple(t.shape[:-2])
        return shape if groups == 1 or t is q or t is mask else (*shape[:-1], shape[-1] * groups)

    batch = broadcast_shapes(*(lead(t) for t in (q, k, v, *(() if mask is None else (mask,)))))
    own = batch if groups == 1 else (*batch[:-1], batch[-1] // groups)
    return expand(q, (*batch, *q.shape[-2:])), *(expand(t, (*own, *t.shape[-2:])) for t in (k, v))


def _for_each_query_head(t: Tensor, q: Tensor) -> Tensor:
    """Heads of keys or values repeated, one for each of the queries'."""
    heads = q.shape[-3]
    *lead, own, length, width = t.shape
    spread = expand(reshaped(t, (*lead, own, 1, length, width)), (*lead, own, heads // own, length, width))
    return reshaped(spread, (*lead, heads, length, width))


def _additive(mask: Tensor, dtype: DType) -> Tensor:
    """0 where a bool mask holds, and minus infinity elsewhere; other masks as they are."""
    if mask.dtype is not dtypes.bool_:
        return mask
    return choose("attn_mask", mask, filled((), dtype, 0), filled((), dtype, -math.inf))


def _weights(q: Any, k: Any, mask: Tensor | None, scale: float, is_causal: bool) -> Tensor:
    """The weights of the values, computed op by op."""
    scores: Any = matmul(q * scale, k.mT)
    if mask is not None:
        scores = scores + mask
    if is_causal:
        rows, columns = scores.shape[-2:]
        seen = scores.new_ones(rows, columns, dtype=dtypes.bool_).tril()
        scores = choose("is_causal", seen, scores, filled((), scores.dtype, -math.inf))
    blind = all_of(apply(Eq(), scores, filled(tuple(scores.shape), scores.dtype, -math.inf)), -1, True)
    weights = softmax(choose("attention", blind, filled((), scores.dtype, 0), scores), -1)
    return choose("attention", blind, filled((), scores.dtype, 0), weights)
