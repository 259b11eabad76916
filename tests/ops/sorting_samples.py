"""Samples of sorting: with equal elements, which keep their order, and NaN, which comes last."""

import numpy as np
from ops.sampling import FLOATS, INTEGERS, Sample, numbers

from jitgrad.ir import dtypes
from jitgrad.ir.ops.sorting import Sort


def _sort():
    for descending in (False, True):

        def oracle(x, axis=0, descending=descending):
            import torch

            return tuple(torch.sort(x, dim=axis, descending=descending, stable=True))

        for dtype in (dtypes.bool_, *INTEGERS, *FLOATS):
            yield Sample(Sort(0, descending), (numbers((9, 2), dtype, 1),), oracle, smooth=True)
        special = np.array([2.0, np.nan, 1.0, -np.inf, 2.0, 0.0, -0.0, np.inf, np.nan, 1.0])
        yield Sample(Sort(0, descending), (special,), oracle, label=" special")
        for shape, axis in (((2, 3), 1), ((0, 2), 0), ((1,), 0)):
            yield Sample(
                Sort(axis, descending),
                (numbers(shape, dtypes.float64, 2),),
                lambda x, axis=axis, oracle=oracle: oracle(x, axis),
                smooth=True,
            )


TABLE = {"sort": _sort}
