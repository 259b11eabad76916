"""Samples of reading and writing at integer indices, with negative and repeated ones."""

import numpy as np
from ops.sampling import Sample, numbers, rng

from jitgrad.ir import dtypes
from jitgrad.ir.ops.indexing import Gather, IndexAdd, IndexPut, IndexSelect, Scatter, ScatterAdd, TakeNd
from jitgrad.ir.ops.scatter_extreme import ScatterExtreme
from jitgrad.ir.ops.scatter_product import ScatterProduct

GATHERS = [
    (0, (3, 4), (5, 4)),
    (1, (3, 4), (3, 2)),
    (1, (3, 4), (2, 6)),
    (0, (4,), (0,)),
    (2, (2, 3, 4), (2, 2, 5)),
]
SELECTS = [(0, (3, 4), 7), (1, (2, 3, 2), 4), (0, (3,), 0), (0, (5, 0), 2)]
TAKES = [
    ((0,), (4, 3), (5,)),
    ((1,), (4, 3), (2, 2)),
    ((0, 1), (4, 3), (5,)),
    ((1, 2), (2, 3, 4), (2, 3)),
    ((0, 2), (2, 3, 4), (5,)),
    ((0, 2), (2, 3, 4), ()),
    ((0, 1), (4, 3), (0,)),
]
TYPES = (dtypes.float64, dtypes.float32, dtypes.float16, dtypes.int32, dtypes.complex64)


def indices(length, shape, dtype=dtypes.int64, seed=0):
    """Integers in range, some negative, some repeated."""
    return np.asarray(rng(seed).integers(-length, length, shape)).astype(dtype.np)


def _gathers():
    for axis, shape, index_shape in GATHERS:
        index = indices(shape[axis], index_shape)
        for dtype in TYPES:
            yield Sample(
                Gather(axis),
                (numbers(shape, dtype), index),
                lambda x, i, a=axis: x.gather(a, i % x.shape[a]),
                smooth=True,
            )


def _scatters(cls):
    def build():
        for axis, shape, index_shape in GATHERS:
            index = indices(shape[axis], index_shape)

            def oracle(x, i, source, axis=axis):
                return x.scatter_add(axis, i % x.shape[axis], source)

            for dtype in TYPES:
                arrays = (numbers(shape, dtype), index, numbers(index_shape, dtype, seed=1))
                has_oracle = cls is ScatterAdd  # of repeated places PyTorch sets any
                yield Sample(cls(axis), arrays, oracle if has_oracle else None, smooth=True, ulps=16)

    return build


def _extremes():
    for axis, shape, index_shape in GATHERS:
        index = indices(shape[axis], index_shape)
        for largest in (True, False):

            def oracle(x, i, source, axis=axis, name="amax" if largest else "amin"):
                return x.scatter_reduce(axis, i % x.shape[axis], source, name)

            for dtype in TYPES[:4]:
                arrays = (numbers(shape, dtype), index, numbers(index_shape, dtype, seed=1))
                yield Sample(ScatterExtreme(axis, largest), arrays, oracle, smooth=True)


def _products():
    for axis, shape, index_shape in GATHERS:
        index = indices(shape[axis], index_shape)

        def oracle(x, i, source, axis=axis):
            return x.scatter_reduce(axis, i % x.shape[axis], source, "prod")

        for dtype in TYPES:
            for with_zeros in (False, True):
                source = numbers(index_shape, dtype, seed=1)
                if with_zeros and source.size:
                    source.reshape(-1)[::3] = 0
                arrays = (numbers(shape, dtype), index, source)
                has_oracle = dtype is not dtypes.float16  # PyTorch rounds once, at the end
                yield Sample(
                    ScatterProduct(axis), arrays, oracle if has_oracle else None, smooth=not with_zeros, ulps=16
                )


def _selects():
    for axis, shape, count in SELECTS:
        index = indices(shape[axis], (count,))
        for dtype in TYPES:
            yield Sample(
                IndexSelect(axis),
                (numbers(shape, dtype), index),
                lambda x, i, a=axis: x.index_select(a, i % x.shape[a]),
                smooth=True,
            )


def _index_adds():
    for axis, shape, count in SELECTS:
        index = indices(shape[axis], (count,))
        for dtype in TYPES:
            source = numbers((*shape[:axis], count, *shape[axis + 1 :]), dtype, seed=1)
            yield Sample(
                IndexAdd(axis),
                (numbers(shape, dtype), index, source),
                lambda x, i, s, a=axis: x.index_add(a, i % x.shape[a], s),
                smooth=True,
                ulps=16,
            )


def _key(axes, rank, named):
    key = [slice(None)] * rank
    for axis, index in zip(axes, named, strict=True):
        key[axis] = index
    return tuple(key)


def _takes():
    for axes, shape, index_shape in TAKES:
        named = tuple(indices(shape[a], index_shape, seed=a) for a in axes)
        for dtype in TYPES:
            yield Sample(
                TakeNd(axes),
                (numbers(shape, dtype), *named),
                lambda x, *i, axes=axes: x[_key(axes, x.ndim, i)],
                smooth=True,
            )


def _puts():
    for axes, shape, index_shape in TAKES:
        named = tuple(indices(shape[a], index_shape, seed=a) for a in axes)
        for accumulate in (False, True):
            # PyTorch's takes indices of leading axes.
            def oracle(x, *rest):
                return x.clone().index_put_(rest[:-1], rest[-1], accumulate=True)

            has_oracle = accumulate and axes == tuple(range(len(axes)))
            for dtype in TYPES:
                x = numbers(shape, dtype)
                value = numbers(TakeNd(axes).reference(x, *named).shape, dtype, seed=9)
                yield Sample(
                    IndexPut(axes, accumulate),
                    (x, *named, value),
                    oracle if has_oracle else None,
                    smooth=True,
                    ulps=16,
                )


TABLE = {
    "scatter_extreme": _extremes,
    "scatter_product": _products,
    "gather": _gathers,
    "scatter_add": _scatters(ScatterAdd),
    "scatter": _scatters(Scatter),
    "index_select": _selects,
    "index_add": _index_adds,
    "take_nd": _takes,
    "index_put": _puts,
}
