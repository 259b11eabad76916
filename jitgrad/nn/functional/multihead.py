"""Multi-head attention as a layer computes it: projections, heads, masks, attention, and the output's projection."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import OperationError, PreconditionError, ShapeError

from ...errors import located
from ...functions.comparison import choose
from ...functions.joining import cat
from ...functions.linalg import bmm
from ...functions.pointwise import check_tensor, expand, filled
from ...tensor import Tensor
from .arguments import reshaped
from .attention import scaled_dot_product_attention
from .dropout import dropout
from .linear import linear
from .padding import pad
from .softmax import softmax


def _insist(condition: bool, message: str) -> None:
    if not condition:
        raise located(PreconditionError(message))


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Queries, keys and values projected, attended to by `num_heads` heads, and projected.

    Inputs are [length, batch, embed] or [length, embed]. Masks that are bool tell what is *not* seen, others are
    added: `key_padding_mask` [batch, s] or [s], `attn_mask` [l, s] or [batch heads, l, s]. Returns the output, shaped
    like the query, and the weights [batch, l, s] (for each head if not `average_attn_weights`), or None.

    >>> import jitgrad as jg
    >>> x, w = jg.ones(2, 4), jg.eye(4)
    >>> y, p = jg.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, jg.cat([w, w, w]), None, None, None, False, 0.0, w, None
    ... )
    >>> y.shape, p
    (jitgrad.Size([2, 4]), tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]]))
    """
    is_batched = _check_ranks(query, key, value, key_padding_mask, attn_mask)
    if not is_batched:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))  # type: ignore[attr-defined]
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)  # type: ignore[attr-defined]
    target, batch, width = query.shape
    _insist(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    _insist(width % num_heads == 0, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise located(OperationError("Need attn_mask if specifying the is_causal hint."))
    padding = _canonical_mask(key_padding_mask, "key_padding_mask", query.dtype)
    causal = is_causal and padding is None and not need_weights
    mask = _fitting(None if causal else _canonical_mask(attn_mask, "attn_mask", query.dtype),
                    target, key.shape[0], batch * num_heads)  # fmt: skip
    separate = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else None
    q, k, v = _projected([query, key, value], in_proj_weight, separate, in_proj_bias)
    extra = [(bias_k, bias_v)] if bias_k is not None and bias_v is not None else []
    for more in extra:
        k, v = (cat([t, m.repeat(1, batch, 1)]) for t, m in zip((k, v), more, strict=True))
    q, k, v = (_heads(t, given, batch, num_heads) for t, given in ((q, None), (k, static_k), (v, static_v)))
    if add_zero_attn:
        k, v = (pad(t, (0, 0, 0, 1)) for t in (k, v))
    wider = len(extra) + bool(add_zero_attn)
    mask = _merged(_widened(mask, wider), _widened(padding, wider), num_heads)
    out, weights = _attended(q, k, v, mask, dropout_p if training else 0.0, causal, need_weights, num_heads)
    result = linear(reshaped(out, (target * batch, width)), out_proj_weight, out_proj_bias)
    result = reshaped(result, (target, *((batch,) if is_batched else ()), result.shape[1]))
    if weights is None:
        return result, None
    weights = weights.mean(1) if average_attn_weights else weights
    return result, weights if is_batched else weights.squeeze(0)


def _check_ranks(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, mask: Tensor | None) -> bool:
    """Whether there is a batch."""
    rank = check_tensor(q, "multi_head_attention_forward").ndim
    _insist(rank in (2, 3), f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    _insist(
        k.ndim == v.ndim == rank, f"For a {rank}-D query, key and value must be {rank}-D, not {k.ndim} and {v.ndim}"
    )
    if padding is not None:
        _insist(padding.ndim == rank - 1, f"For a {rank}-D query, key_padding_mask must be {rank - 1}-D")
    if mask is not None:
        _insist(mask.ndim in (2, 3), f"attn_mask must be None, 2-D or 3-D but found {mask.ndim}-D tensor instead")
    return rank == 3


def _canonical_mask(mask: Tensor | None, name: str, dtype: DType) -> Tensor | None:
    """An additive mask; a bool one tells which keys are not seen."""
    if mask is None:
        return None
    _insist(mask.dtype is dtypes.bool_ or mask.dtype.is_floating_point,
            f"only bool and floating types of {name} are supported, not {mask.dtype.name}")  # fmt: skip
    if mask.dtype is not dtypes.bool_:
        return mask
    return choose(name, mask, filled((), dtype, -math.inf), filled((), dtype, 0))


def _fitting(mask: Tensor | None, target: int, source: int, heads: int) -> Tensor | None:
    """The mask as [heads, l, s], where heads may be 1."""
    if mask is None:
        return None
    want = (target, source) if mask.ndim == 2 else (heads, target, source)
    if tuple(mask.shape) != want:
        raise located(
            ShapeError(f"The shape of the {mask.ndim}D attn_mask is {list(mask.shape)}, but should be {list(want)}.")
        )
    return reshaped(mask, (1, *want)) if mask.ndim == 2 else mask


def _projected(
    inputs: list[Tensor], packed: Tensor | None, separate: list[Tensor | None] | None, bias: Tensor | None
) -> list[Tensor]:
    _, key, value = inputs
    if separate is None:
        _insist(key.shape == value.shape, f"key shape {list(key.shape)} does not match value shape {list(value.shape)}")
        _insist(packed is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        weights: list[Any] = list(packed.chunk(3))  # type: ignore[union-attr]
    else:
        _insist(key.shape[:2] == value.shape[:2], "key's sequence and batch dims do not match value's")
        _insist(all(w is not None for w in separate), "use_separate_proj_weight is True but a weight is None")
        weights = separate
    biases: list[Any] = [None] * 3 if bias is None else list(bias.chunk(3))  # type: ignore[attr-defined]
    return [linear(t, w, b) for t, w, b in zip(inputs, weights, biases, strict=True)]


def _heads(t: Any, given: Tensor | None, batch: int, heads: int) -> Any:
    """[length, batch, embed] as [batch heads, length, width of a head]; or what is given in its place."""
    if given is None:
        return reshaped(t, (t.shape[0], batch * heads, t.shape[2] // heads)).transpose(0, 1)  # type: ignore[attr-defined]
    _insist(
        given.ndim == 3 and given.shape[0] == batch * heads,
        f"expecting static keys and values of {batch * heads} heads",
    )
    return given


def _widened(mask: Tensor | None, count: int) -> Tensor | None:
    """The mask with more keys, that are seen."""
    return mask if mask is None or not count else pad(mask, (0, count))


def _merged(mask: Any, padding: Any, heads: int) -> Any:
    """Both masks as one."""
    if padding is None:
        return mask
    batch, source = padding.shape
    spread = expand(reshaped(padding, (batch, 1, 1, source)), (batch, heads, 1, source))
    spread = reshaped(spread, (batch * heads, 1, source))
    return spread if mask is None else mask + spread


def _attended(
    q: Any, k: Any, v: Any, mask: Any, dropout_p: float, causal: bool, need_weights: bool, heads: int
) -> tuple[Tensor, Any]:
    """The heads' outputs side by side, [l, batch, embed], and the weights [batch, heads, l, s] if needed."""
    count, target, width = q.shape
    batch, source = count // heads, k.shape[1]
    if need_weights:
        scores = bmm(q * math.sqrt(1.0 / width), k.mT)
        weights = softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, dropout_p) if dropout_p > 0 else weights
        out, seen = bmm(weights, v), reshaped(weights, (batch, heads, target, source))
    else:
        q, k, v = (reshaped(t, (batch, heads, *t.shape[1:])) for t in (q, k, v))
        if mask is not None:
            mask = reshaped(mask, (1, *mask.shape) if mask.shape[0] == 1 else (batch, heads, *mask.shape[1:]))
        out, seen = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal), None
    by_head: Any = reshaped(out, (batch, heads, target, v.shape[-1]))
    return reshaped(by_head.permute(2, 0, 1, 3), (target, batch, heads * v.shape[-1])), seen
