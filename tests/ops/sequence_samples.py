"""Samples of attention and of connectionist temporal classification."""

import math

import numpy as np
from ops.sampling import FLOATS, Sample, rng, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.attention import Attention, AttentionGrad, AttentionLse
from jitgrad.ir.ops.ctc import CtcLoss, CtcLossGrad

F64 = dtypes.float64


def _attended(op):
    def oracle(q, k, v, mask=None):
        import torch

        f = torch.nn.functional.scaled_dot_product_attention
        return f(q, k, v, mask, is_causal=op.causal, scale=op.scale)

    return oracle


def _attentions():
    for lead, rows, keys, width, out in (
        ((), 3, 4, 2, 3),
        ((2, 3), 4, 4, 3, 2),
        ((2,), 2, 5, 1, 1),
        ((0,), 2, 2, 2, 2),
    ):
        for dtype in FLOATS:
            q, k = uniform((*lead, rows, width), dtype), uniform((*lead, keys, width), dtype, seed=1)
            v = uniform((*lead, keys, out), dtype, seed=2)
            for causal in (False, True):
                op = Attention(0.7, causal)
                oracle = _attended(op) if dtype.itemsize > 2 else None
                yield Sample(op, (q, k, v), oracle, smooth=True, ulps=32)
                dropped = Attention(0.7, causal, 1, 0.5)
                yield Sample(dropped, (q, k, v, np.array(3), np.array(11)), smooth=True, ulps=32)
            for shape in ((*lead, rows, keys), (*(1,) * len(lead), 1, keys)):
                op = Attention(1 / math.sqrt(width))
                mask = uniform(shape, dtype, seed=3)
                yield Sample(op, (q, k, v, mask), _attended(op) if dtype.itemsize > 2 else None, smooth=True, ulps=32)
    blind = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    for dtype in (dtypes.float32, F64):
        op, (q, k, v) = Attention(1.0), (uniform((2, 2), dtype, seed=i) for i in range(3))
        yield Sample(op, (q, k, v, blind.astype(dtype.np)), _attended(op), ulps=32, label=" a query without keys")


def _grouped_attentions():
    """Results with logarithms, and heads that share keys and values."""
    for dtype in FLOATS:
        q, k = uniform((2, 4, 3, 2), dtype), uniform((2, 2, 5, 2), dtype, seed=1)
        v, mask = uniform((2, 2, 5, 3), dtype, seed=2), uniform((1, 4, 1, 5), dtype, seed=3)
        for causal in (False, True):
            yield Sample(Attention(0.7, causal, 2), (q, k, v), _grouped(causal), smooth=True, ulps=32)
            yield Sample(AttentionLse(0.7, causal, 2), (q, k, v), smooth=True, ulps=32)
        yield Sample(AttentionLse(0.7), (q, q, q), smooth=True, ulps=32)
        yield Sample(AttentionLse(0.7, False, 2), (q, k, v, mask), smooth=True, ulps=32)
        random = np.array(-7), np.array(2**40)
        yield Sample(AttentionLse(0.7, True, 2, 0.3), (q, k, v, *random), smooth=True, ulps=32)
        yield Sample(AttentionLse(0.7, False, 2, 0.3), (q, k, v, mask, *random), smooth=True, ulps=32)
    blind = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    q, k, v = (uniform((2, 2), F64, seed=i) for i in range(3))
    yield Sample(AttentionLse(1.0), (q, k, v, blind), ulps=32, label=" a query without keys")


def _grouped(causal):
    def oracle(q, k, v):
        import torch

        f = torch.nn.functional.scaled_dot_product_attention
        return f(*(x.double() for x in (q, k, v)), is_causal=causal, scale=0.7, enable_gqa=True).to(q.dtype)

    return oracle


def _attention_gradients():
    for dtype in FLOATS:
        wide = dtype if dtype.itemsize > 2 else dtypes.float32
        for groups, lead in ((1, ()), (2, (2, 4))):
            keys = (*lead[:-1], lead[-1] // groups) if lead else ()
            q, k = uniform((*lead, 3, 2), dtype), uniform((*keys, 5, 2), dtype, seed=1)
            v, g = uniform((*keys, 5, 3), dtype, seed=2), uniform((*lead, 3, 3), dtype, seed=3)
            lse, delta = (uniform((*lead, 3), wide, 1.0, 2.0, seed=n) for n in (4, 5))
            mask = uniform((*(1,) * len(lead), 3, 5), dtype, seed=6)
            for causal in (False, True):
                yield Sample(AttentionGrad(0.7, causal, groups), (q, k, v, g, lse, delta), smooth=True, ulps=64)
            given = (q, k, v, g, lse, delta, mask)
            yield Sample(AttentionGrad(0.7, False, groups), given, smooth=True, ulps=64)
            given = (*given, np.array(-7), np.array(2**40))
            yield Sample(AttentionGrad(0.7, False, groups, 0.3), given, smooth=True, ulps=64)


def _sequences():
    """Log-probabilities, labels, lengths of time and of labels."""
    for t, n, c, s, dtype in ((6, 3, 4, 3, F64), (6, 3, 4, 3, dtypes.float32), (1, 1, 2, 1, F64), (5, 2, 3, 0, F64)):
        scores = rng(1).standard_normal((t, n, c))
        logp = (scores - np.log(np.exp(scores).sum(2, keepdims=True))).astype(dtype.np)
        labels = rng(2).integers(1, c, (n, s))
        labels[:1, 1:2] = labels[:1, :1]  # equal neighbours need a blank between them
        times, counts = np.array([t, t - 1, t][:n]), np.array([s, s - 1, 0][:n])
        yield logp, labels, np.maximum(times, 1), np.maximum(counts, 0)


def _losses():
    for arrays in _sequences():
        yield Sample(CtcLoss(), arrays, _ctc_oracle, smooth=True, ulps=64, order=1)
    logp, labels, times, counts = next(_sequences())
    yield Sample(CtcLoss(), (logp, labels, np.minimum(times, 2), counts), _ctc_oracle, label=" too short")


def _ctc_oracle(logp, labels, times, counts):
    import torch

    return torch.nn.functional.ctc_loss(logp, labels, times, counts, reduction="none")


def _loss_gradients():
    for arrays in _sequences():
        yield Sample(CtcLossGrad(), arrays)


TABLE = {
    "attention": _attentions,
    "attention_lse": _grouped_attentions,
    "attention_grad": _attention_gradients,
    "ctc_loss": _losses,
    "ctc_loss_grad": _loss_gradients,
}
