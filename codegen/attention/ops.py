"""Attention as its kernels run it: ops of prepared graphs, in float32 and float64.

With `chosen`, numbers of the mask take the place of scores, where they are numbers. Unless `zeros`, all is as a softmax
has it: a query that sees no key gets nothing that is a number, and where all scores of a query are numbers like -1e9,
weights are right, which the logarithm of their sum can't tell.
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
    """`AttentionLse`, by tiles.

    Unless `zeros`, each query's largest score and its share [..., l] take the place of the logarithms: weights are
    `exp(scores - largest) * share`.
    """

    scale: float
    causal: bool
    groups: int
    chosen: bool = False
    zeros: bool = True
    name = "tile_attention"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionLse`'s, and the share."""
        y, lse = AttentionLse(self.scale, self.causal, self.groups).infer(*operands)
        return (y, lse) if self.zeros else (y, lse, lse)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """`AttentionLse`'s, or a softmax's."""
        q, k, v, *mask = operands
        if not self.zeros:
            return self._softmax(q, k, v, mask)
        if self.chosen:
            rows = np.broadcast_to(np.eye(k.shape[-2], dtype=q.dtype), (*k.shape[:-1], k.shape[-2]))
            scores = self._scores(q, k, mask)
            operands = scores, rows, v
        op = AttentionLse(1.0) if self.chosen else AttentionLse(self.scale, self.causal, self.groups)
        found: tuple[Array, ...] = op.reference(*operands)
        return found

    def _softmax(self, q: Array, k: Array, v: Array, mask: Sequence[Array]) -> tuple[Array, ...]:
        whole = AttentionLse(self.scale, self.causal, self.groups)
        scores = self._scores(q, k, mask) if self.chosen else whole._scores_reference(q, k, mask)
        with np.errstate(all="ignore"):
            largest = scores.max(-1)
            p = np.exp(scores - largest[..., None])
            share = 1 / p.sum(-1)
            return np.matmul(p * share[..., None], whole._each_reference(v)), largest, share


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
