"""From attention and its gradients to their launches, with their run-time numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from jitgrad.ir.graph import Node
from jitgrad.ir.ops.random import least_word
from jitgrad.ir.tracked import always_equal
from jitgrad.ir.types import TensorType

from ..conv.target import TileTarget
from ..loops.attention import ATTENTION, ATTENTION_GRAD, ATTENTION_SLOTS, STRANDS_SUM, AttentionKernel
from ..lower.kernel_builder import Launch
from .ops import TileAttention, TileAttentionGrad

MOST_SCRATCH_BYTES: Final = 384 << 10
_TILES: Final = 2  # of queries or keys in a block: what they share stays in a core's first cache
_KEYS: Final = 128  # in a block of the forward kernel
_ROWS: Final = 8
_VECTORS: Final = 2
_STRANDS: Final = 16  # tasks to be had, if keys are so many
_QUERIES_AT_A_TIME: Final = 512  # in strands: some for each of a strand's keys, and little memory
_EXPONENTIAL: Final = 16  # what a weight costs beside products
_RANDOM: Final = 100  # what a random number costs


def block_lengths(
    op: TileAttention | TileAttentionGrad, q: TensorType, v: TensorType, target: TileTarget
) -> tuple[int, int] | None:
    """The queries and the keys in a block; None where none would fit onto a thread's stack."""
    tile = _VECTORS * target.lanes(q.dtype)
    widths = q.shape[-1] + v.shape[-1]
    for tiles in (_TILES, 1):
        block = tiles * tile
        if isinstance(op, TileAttention):
            elements = block * (widths + 2) + _KEYS * tile
            found = block, _KEYS
        else:
            elements = block * (widths + 2 * block)
            found = block, block
        if elements * q.dtype.itemsize <= MOST_SCRATCH_BYTES:
            return found
    return None


