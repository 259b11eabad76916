"""Scaled dot-product attention: as one op, with the logarithms of its sums, and their gradient.

Where gradients may be asked for, `AttentionLse` is what a front end records: its second result is all that the gradient
needs beside operands, so that no matrix of weights is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Values, op
from ..types import Shape, TensorType
from .broadcast import BroadcastTo, Sum, accumulator_dtype
from .comparison import Eq
from .creation import Iota
from .formula import Term
from .linalg import MatMul, transposed
from .math import Exp, Log
from .random import RandomUniform
from .reduction import Amax
from .shape import Reshape

__all__ = ["Attention", "AttentionGrad", "AttentionLse"]

_T = TypeVar("_T")


class _Attention(Op):
    """What attention and its gradient share. `groups` query heads (axis -3) share a head of keys and values.

    With `dropout`, weights are dropped with that probability, and the others divided by what is left of 1: as the
    numbers say that `RandomUniform` gives for the matrices of weights. The last two operands are its seed and offset.
    """

    scale: float
    causal: bool
    groups: int
    dropout: float
    batchable = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "batchable", not self.dropout)  # which weights are dropped goes by places in a sample

    def split_rest(self, rest: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
        """Operands behind the others: a mask or none; seed and offset or none."""
        count = len(rest) - (2 if self.dropout else 0)
        return rest[:count], rest[count:]

    def _check(self, operands: Sequence[TensorType], rest: Sequence[TensorType]) -> None:
        """Queries, keys and values of one float type, and shapes that fit; the same of a mask; seed and offset."""
        mask, random = self.split_rest(rest)
        if not 0.0 <= self.dropout <= 1.0:
            raise ArgumentError(f"{self.name}: dropout must be between 0 and 1, not {self.dropout}")
        if random:
            RandomUniform((), dtypes.float32).infer(*random)
        q, k, v = operands[:3]
        if not q.dtype.is_floating_point or any(t.dtype is not q.dtype for t in (k, v, *mask)):
            raise DTypeError(f"{self.name}: operands must be of one float type{operand_lines(operands)}")
        if q.ndim < 2 or any(t.ndim != q.ndim for t in (k, v, *mask)):
            raise ShapeError(f"{self.name}: operands must have equal ranks of 2 or more{operand_lines(operands)}")
        if q.shape[:-2] != self._spread(k.shape) or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
            raise ShapeError(f"{self.name}: queries, keys and values do not fit{operand_lines(operands)}")
        scores = (*q.shape[:-1], k.shape[-2])
        if any(n not in (1, m) for t in mask for n, m in zip(t.shape, scores, strict=True)):
            raise ShapeError(f"{self.name}: the mask does not stretch to {list(scores)}{operand_lines(operands)}")

    def _spread(self, keys: Shape) -> Shape:
        """The axes in front of queries that fit such keys."""
        if self.groups == 1 or len(keys) < 3:
            return keys[:-2]
        return (*keys[:-3], keys[-3] * self.groups)

    def _each(self, b: Builder, keys: Value) -> Value:
        """Keys or values, repeated for each query head."""
        if self.groups == 1:
            return keys
        *lead, heads, rows, width = keys.shape
        keys = b(Reshape((*lead, heads, 1, rows, width)), keys)
        keys = b(BroadcastTo((*lead, heads, self.groups, rows, width)), keys)
        return b(Reshape((*lead, heads * self.groups, rows, width)), keys)

    def _shared(self, b: Builder, grad: Value) -> Value:
        """The transpose of `_each`."""
        if self.groups == 1:
            return grad
        *lead, heads, rows, width = grad.shape
        grad = b(Reshape((*lead, heads // self.groups, self.groups, rows, width)), grad)
        return b(Sum((len(lead) + 1,), False), grad)

    def _kept(self, b: Builder, scores: Term, random: Sequence[Value]) -> Term:
        """What dropout multiplies weights by, in the type of scores."""
        drawn = Term(b, b(RandomUniform(scores.value.shape, dtypes.float32), *random))
        return (drawn >= self.dropout).convert(scores.value.type.dtype) * self.kept_factor

    def kept_reference(self, scores: Array, random: Sequence[Array]) -> Array:
        drawn = RandomUniform(scores.shape, dtypes.float32).reference(*random)
        return (drawn >= np.float32(self.dropout)) * scores.dtype.type(self.kept_factor)

    @property
    def kept_factor(self) -> float:
        """What weights that are not dropped are multiplied by."""
        return 0.0 if self.dropout == 1.0 else 1 / (1 - self.dropout)

    def _scores(self, b: Builder, q: Term, k: Term, mask: Sequence[Term]) -> Term:
        """The scores [..., l, s]; minus infinity where a query is not to see a key."""
        scores = Term(b, b(MatMul(), (q * self.scale).value, transposed(b, self._each(b, k.value))))
        shape = scores.value.shape
        for m in mask:
            scores = scores + m.expand(shape)
        if self.causal:
            device, n = q.value.type.device, len(shape)
            row, column = (Term(b, b(Iota(shape, a, dtypes.int64, device))) for a in (n - 2, n - 1))
            scores = (column <= row).choose(scores, -math.inf)
        return scores

    def _scores_reference(self, q: Array, k: Array, mask: Sequence[Array]) -> Array:
        scores = np.matmul(q * q.dtype.type(self.scale), self._each_reference(k).swapaxes(-1, -2))
        for m in mask:
            scores = scores + m
        if self.causal:
            rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
            scores = np.where(columns <= rows, scores, q.dtype.type(-math.inf))
        return scores

    def _each_reference(self, keys: Array) -> Array:
        return keys if self.groups == 1 else np.repeat(keys, self.groups, axis=-3)

    def _shared_reference(self, grad: Array) -> Array:
        if self.groups == 1:
            return grad
        *lead, heads, rows, width = grad.shape
        return grad.reshape(*lead, heads // self.groups, self.groups, rows, width).sum(-3)


class _Forward(_Attention):
    """Attention with or without its second result."""

    def _infer_both(self, operands: tuple[TensorType, ...]) -> tuple[TensorType, TensorType]:
        if len(operands) - (2 if self.dropout else 0) not in (3, 4):
            more = ", seed and offset" if self.dropout else ""
            raise ArgumentError(
                f"{self.name}: takes queries, keys, values, and a mask or none{more}{operand_lines(operands)}"
            )
        self._check(operands, operands[3:])
        q, _, v, *_ = operands
        lse = TensorType(q.shape[:-1], accumulator_dtype(q.dtype), q.device)
        return q.with_shape((*q.shape[:-1], v.shape[-1])), lse

    def _reference_both(self, operands: Sequence[Array]) -> tuple[Array, Array]:
        wide = _wide_of(operands[0])
        given, random = self.split_rest(operands)
        q, k, v, *mask = (x.astype(wide, copy=False) for x in given)
        with np.errstate(all="ignore"):
            scores = self._scores_reference(q, k, mask)
            peak = scores.max(-1, keepdims=True, initial=-math.inf)
            peak = np.where(peak == -math.inf, wide.type(0), peak)
            e = np.exp(scores - peak)
            total = e.sum(-1, keepdims=True)
            p = e / np.where(total == 0, wide.type(1), total)
            if self.dropout:
                p = p * self.kept_reference(p, random)
            out = np.matmul(p, self._each_reference(v))
            lse = np.where(total == 0, wide.type(math.inf), peak + np.log(total))
        return out.astype(operands[0].dtype, copy=False), lse[..., 0]

    def _both(self, b: Builder, operands: Sequence[Value]) -> tuple[Value, Value]:
        """Scores, softmax, and the product with the values; and the logarithms."""
        dtype = operands[0].type.dtype
        wide = accumulator_dtype(dtype)
        given, random = self.split_rest(operands)
        q, k, v, *mask = (Term(b, x).convert(wide) for x in given)
        p = scores = self._scores(b, q, k, mask)
        shape, last = scores.value.shape, scores.value.ndim - 1
        lse = Term(b, q.value).sum(last).like(math.inf)
        if shape[-1]:
            peak = scores.apply(Amax((last,), True))
            peak = peak.apply(Eq(), -math.inf).choose(0, peak)
            e = (scores - peak.expand(shape)).apply(Exp())
            total = e.sum(last)
            blind = total.apply(Eq(), 0)
            p = e / blind.choose(1, total).expand(shape)
            lse = blind.choose(math.inf, peak + total.apply(Log()))
        if self.dropout:
            p = p * self._kept(b, p, random)
        out = p.apply(MatMul(), Term(b, self._each(b, v.value)))
        return out.convert(dtype).value, lse.apply(Reshape(shape[:-1])).value

    def _gradients(
        self, b: Builder, operands: Values, out: Value, lse: Value, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """By `AttentionGrad`; the mask's, which has as many elements as the mask, by the weights computed anew."""
        dtype = operands[0].type.dtype
        wide = accumulator_dtype(dtype)
        given, given_lse = cotangents
        g = Term(b, out).like(0) if given is None else Term(b, given)
        last = out.ndim - 1
        delta = (g.convert(wide) * Term(b, out).convert(wide)).sum(last).apply(Reshape(lse.shape))
        if given_lse is not None:
            delta = delta - Term(b, given_lse)
        op = AttentionGrad(self.scale, self.causal, self.groups, self.dropout)
        inner = (*operands[:3], g.value, lse, delta.value, *operands[3:])
        grads: list[Value | None] = list(b.emit(op, *inner)) if any(needs[:3]) else [None] * 3
        mask, random = self.split_rest(operands[3:])
        for m, need in zip(mask, needs[3:]):
            grads.append(_summed_to(op.of_scores(b, inner), m).convert(dtype).value if need else None)
        return [*(x if need else None for x, need in zip(grads, needs)), *[None] * len(random)]


