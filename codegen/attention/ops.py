"""Attention as its kernels run it: ops of prepared graphs, in float32 and float64.

With `chosen`, numbers of the mask take the place of scores, where they are numbers. Unless `zeros`, a query that sees
no key gets what a softmax gives: nothing that is a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.op import op
from jitgrad.ir.ops.attention import AttentionGrad, AttentionLse
from jitgrad.ir.types import TensorType

from ..loops.tile import TileOp

Array = np.ndarray[Any, Any]


class _Attention(TileOp):
    scale: float
    causal: bool
    groups: int
    chosen: bool

    def _scores(self, q: Array, k: Array, mask: Sequence[Array]) -> Array:
        """Scores, masked by choice."""
        scores = np.matmul(q * q.dtype.type(self.scale), k.swapaxes(-1, -2))
        return np.where(np.isnan(mask[0]), scores, mask[0])


@op
class TileAttention(_Attention):
    """`AttentionLse`, by tiles."""

    scale: float
    causal: bool
    groups: int
    chosen: bool = False
    zeros: bool = True
    name = "tile_attention"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionLse`'s."""
        return AttentionLse(self.scale, self.causal, self.groups).infer(*operands)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """`AttentionLse`'s, but for what is chosen and for queries that see no key."""
        q, k, v, *mask = operands
        if self.chosen:
            rows = np.broadcast_to(np.eye(k.shape[-2], dtype=q.dtype), (*k.shape[:-1], k.shape[-2]))
            scores = self._scores(q, k, mask)
            y, lse = AttentionLse(1.0).reference(scores, rows, v)
        else:
            y, lse = AttentionLse(self.scale, self.causal, self.groups).reference(*operands)
        if not self.zeros:
            blind = lse == np.inf
            y, lse = np.where(blind[..., None], y.dtype.type(np.nan), y), np.where(blind, lse.dtype.type(np.nan), lse)
        return y, lse


@op
class TileAttentionGrad(_Attention):
    """`AttentionGrad`, by tiles; of the queries' gradient there are `strands` parts, to be added up."""

    scale: float
    causal: bool
    groups: int
    strands: int
    chosen: bool = False
    name = "tile_attention_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionGrad`'s, by strands."""
        q, k, v = AttentionGrad(self.scale, self.causal, self.groups).infer(*operands)
        return q.with_shape((self.strands, *q.shape)), k, v

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """All of it in the first strand."""
        if self.chosen:
            dq, dk, dv = self._by_choice(*operands)
        else:
            dq, dk, dv = AttentionGrad(self.scale, self.causal, self.groups).reference(*operands)
        parts = np.zeros((self.strands, *dq.shape), dq.dtype)
        parts[0] = dq
        return parts, dk, dv

    def _by_choice(
        self, q: Array, k: Array, v: Array, g: Array, lse: Array, delta: Array, mask: Array
    ) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            p = np.exp(self._scores(q, k, [mask]) - lse[..., None])
            ds = p * (np.matmul(g, v.swapaxes(-1, -2)) - delta[..., None])
            ds = np.where(np.isnan(mask), ds * ds.dtype.type(self.scale), ds.dtype.type(0))
        return np.matmul(ds, k), np.matmul(ds.swapaxes(-1, -2), q), np.matmul(p.swapaxes(-1, -2), g)


__all__ = ["TileAttention", "TileAttentionGrad"]