def strands_of(q: TensorType, k: TensorType, target: TileTarget) -> tuple[int, int]:
    """The parts in which the gradient in queries is added up, and for how many queries at a time.

    From shapes alone, so that bits are.
    """
    heads = max(1, math.prod(k.shape[:-2]))
    block = _TILES * _VECTORS * target.lanes(q.dtype)
    blocks = -(-k.shape[-2] // block)
    strands = 1 if always_equal(blocks, 1) else max(1, min(-(-_STRANDS // heads), blocks))
    return strands, q.shape[-2] if strands == 1 else min(q.shape[-2], _QUERIES_AT_A_TIME)


def attention_launches(node: Node, op: TileAttention | TileAttentionGrad, target: TileTarget) -> list[Launch]:
    """One launch; of gradients in strands two for so many queries at a time.

    Tasks are blocks of queries of a head, or strands of a head of keys. A gradient of one strand has the sum of several
    beside it, with nothing to do: the kernel is there for other sizes.
    """
    whole = _launch(node, op, target)
    if isinstance(op, TileAttention):
        return [whole]
    q = node.operands[0].type
    total = AttentionKernel(STRANDS_SUM, q.dtype, 1, 1, target.lanes(q.dtype), 1)
    if op.strands == 1:
        dq, dk, _ = node.results
        return [whole, Launch(total, (dk, dq), whole.slots, (), 0, 0, "sum of strands")]
    dq, dk, dv, parts = node.results
    heads = math.prod(q.shape[:-2])
    found = []
    for first in range(0, q.shape[-2], op.rows):
        last = min(first + op.rows, q.shape[-2])
        slots = _replaced(whole.slots, {"first_query": first, "last_query": last, "goes_on": int(first > 0)})
        operations = whole.operations * (last - first) // q.shape[-2]
        operands = *node.operands, parts, dk, dv
        found.append(dataclasses.replace(whole, operands=operands, slots=slots, operations=operations))
        operations = op.strands * heads * (last - first) * q.shape[-1]
        found.append(Launch(total, (parts, dq), slots, (), heads, operations, f"sum of {op.strands} strands"))
    return found


def _replaced(slots: tuple[int, ...], numbers: dict[str, int]) -> tuple[int, ...]:
    named = dict(zip(ATTENTION_SLOTS, slots, strict=True)) | numbers
    return tuple(named.values())


def _launch(node: Node, op: TileAttention | TileAttentionGrad, target: TileTarget) -> Launch:
    """All of it at once."""
    operands = [v.type for v in node.operands]
    q, k, v = operands[:3]
    is_forward = isinstance(op, TileAttention)
    mask, _ = op.whole.split_rest(operands[3 if is_forward else 6 :])
    lengths = block_lengths(op, q, v, target)
    assert lengths is not None
    lanes = target.lanes(q.dtype)
    rows = max(r for r in range(1, _ROWS + 1) if (r + 1) * _VECTORS + 1 <= target.registers)
    kernel = AttentionKernel(
        ATTENTION if is_forward else ATTENTION_GRAD, q.dtype, rows, _VECTORS, lanes, 1,
        mask="" if not mask else "keys" if mask[0].shape[-2] == 1 and is_forward else "full", is_causal=op.causal,
        is_chosen=op.chosen, gives_zeros=not isinstance(op, TileAttention) or op.zeros,
        is_whole=not is_forward and not any(x.shape[-1] % (_VECTORS * lanes) for x in (q, v)), drops=op.dropout > 0,
    )  # fmt: skip
    params = (op.scale, least_word(op.dropout), op.whole.kept_factor) if kernel.drops else (op.scale,)
    n = _numbers(op, q, k, v, mask, lengths)
    extent = math.prod(q.shape[:-2]) * n["blocks"] if is_forward else n["tasks"] * n["strands"]
    products = math.prod(q.shape[:-1]) * k.shape[-2] // (2 if op.causal else 1)
    each = (q.shape[-1] + v.shape[-1] if is_forward else 3 * q.shape[-1] + 2 * v.shape[-1]) + _EXPONENTIAL
    return Launch(
        kernel, (*node.operands, *node.results), tuple(n[name] for name in ATTENTION_SLOTS), params, extent,
        products * (each + (_RANDOM if kernel.drops else 0)),
        f"{kernel.form} in blocks of {lengths[0]} queries by {lengths[1]} keys",
    )  # fmt: skip


def _numbers(
    op: TileAttention | TileAttentionGrad, q: TensorType, k: TensorType, v: TensorType, mask: Sequence[TensorType],
    lengths: tuple[int, int],
) -> dict[str, int]:  # fmt: skip
    heads = q.shape[-3] if q.ndim > 2 else 1
    is_forward = isinstance(op, TileAttention)
    found = {
        "queries": q.shape[-2], "keys": k.shape[-2], "width": q.shape[-1], "value_width": v.shape[-1], "heads": heads,
        "groups": op.groups, "query_block": lengths[0], "key_block": lengths[1],
        "blocks": -(-q.shape[-2] // lengths[0]) if is_forward else -(-k.shape[-2] // lengths[1]),
        "strands": 1 if isinstance(op, TileAttention) else op.strands, "tasks": math.prod(k.shape[:-2]),
        "first_query": 0, "last_query": q.shape[-2], "goes_on": 0,
        "part_rows": q.shape[-2] if isinstance(op, TileAttention) else op.rows,
    }  # fmt: skip
    y = q.with_shape((*q.shape[:-1], v.shape[-1]))
    for name, x in (("q", q), ("k", k), ("v", v), ("y", y)):
        row, head = x.shape[-1], x.shape[-1] * x.shape[-2]
        found |= {f"{name}_row": row, f"{name}_head": head, f"{name}_outer": head * (x.shape[-3] if x.ndim > 2 else 1)}
    return found | _mask_numbers(q, mask)


def _mask_numbers(q: TensorType, mask: Sequence[TensorType]) -> dict[str, int]:
    """How far apart a mask's elements are by outer axes, head and query: not at all along axes of length 1."""
    if not mask:
        return {"mask_outer": 0, "mask_head": 0, "mask_row": 0}
    shape = (1, 1, *mask[0].shape)[-4:] if mask[0].ndim < 4 else mask[0].shape
    outer, heads, rows, keys = math.prod(shape[:-3]), *shape[-3:]
    return {
        "mask_outer": heads * rows * keys if outer > 1 else 0, "mask_head": rows * keys if heads > 1 else 0,
        "mask_row": keys if rows > 1 else 0,
    }  # fmt: skip