@op
class Attention(_Forward):
    """`softmax(scale q kᵀ + mask) v` (Vaswani et al. 2017, arXiv:1706.03762).

    Operands: queries [..., l, e], keys [..., s, e], values [..., s, d], and optionally numbers to be added, as a mask
    [..., l, s], all of one float type and with equal axes in front; the mask's may be 1. With `groups`, so many query
    heads (axis -3) share a head of keys and values. If `causal`, query i sees the keys up to i. The result is
    [..., l, d]; a query that sees no key gets zeros. Half types are computed in float32. Weights are dropped with
    probability `dropout`; seed and offset, 0-d int64 as `RandomUniform` takes them, are then the last operands.
    """

    scale: float
    causal: bool = False
    groups: int = 1
    dropout: float = 0.0
    name = "attention"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Floats of one type, and shapes that fit."""
        return self._infer_both(operands)[:1]

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        return self._reference_both(operands)[0]

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Scores, softmax, and the product with the values."""
        return self._both(b, operands)[:1]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """With the logarithms computed anew."""
        _, lse = b.emit(AttentionLse(self.scale, self.causal, self.groups, self.dropout), *operands)
        return self._gradients(b, operands, results[0], lse, (*cotangents, None), needs)


@op
class AttentionLse(_Forward):
    """`Attention`, and the logarithm of the sum of exponentials of each query's scores [..., l].

    That is in the type that sums are in, and infinity for a query that sees no key.
    """

    scale: float
    causal: bool = False
    groups: int = 1
    dropout: float = 0.0
    name = "attention_lse"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`Attention`'s."""
        return self._infer_both(operands)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        return self._reference_both(operands)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """Scores, softmax, and the product with the values."""
        return self._both(b, operands)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """From the results, and no weights kept."""
        return self._gradients(b, operands, results[0], results[1], cotangents, needs)


