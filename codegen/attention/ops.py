"""Attention as its kernels run it: ops of prepared graphs, in float32 and float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.op import op
from jitgrad.ir.ops.attention import AttentionGrad, AttentionLse
from jitgrad.ir.types import TensorType

from ..loops.tile import TileOp

Array = np.ndarray[Any, Any]


@op
class TileAttention(TileOp):
    """`AttentionLse`, by tiles."""

    scale: float
    causal: bool
    groups: int
    name = "tile_attention"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionLse`'s."""
        return AttentionLse(self.scale, self.causal, self.groups).infer(*operands)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """`AttentionLse`'s."""
        found: tuple[Array, ...] = AttentionLse(self.scale, self.causal, self.groups).reference(*operands)
        return found


@op
class TileAttentionGrad(TileOp):
    """`AttentionGrad`, by tiles; of the queries' gradient there are `strands` parts, to be added up."""

    scale: float
    causal: bool
    groups: int
    strands: int
    name = "tile_attention_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`AttentionGrad`'s, by strands."""
        q, k, v = AttentionGrad(self.scale, self.causal, self.groups).infer(*operands)
        return q.with_shape((self.strands, *q.shape)), k, v

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """All of it in the first strand."""
        dq, dk, dv = AttentionGrad(self.scale, self.causal, self.groups).reference(*operands)
        parts = np.zeros((self.strands, *dq.shape), dq.dtype)
        parts[0] = dq
        return parts, dk, dv


__all__ = ["TileAttention", "TileAttentionGrad"]
