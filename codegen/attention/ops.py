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
    dropout: float

    @property
    def whole(self) -> AttentionLse:
        """The op of a front end, of which this is a part or the whole."""
        return AttentionLse(self.scale, self.causal, self.groups, self.dropout)

    def _scores(self, q: Array, k: Array, mask: Sequence[Array]) -> Array:
        """Scores, masked by choice."""
        scores = np.matmul(q * q.dtype.type(self.scale), k.swapaxes(-1, -2))
        return np.where(np.isnan(mask[0]), scores, mask[0])

    def _dropped(self, weights: Array, random: Sequence[Array]) -> Array:
        """Weights, or their cotangents, with dropout."""
        return weights * self.whole.kept_reference(weights, random) if self.dropout else weights


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
    dropout: float = 0.0
    name = "tile_attention"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionLse`'s, and the share."""
        y, lse = self.whole.infer(*operands)
        return (y, lse) if self.zeros else (y, lse, lse)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """`AttentionLse`'s, or a softmax's."""
        q, k, v, *rest = operands
        mask, random = self.whole.split_rest(rest)
        if not self.zeros:
            return self._softmax(q, k, v, mask, random)
        op = self.whole
        if self.chosen:
            rows = np.broadcast_to(np.eye(k.shape[-2], dtype=q.dtype), (*k.shape[:-1], k.shape[-2]))
            op, operands = AttentionLse(1.0, False, 1, self.dropout), (self._scores(q, k, mask), rows, v, *random)
        found: tuple[Array, ...] = op.reference(*operands)
        return found

    def _softmax(
        self, q: Array, k: Array, v: Array, mask: Sequence[Array], random: Sequence[Array]
    ) -> tuple[Array, ...]:
        scores = self._scores(q, k, mask) if self.chosen else self.whole._scores_reference(q, k, mask)
        with np.errstate(all="ignore"):
            largest = scores.max(-1)
            p = np.exp(scores - largest[..., None])
            share = 1 / p.sum(-1)
            p = self._dropped(p * share[..., None], random)
            return np.matmul(p, self.whole._each_reference(v)), largest, share


@op
class TileAttentionGrad(_Attention):
    """`AttentionGrad`, by tiles, and memory for the queries' gradient in parts.

    That is added up from `strands` parts, for `rows` queries at a time; with one strand it is in one part, its own.
    """

    scale: float
    causal: bool
    groups: int
    strands: int
    rows: int
    chosen: bool = False
    dropout: float = 0.0
    name = "tile_attention_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionGrad`'s, and the parts."""
        q, k, v = AttentionGrad(self.scale, self.causal, self.groups, self.dropout).infer(*operands)
        parts = q.with_shape((self.strands, *q.shape[:-2], self.rows, q.shape[-1]))
        return (q, k, v) if self.strands == 1 else (q, k, v, parts)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """The gradients, and no parts."""
        if self.chosen:
            found = self._by_choice(*operands)
        else:
            found = AttentionGrad(self.scale, self.causal, self.groups, self.dropout).reference(*operands)
        if self.strands == 1:
            return found
        q = operands[0]
        return *found, np.zeros((self.strands, *q.shape[:-2], self.rows, q.shape[-1]), q.dtype)

    def _by_choice(
        self, q: Array, k: Array, v: Array, g: Array, lse: Array, delta: Array, mask: Array, *random: Array
    ) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            p = np.exp(self._scores(q, k, [mask]) - lse[..., None])
            ds = p * (self._dropped(np.matmul(g, v.swapaxes(-1, -2)), random) - delta[..., None])
            ds = np.where(np.isnan(mask), ds * ds.dtype.type(self.scale), ds.dtype.type(0))
            p = self._dropped(p, random)
        return np.matmul(ds, k), np.matmul(ds.swapaxes(-1, -2), q), np.matmul(p.swapaxes(-1, -2), g)


__all__ = ["TileAttention", "TileAttentionGrad"]