@op
class AttentionGrad(_Attention):
    """The gradients of attention in queries, keys and values (Dao et al. 2022, arXiv:2205.14135, algorithm 4).

    Operands: queries, keys, values, the result's cotangent g, the logarithms [..., l] that `AttentionLse` gives,
    `delta` [..., l], and optionally a mask. With weights `P = exp(scores - lse)` and D, what dropout multiplies by,
    `(P D)ᵀ g` is for v, and with `S = P (D g vᵀ - delta)`, the scores' cotangent if delta is the sum of g times the
    result, `scale S k` for q and `scale Sᵀ q` for k. With `dropout`, the last operands are seed and offset.
    """

    scale: float
    causal: bool = False
    groups: int = 1
    dropout: float = 0.0
    name = "attention_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """`Attention`'s rules, and cotangents that fit."""
        if len(operands) - (2 if self.dropout else 0) not in (6, 7):
            more = ", seed and offset" if self.dropout else ""
            raise ArgumentError(
                f"attention_grad: takes six operands, and a mask or none{more}{operand_lines(operands)}"
            )
        q, k, v, g, lse, delta, *rest = operands
        self._check(operands, rest)
        wide = TensorType(q.shape[:-1], accumulator_dtype(q.dtype), q.device)
        if g != q.with_shape((*q.shape[:-1], v.shape[-1])) or lse != wide or delta != wide:
            raise ShapeError(f"attention_grad: cotangents do not fit{operand_lines(operands)}")
        return q, k, v

    def reference(self, *operands: Array) -> Array:
        """The formulas in NumPy."""
        wide, dtype = _wide_of(operands[0]), operands[0].dtype
        given, random = self.split_rest(operands)
        q, k, v, g, lse, delta, *mask = (x.astype(wide, copy=False) for x in given)
        with np.errstate(all="ignore"):
            p = np.exp(self._scores_reference(q, k, mask) - lse[..., None])
            dp = np.matmul(g, self._each_reference(v).swapaxes(-1, -2))
            kept = self.kept_reference(p, random) if self.dropout else None
            ds = p * ((dp if kept is None else dp * kept) - delta[..., None]) * wide.type(self.scale)
            p = p if kept is None else p * kept
            dq, dk = np.matmul(ds, self._each_reference(k)), np.matmul(ds.swapaxes(-1, -2), q)
            dv = np.matmul(p.swapaxes(-1, -2), g)
        found = dq, self._shared_reference(dk), self._shared_reference(dv)
        return tuple(x.astype(dtype, copy=False) for x in found)

    def _weights(self, b: Builder, operands: Sequence[Value]) -> tuple[Term, Term]:
        """The weights of the values, and the cotangents of the scores."""
        wide = accumulator_dtype(operands[0].type.dtype)
        given, random = self.split_rest(operands)
        q, k, v, g, lse, delta, *mask = (Term(b, x).convert(wide) for x in given)
        scores = self._scores(b, q, k, mask)
        shape = scores.value.shape
        last = len(shape) - 1
        p = (scores - lse.expand_axis(last, shape)).apply(Exp())
        dp = Term(b, b(MatMul(), g.value, transposed(b, self._each(b, v.value))))
        if not self.dropout:
            return p, p * (dp - delta.expand_axis(last, shape))
        kept = self._kept(b, p, random)
        return p * kept, p * (dp * kept - delta.expand_axis(last, shape))

    def of_scores(self, b: Builder, operands: Sequence[Value]) -> Term:
        """The cotangent of the scores [..., l, s]: the mask's, where that is not stretched."""
        return self._weights(b, operands)[1]

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """The formulas."""
        p, ds = self._weights(b, operands)
        wide, dtype = p.value.type.dtype, operands[0].type.dtype
        q, k, g = (Term(b, operands[i]).convert(wide) for i in (0, 1, 3))
        ds = ds * self.scale
        dq = ds.apply(MatMul(), Term(b, self._each(b, k.value)))
        dk = Term(b, transposed(b, ds.value)).apply(MatMul(), q)
        dv = Term(b, transposed(b, p.value)).apply(MatMul(), g)
        shared = [Term(b, self._shared(b, x.value)) for x in (dk, dv)]
        return [x.convert(dtype).value for x in (dq, *shared)]


def _wide_of(x: Array) -> np.dtype:
    wide: np.dtype = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
    return wide


def _summed_to(x: Term, like: Value) -> Term:
    """The sum over the axes along which `like` was repeated."""
    axes = tuple(a for a, (n, m) in enumerate(zip(like.shape, x.value.shape, strict=True)) if n != m)
    return x.apply(Sum(axes, False)).apply(Reshape(like.shape)) if axes else x
