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
from jitgrad.ir.ops.broadcast import BroadcastTo, accumulator_dtype
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.rewrite import Rules
from jitgrad.ir.types import TensorType

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
        tiles = TileAttention(op.scale, op.causal, op.groups, dropout=op.dropout)
        given, random = op.split_rest(node.operands)
        if not is_eligible(tiles, [v.type for v in given], self.target):
            return None
        dtype = node.operands[0].type.dtype
        q, k, v, *mask = _widened(b, given)
        y, lse = b.emit(tiles, q, k, v, *[stretched(b, m, q, k) for m in mask], *random)
        return [_converted(b, y, dtype), lse][: len(node.results)]

    def gradient(self, b: Builder, node: Node) -> Sequence[Value] | None:
        """The gradients of attention."""
        op = node.op
        assert isinstance(op, AttentionGrad)
        q = node.operands[0].type
        tiles = TileAttention(op.scale, op.causal, op.groups, dropout=op.dropout)
        given, random = op.split_rest(node.operands)
        types = [v.type for v in given]
        if not is_eligible(tiles, (*types[:3], *types[6:]), self.target):
            return None
        operands = _widened(b, given[:6])
        mask = [stretched(b, m, *operands[:2]) for m in _widened(b, given[6:])]
        grads = gradients_by_tiles(b, tiles, (*operands, *mask, *random), self.target)
        return [_converted(b, x, q.dtype) for x in grads]


def is_eligible(op: TileAttention, operands: Sequence[TensorType], target: TileTarget) -> bool:
    """Whether kernels take queries, keys and values of these types, and serve better than matrix products."""
    q, k, v = operands[:3]
    if q.shape[-2] < _FEWEST or not all(t.numel for t in (*operands, q.with_shape((*q.shape[:-1], v.shape[-1])))):
        return False
    if any(t.ndim < 2 or t.ndim != q.ndim or t.dtype is not q.dtype for t in (k, v)):
        return False
    wide = accumulator_dtype(q.dtype)
    types = q.with_dtype(wide), v.with_dtype(wide)
    grad = TileAttentionGrad(op.scale, op.causal, op.groups, 1, q.shape[-2], op.chosen)
    return all(block_lengths(x, *types, target) is not None for x in (op, grad))


def gradients_by_tiles(
    b: Builder, op: TileAttention, operands: Sequence[Value], target: TileTarget
) -> tuple[Value, ...]:
    """The gradients of attention in queries, keys and values; operands are `AttentionGrad`'s."""
    strands, rows = strands_of(operands[0].type, operands[1].type, target)
    grad = TileAttentionGrad(op.scale, op.causal, op.groups, strands, rows, op.chosen, op.dropout)
    return b.emit(grad, *operands)[:3]


def _widened(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Halves as float32."""
    return [_converted(b, v, accumulator_dtype(v.type.dtype)) for v in values]


def _converted(b: Builder, v: Value, dtype: DType) -> Value:
    return v if v.type.dtype is dtype else b(Convert(dtype), v)


def stretched(b: Builder, mask: Value, q: Value, k: Value) -> Value:
    """A mask with an element for each key, and with all outer axes or none."""
    outer = mask.shape[:-3]
    whole = q.shape[: len(outer)]
    shape = (*(whole if math.prod(outer) > 1 else outer), *mask.shape[-3:-1], k.shape[-2])
    return mask if mask.shape == shape else b(BroadcastTo(shape), mask)
