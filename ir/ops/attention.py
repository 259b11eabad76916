"""Scaled dot-product attention as one op, whose gradient needs nothing but its operands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .broadcast import Sum, accumulator_dtype
from .comparison import Eq
from .creation import Iota
from .formula import Term
from .linalg import MatMul, transposed
from .math import Exp
from .reduction import Amax
from .shape import Reshape

__all__ = ["Attention"]


@op
class Attention(Op):
    """`softmax(scale q kᵀ + mask) v` (Vaswani et al. 2017, arXiv:1706.03762).

    Operands: queries [..., l, e], keys [..., s, e], values [..., s, d], and optionally numbers to be added, as a mask
    [..., l, s], all of one float type and with equal axes in front; the mask's may be 1. If `causal`, query i sees the
    keys up to i. The result is [..., l, d]; a query that sees no key gets zeros. Half types are computed in float32.
    """

    scale: float
    causal: bool = False
    name = "attention"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floats of one type, and shapes that fit."""
        if len(operands) not in (3, 4):
            raise ArgumentError(f"attention: takes queries, keys, values, and a mask or none{operand_lines(operands)}")
        q, k, v, *mask = operands
        if not q.dtype.is_floating_point or any(t.dtype is not q.dtype for t in operands):
            raise DTypeError(f"attention: operands must be of one float type{operand_lines(operands)}")
        if q.ndim < 2 or any(t.ndim != q.ndim for t in operands):
            raise ShapeError(f"attention: operands must have equal ranks of 2 or more{operand_lines(operands)}")
        if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
            raise ShapeError(f"attention: queries, keys and values do not fit{operand_lines(operands)}")
        scores = (*q.shape[:-1], k.shape[-2])
        if any(n not in (1, m) for t in mask for n, m in zip(t.shape, scores, strict=True)):
            raise ShapeError(f"attention: the mask does not stretch to {list(scores)}{operand_lines(operands)}")
        return (q.with_shape((*q.shape[:-1], v.shape[-1])),)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        wide = accumulator_dtype(dtypes.FROM_NUMPY[operands[0].dtype]).np
        q, k, v, *mask = (x.astype(wide, copy=False) for x in operands)
        with np.errstate(all="ignore"):
            scores = np.matmul(q * wide.type(self.scale), k.swapaxes(-1, -2))
            for m in mask:
                scores = scores + m
            if self.causal:
                rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
                scores = np.where(columns <= rows, scores, wide.type(-math.inf))
            peak = scores.max(-1, keepdims=True, initial=-math.inf)
            e = np.exp(scores - np.where(peak == -math.inf, wide.type(0), peak))
            total = e.sum(-1, keepdims=True)
            out = np.matmul(e / np.where(total == 0, wide.type(1), total), v)
        return out.astype(operands[0].dtype, copy=False)

    def _probabilities(self, b: Builder, operands: Sequence[Value]) -> Term:
        """The weights of the values, [..., l, s]; zeros for queries that see no key."""
        wide = accumulator_dtype(operands[0].type.dtype)
        q, k, _, *mask = (Term(b, x).convert(wide) for x in operands)
        scores = Term(b, b(MatMul(), (q * self.scale).value, transposed(b, k.value)))
        shape = scores.value.shape
        for m in mask:
            scores = scores + m.expand(shape)
        if self.causal:
            device, n = operands[0].type.device, len(shape)
            row, column = (Term(b, b(Iota(shape, a, dtypes.int64, device))) for a in (n - 2, n - 1))
            scores = (column <= row).choose(scores, -math.inf)
        if not shape[-1]:
            return scores
        peak = scores.apply(Amax((len(shape) - 1,), True))
        peak = peak.apply(Eq(), -math.inf).choose(0, peak)
        e = (scores - peak.expand(shape)).apply(Exp())
        total = e.sum(len(shape) - 1)
        return e / total.apply(Eq(), 0).choose(1, total).expand(shape)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Scores, softmax, and the product with the values."""
        p = self._probabilities(b, operands)
        v = Term(b, operands[2]).convert(p.value.type.dtype)
        return (p.apply(MatMul(), v).convert(operands[0].type.dtype).value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """With weights P, computed anew: `Pᵀ g` for v; and with `S = P (g vᵀ - sum(g vᵀ P))`, the scores' cotangent,
        `scale S k` for q, `scale Sᵀ q` for k, and `S` for the mask.
        """
        (cotangent,) = cotangents
        assert cotangent is not None
        p = self._probabilities(b, operands)
        wide = p.value.type.dtype
        g, q, k, v = (Term(b, x).convert(wide) for x in (cotangent, *operands[:3]))
        dp = Term(b, b(MatMul(), g.value, transposed(b, v.value)))
        shape = p.value.shape
        ds = p * (dp - (dp * p).sum(len(shape) - 1).expand(shape))
        grads = [
            ds.apply(MatMul(), k) * self.scale,
            Term(b, transposed(b, ds.value)).apply(MatMul(), q) * self.scale,
            Term(b, transposed(b, p.value)).apply(MatMul(), g),
            *(_summed_to(ds, m) for m in operands[3:]),
        ]
        return [t.convert(x.type.dtype).value if need else None
                for t, x, need in zip(grads, operands, needs, strict=True)]  # fmt: skip


def _summed_to(x: Term, like: Value) -> Term:
    """The sum over the axes along which `like` was repeated."""
    axes = tuple(a for a, (n, m) in enumerate(zip(like.shape, x.value.shape, strict=True)) if n != m)
    return x.apply(Sum(axes, False)).apply(Reshape(like.shape)) if axes else x
