"""Samples of reading and writing at integer indices, with negative and repeated ones."""

from jitgrad.ir import dtypes
from jitgrad.ir.ops.indexing import Gather, IndexAdd, IndexPut, IndexSelect, Scatter, ScatterAdd, TakeNd

from ops.sampling import Sample, numbers, rng

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
    import numpy as np

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


def _scatters(cls, method):
    def build():
        for axis, shape, index_shape in GATHERS:
            index = indices(shape[axis], index_shape)

            def oracle(x, i, source, axis=axis):
                return getattr(x, method)(axis, i % x.shape[axis], source)

            for dtype in TYPES:
                arrays = (numbers(shape, dtype), index, numbers(index_shape, dtype, seed=1))
                yield Sample(cls(axis), arrays, oracle if method == "scatter_add" else None, smooth=True, ulps=16)

    return build


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

            def oracle(x, *rest, axes=axes):
                *named, value = rest
                key = [None] * x.ndim
                for axis, index in zip(axes, named, strict=True):
                    key[axis] = index
                return x.clone().index_put_(key, value, accumulate=True)

            for dtype in TYPES:
                x = numbers(shape, dtype)
                value = numbers(TakeNd(axes).reference(x, *named).shape, dtype, seed=9)
                yield Sample(
                    IndexPut(axes, accumulate),
                    (x, *named, value),
                    oracle if accumulate and None not in axes and axes == tuple(range(len(axes))) else None,
                    smooth=True,
                    ulps=16,
                )


TABLE = {
    "gather": _gathers,
    "scatter_add": _scatters(ScatterAdd, "scatter_add"),
    "scatter": _scatters(Scatter, "scatter"),
    "index_select": _selects,
    "index_add": _index_adds,
    "take_nd": _takes,
    "index_put": _puts,
}
