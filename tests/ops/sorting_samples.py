"""Samples of sorting and selecting: with equal elements, which a stable sort keeps in order, and NaN, which is last."""

import numpy as np
from ops.sampling import FLOATS, INTEGERS, Sample, numbers

from jitgrad.ir import dtypes
from jitgrad.ir.ops.sorting import KthValue, Sort, TopK


def _sort():
    for descending in (False, True):

        def oracle(x, axis=0, descending=descending):
            import torch

            return tuple(torch.sort(x, dim=axis, descending=descending, stable=True))

        for dtype in (dtypes.bool_, *INTEGERS, *FLOATS):
            yield Sample(Sort(0, descending), (numbers((9, 2), dtype, 1),), oracle, smooth=True)
        for dtype in (dtypes.bool_, *INTEGERS, *FLOATS):
            compare = lambda x, descending=descending: tuple(x.sort(0, descending))  # noqa: E731
            yield Sample(Sort(0, descending, False), (_repeated((40, 2), dtype),), compare)
        special = np.array([2.0, np.nan, 1.0, -np.inf, 2.0, 0.0, -0.0, np.inf, np.nan, 1.0])
        yield Sample(Sort(0, descending), (special,), oracle, label=" special")
        for shape, axis in (((2, 3), 1), ((0, 2), 0), ((1,), 0)):
            yield Sample(
                Sort(axis, descending),
                (numbers(shape, dtypes.float64, 2),),
                lambda x, axis=axis, oracle=oracle: oracle(x, axis),
                smooth=True,
            )


def _repeated(shape, dtype):
    """Few different numbers."""
    return numbers(shape, dtypes.int32, 3).clip(0, 4).astype(dtype.np)


def _kthvalue():
    for k in (0, 7, 29):
        oracle = lambda x, k=k: tuple(x.kthvalue(k + 1, 0))  # noqa: E731
        for dtype in (*INTEGERS, *FLOATS):
            distinct = (np.arange(30)[:, None] * np.array([7, 11]) % 30).astype(dtype.np)
            yield Sample(KthValue(0, k), (distinct,), oracle, smooth=dtype is dtypes.float64)
            yield Sample(KthValue(0, k), (_repeated((30, 2), dtype),), oracle)
    yield Sample(KthValue(1, 2), (np.array([[1.0, np.nan, np.nan, -0.0, 0.0, -np.inf]]),), lambda x: x.kthvalue(3, 1))
    yield Sample(KthValue(0, 1), (numbers((2, 0), dtypes.float64, 2),))


def _topk():
    for largest in (False, True):

        def oracle(x, k, axis, largest=largest):
            import torch

            return tuple(torch.topk(x, k, axis, largest))

        for k in (0, 1, 2, 5, 20):
            for dtype in (*INTEGERS, *FLOATS):
                values = np.arange(20)[:, None] * np.array([7, 3]) % 20  # no two alike
                compare = lambda x, k=k, oracle=oracle: oracle(x, k, 0)  # noqa: E731
                smooth = dtype is dtypes.float64 and k > 0
                yield Sample(TopK(0, k, largest), (values.astype(dtype.np),), compare, smooth=smooth)
        for k, ordered in ((1, True), (9, True), (9, False), (40, False)):
            for dtype in (*INTEGERS, *FLOATS):
                compare = lambda x, k=k, ordered=ordered, largest=largest: x.topk(k, 0, largest, ordered)  # noqa: E731
                yield Sample(TopK(0, k, largest, ordered), (_repeated((80, 2), dtype),), compare)
        special = np.array([2.0, np.nan, 1.0, -np.inf, 3.0, np.inf, 5.0, 6.0, 7.0, 8.0])
        for k in (1, 2, 4, 9):
            compare = lambda x, k=k, oracle=oracle: oracle(x, k, 0)  # noqa: E731
            yield Sample(TopK(0, k, largest), (special,), compare, label=" special")
        for shape, axis in (((0, 2), 0), ((2, 0), 0)):
            yield Sample(TopK(axis, 0, largest), (numbers(shape, dtypes.float64, 2),))


TABLE = {"kthvalue": _kthvalue, "sort": _sort, "topk": _topk}
