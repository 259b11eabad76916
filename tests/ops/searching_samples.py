"""Samples of running extremes, searching and counting: with equal elements, NaN, infinities and nothing at all."""

import numpy as np
from ops.sampling import COMPLEX, FLOATS, INTEGERS, Sample, integers, numbers, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.cumulative import CumMax, CumMin, LogCumSumExp
from jitgrad.ir.ops.searching import BinCounts, BinEdges, Histc, IsIn, Mode, SearchSorted

F64 = dtypes.float64
SHAPES = (((2, 3, 4), 0), ((2, 3, 4), 2), ((5,), 0), ((1,), 0), ((0, 2), 0), ((2, 0), 0))
SPECIAL = np.array([1.0, np.nan, 2.0, -np.inf, 2.0, np.inf, np.nan, 0.0, -0.0])


def _torch(name, *args, **options):
    def call(*operands):
        import torch

        return getattr(torch, name)(*operands, *args, **options)

    return call


def _running(cls):
    def build():
        for shape, axis in SHAPES:
            for dtype in (dtypes.bool_, *INTEGERS, *FLOATS) if shape == (2, 3, 4) else (F64,):
                oracle = _torch(cls.name, axis)
                yield Sample(cls(axis), (numbers(shape, dtype, 5),), oracle, smooth=dtype is F64)
        for values in (SPECIAL, SPECIAL[::-1].copy(), np.array([3.0, 3.0, 1.0, 3.0, 1.0])):
            yield Sample(cls(0), (values,), _torch(cls.name, 0), label=" special")

    return build


def _logcumsumexp():
    for shape, axis in SHAPES:
        for dtype in (*FLOATS, *COMPLEX) if shape == (2, 3, 4) else (F64,):
            smooth = dtype.itemsize >= 8 and dtype is not dtypes.complex64
            yield Sample(
                LogCumSumExp(axis), (numbers(shape, dtype, 6),), _torch("logcumsumexp", axis), smooth=smooth, ulps=16.0
            )
    for values in ([-np.inf, -np.inf, 1.0, 800.0, -800.0], [np.inf, 1.0], [1.0, np.nan, 2.0]):
        yield Sample(LogCumSumExp(0), (np.array(values),), _torch("logcumsumexp", 0), label=" special")


def _mode():
    for shape, axis in (*SHAPES[:4], ((2, 0), 0)):
        for dtype in (dtypes.bool_, *INTEGERS, *FLOATS) if shape == (2, 3, 4) else (F64,):
            yield Sample(Mode(axis), (numbers(shape, dtype, 5),), _torch("mode", axis), smooth=dtype is F64)
    for values in ([2, 1, 2, 1, 3], [5, 5, 1, 1, 1, 5], [7]):
        yield Sample(Mode(0), (np.array(values),), _torch("mode", 0))
    yield Sample(Mode(0), (SPECIAL,), label=" special")


def _searchsorted():
    for right in (False, True):
        oracle = _torch("searchsorted", right=right)
        for dtype in (*INTEGERS, *FLOATS):
            edges = np.sort(integers((7,), dtype, 0, 9).astype(np.float64)).astype(dtype.np)
            for shape in ((), (5,), (2, 3), (0,)):
                torch = None if dtype is dtypes.bfloat16 else oracle
                yield Sample(SearchSorted(right), (edges, integers(shape, dtype, 0, 10, seed=1)), torch)
        edges = np.sort(uniform((2, 4), F64), axis=-1)
        yield Sample(SearchSorted(right), (edges, uniform((2, 3), F64, seed=1)), oracle)
        yield Sample(SearchSorted(right), (np.zeros((2, 0)), uniform((2, 3), F64, seed=1)), oracle)
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
        for row in (np.array([-np.inf, 0.0, 0.0, np.inf]), np.array([0.0, 1.0, np.nan, np.nan]), np.zeros(0)):
            yield Sample(SearchSorted(right), (row, special), oracle, label=" special")


def _isin():
    for invert in (False, True):
        oracle = _torch("isin", invert=invert)
        for dtype in (*INTEGERS, *FLOATS):
            yield Sample(IsIn(invert), (integers((2, 5), dtype), integers((3,), dtype, seed=1)), oracle)
        yield Sample(IsIn(invert), (SPECIAL, SPECIAL[:3]), oracle, label=" special")
        yield Sample(IsIn(invert), (np.zeros((0,)), np.zeros((0,))), oracle)


def _histc():
    for dtype in FLOATS[2:]:
        for bins, low, high in ((4, 0.0, 0.0), (3, -1.0, 1.5), (1, 0.0, 1.0)):
            oracle = _torch("histc", bins, low, high)
            yield Sample(Histc(bins, low, high), (uniform((20,), dtype),), oracle)
            yield Sample(Histc(bins, low, high), (np.zeros((2, 3), dtype.np),), oracle)
    yield Sample(Histc(2, -1.0, 1.0), (SPECIAL,), _torch("histc", 2, -1.0, 1.0), label=" special")
    yield Sample(Histc(2, 0.0, 0.0), (np.zeros(0),), _torch("histc", 2, 0.0, 0.0))


def _bin_edges():
    for dtype in FLOATS[2:]:
        for limits in ((), (-1.0, 1.0), (1.0, 1.0)):
            options = {"range": limits} if limits else {}
            oracle = lambda x, options=options: _torch("histogram", 4, **options)(x).bin_edges  # noqa: E731
            for values in (uniform((9,), dtype), np.ones(3, dtype.np), np.zeros(0, dtype.np)):
                yield Sample(BinEdges(4, limits), (values,), oracle)


def _bin_counts():
    edges = np.array([-1.0, 0.0, 0.25, 1.5]), np.array([-2.0, 0.5, 2.0])
    points = np.concatenate([uniform((20, 2), F64), [[-1.0, 2.0], [1.5, -2.0], [0.0, 0.5]]])
    weights = uniform((23,), F64, 0.0, 1.0)

    def oracle(density, weighted):
        def call(points, a, b, *rest):
            import torch

            options = {"weight": rest[0]} if weighted else {}
            return torch.histogramdd(points, [a, b], density=density, **options).hist

        return call

    for density in (False, True):
        yield Sample(BinCounts(False, density), (points, *edges), oracle(density, False), ulps=16.0)
        yield Sample(BinCounts(True, density), (points, *edges, weights), oracle(density, True), ulps=16.0)
    yield Sample(BinCounts(), (np.zeros((0, 1), np.float32), np.array([0.0, 1.0], np.float32)))


TABLE = {
    "cummax": _running(CumMax),
    "cummin": _running(CumMin),
    "logcumsumexp": _logcumsumexp,
    "mode": _mode,
    "searchsorted": _searchsorted,
    "isin": _isin,
    "histc": _histc,
    "bin_edges": _bin_edges,
    "bin_counts": _bin_counts,
}
