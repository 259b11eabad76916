"""Which attention runs by tile kernels: rules tried before an op is decomposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir.builder import Builder
from jitgrad.ir.dtypes import DType
from jitgrad.ir.graph import Node, Value
from jitgrad.ir.ops.attention import Attention, AttentionGrad, AttentionLse
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum, accumulator_dtype
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.rewrite import Rules

from ..conv.target import TileTarget
from .launch import block_lengths, strands_of
from .ops import TileAttention, TileAttentionGrad

_FEWEST: Final = 8  # queries: fewer fill too few lanes


def attention_rules(target: TileTarget) -> Rules:
    """Rules that turn attention into tile ops for a machine."""
    rules = Rules()
    lowering = _Lowering(target)
    rules(Attention)(lowering.forward)
    rules(AttentionLse)(lowering.forward)
    rules(AttentionGrad)(lowering.gradient)
    return rules


@dataclass(frozen=True, slots=True)
class _Lowering:
    target: TileTarget

    def forward(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """Attention, with its logarithms or without."""
        op = node.op
        assert isinstance(op, Attention | AttentionLse)
        tiles = TileAttention(op.scale, op.causal, op.groups)
        if not self._is_eligible(tiles, node):
            return None
        dtype = node.operands[0].type.dtype
        q, k, v, *mask = _widened(b, node.operands)
        y, lse = b.emit(tiles, q, k, v, *[_stretched(b, m, q, k) for m in mask])
        return [_converted(b, y, dtype), lse][: len(node.results)]

    def gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """The gradients of attention."""
        op = node.op
        assert isinstance(op, AttentionGrad)
        q, k = (x.type for x in node.operands[:2])
        wide = accumulator_dtype(q.dtype)
        strands = strands_of(q.with_dtype(wide), k, self.target)
        tiles = TileAttentionGrad(op.scale, op.causal, op.groups, strands)
        if not self._is_eligible(tiles, node):
            return None
        dtype = q.dtype
        *operands, lse, delta = _widened(b, node.operands[:6])
        mask = [_stretched(b, m, *operands[:2]) for m in _widened(b, node.operands[6:])]
        parts, dk, dv = b.emit(tiles, *operands, lse, delta, *mask)
        dq = b(Sum((0,)), parts) if strands > 1 else b(Reshape(parts.shape[1:]), parts)
        return [_converted(b, x, dtype) for x in (dq, dk, dv)]

    def _is_eligible(self, op: TileAttention | TileAttentionGrad, node: Node) -> bool:
        q, _, v = (x.type for x in node.operands[:3])
        if q.shape[-2] < _FEWEST or not all(x.type.numel for x in (*node.operands, *node.results)):
            return False
        if any(m.ndim > 4 and len(set(m.shape[:-3])) > 1 and m.shape[:-3] != q.shape[:-3] for m in node.operands):
            return False
        wide = accumulator_dtype(q.dtype)
        return block_lengths(op, q.with_dtype(wide), v.with_dtype(wide), self.target) is not None


def _widened(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Halves as float32."""
    return [_converted(b, v, accumulator_dtype(v.type.dtype)) for v in values]


def _converted(b: Builder, v: Value, dtype: DType) -> Value:
    return v if v.type.dtype is dtype else b(Convert(dtype), v)


def _stretched(b: Builder, mask: Value, q: Value, k: Value) -> Value:
    """A mask with an element for each key, and with all outer axes or none."""
    outer = mask.shape[:-3]
    whole = q.shape[: len(outer)]
    shape = (*(whole if math.prod(outer) > 1 else outer), *mask.shape[-3:-1], k.shape[-2])
    return mask if mask.shape == shape else b(BroadcastTo(shape), mask)
