"""Samples of broadcasts, reductions, scans and statistics."""

import math

import numpy as np
from ops.sampling import COMPLEX, FLOATS, INTEGERS, Sample, numbers, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.argmax import ArgMax, ArgMin
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.hashing import XorHash
from jitgrad.ir.ops.reduction import All, Amax, Amin, Any, Prod
from jitgrad.ir.ops.scan import CumProd, CumSum, LinearScan
from jitgrad.ir.ops.statistics import Mean, SumOfSquares, Var

AXES = (((2, 3, 4), (0,)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((2, 3), (0, 1)), ((5,), (0,)), ((), ()))
EMPTY = (((0,), (0,)), ((2, 0), (1,)), ((0, 3), (1,)), ((2, 0, 3), (0, 1)))


def _broadcast_to():
    for dtype in dtypes.ALL:
        for shape, to in (((3,), (2, 3)), ((2, 1), (2, 3)), ((1, 3), (4, 2, 3)), ((), (2, 2)), ((1,), (0,))):
            yield Sample(BroadcastTo(to), (numbers(shape, dtype),), lambda x, to=to: x.broadcast_to(to), True)
    yield Sample(BroadcastTo((2, 3)), (numbers((2, 3), dtypes.float64),), smooth=True)


def _reductions(cls, torch, kinds, empty=True, cases=AXES, ulps=8.0):
    """Over several axes, kept or not, in each dtype. `torch` takes a tensor, the axes and `keepdim`."""

    def build():
        for shape, axes in cases + EMPTY * empty:
            for keepdim in (False, True):
                op = cls(axes, keepdim)
                oracle = None if axes == () else lambda x, op=op: torch(x, op.axes, op.keepdim)
                for dtype in kinds if shape == (2, 3, 4) else kinds[-1:]:
                    yield Sample(op, (numbers(shape, dtype, 3),), oracle, smooth=True, ulps=ulps)
        values = np.array([[1.0, np.nan, -np.inf], [np.inf, 2.0, 2.0], [-np.inf, -np.inf, -np.inf], [0.0, -0.0, 0.0]])
        if dtypes.float32 in kinds:
            oracle = lambda x: torch(x, (1,), False)  # noqa: E731
            yield Sample(cls((1,)), (values.astype(np.float32),), oracle, label=" special")

    return build


def _hash(x, axes, keepdim):
    import torch

    return torch.hash_tensor(x, axes, keepdim=keepdim)


def _fold_axes(function):
    """A PyTorch reduction of one axis made one of several."""

    def over(x, axes, keepdim):
        kept = [a for a in range(x.ndim) if a not in axes]
        rows = x.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes))
        out = function(rows, -1)
        return out.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keepdim else out

    return over


def _torch(name):
    def call(*operands, **options):
        import torch

        return getattr(torch, name)(*operands, **options)

    return call


def _sum(x, axes, keepdim):
    return x.sum(axes, keepdim, dtype=x.dtype)


def _prod(x, axes, keepdim):
    return _fold_axes(lambda rows, axis: rows.prod(axis, dtype=rows.dtype))(x, axes, keepdim)


def _scans(cls, torch_name, kinds):
    def build():
        for shape, axis in (
            ((2, 3, 4), 0),
            ((2, 3, 4), 1),
            ((2, 3, 4), 2),
            ((5,), 0),
            ((1,), 0),
            ((2, 0), 1),
            ((0, 2), 1),
        ):
            for dtype in kinds if shape == (2, 3, 4) else kinds[-1:]:
                oracle = lambda x, axis=axis: _torch(torch_name)(x, axis, dtype=x.dtype)  # noqa: E731
                yield Sample(cls(axis), (numbers(shape, dtype, 3),), oracle, smooth=True, ulps=8.0)
        if cls is CumSum:
            yield Sample(cls(1, True), (numbers((2, 4), dtypes.float64),), smooth=True)

    return build


def _linear_scan():
    for shape, axis in (((2, 3), 0), ((2, 3), 1), ((4,), 0), ((1,), 0), ((0,), 0), ((2, 0), 0)):
        for reverse in (False, True):
            for dtype in (dtypes.float32, dtypes.complex128, dtypes.float64):
                yield Sample(
                    LinearScan(axis, reverse),
                    (numbers(shape, dtype, 1), numbers(shape, dtype, 2)),
                    smooth=True,
                )


def _mean(x, axes, keepdim):
    return x.mean(axes, keepdim)


def _var():
    for correction in (0.0, 1.0, 2.5):
        for shape, axes in AXES[:5]:
            for keepdim in (False, True):
                op = Var(axes, keepdim, correction)
                if correction == 2.5 and shape != (2, 3, 4):
                    continue

                def oracle(x, op=op):
                    return x.var(op.axes, correction=op.correction, keepdim=op.keepdim)

                for dtype in FLOATS:
                    if correction < np.prod([shape[a] for a in axes]):
                        yield Sample(op, (uniform(shape, dtype, seed=4),), oracle, smooth=True, ulps=8.0)


NUMBERS = (*INTEGERS, *FLOATS, *COMPLEX[1:], dtypes.float64)
REAL = (dtypes.bool_, *INTEGERS, *FLOATS)
TABLE = {
    "broadcast_to": _broadcast_to,
    "sum": _reductions(Sum, _sum, NUMBERS),
    "prod": _reductions(Prod, _prod, NUMBERS, cases=(*AXES, ((2, 1), (1,)), ((2, 7), (1,)))),
    "amax": _reductions(Amax, _torch("amax"), REAL, empty=False),
    "amin": _reductions(Amin, _torch("amin"), REAL, empty=False),
    "argmax": _reductions(ArgMax, _fold_axes(_torch("argmax")), REAL[1:], empty=False),
    "argmin": _reductions(ArgMin, _fold_axes(_torch("argmin")), REAL[1:], empty=False),
    "hash_tensor": _reductions(XorHash, _hash, (dtypes.bool_, *INTEGERS, *FLOATS), empty=False),
    "any": _reductions(Any, _fold_axes(lambda x, axis: x.bool().any(axis)), (*REAL, *COMPLEX)),
    "all": _reductions(All, _fold_axes(lambda x, axis: x.bool().all(axis)), (*REAL, *COMPLEX)),
    "mean": _reductions(Mean, _mean, (*FLOATS, *COMPLEX, dtypes.float64), empty=False),
    "sum_of_squares": _reductions(
        SumOfSquares, lambda x, axes, keep: (x * x).sum(axes, keep), (*FLOATS, dtypes.float64)
    ),
    "var": _var,
    "cumsum": _scans(CumSum, "cumsum", NUMBERS),
    "cumprod": _scans(CumProd, "cumprod", NUMBERS),
    "linear_scan": _linear_scan,
}
