"""Samples of resampling, look-ups at clamped places, pooling's indices and their reverse."""

import numpy as np
from ops.nn_samples import POOLS
from ops.sampling import FLOATS, Sample, integers, rng, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.grid_sample import GridSample
from jitgrad.ir.ops.pooling import MaxPoolIndices
from jitgrad.ir.ops.resample import Resample, ResampleTranspose, TakeClamped
from jitgrad.ir.ops.unpool import Unpool

F64 = dtypes.float64
# source, target, kind, align_corners
CASES = [
    (5, 8, "nearest", False),
    (8, 5, "nearest", False),
    (7, 3, "nearest-exact", False),
    (4, 9, "linear", False),
    (4, 9, "linear", True),
    (9, 4, "linear", False),
    (1, 3, "linear", True),
    (5, 7, "cubic", False),
    (5, 7, "cubic", True),
    (3, 2, "cubic", False),
    (40, 3, "linear-antialias", False),
    (4, 7, "linear-antialias", True),
    (9, 4, "cubic-antialias", False),
    (7, 3, "mean", False),
    (40, 2, "mean", False),
    (3, 3, "mean", False),
]
MODES = {"linear": "bilinear", "cubic": "bicubic"}


def _step(source, target, align):
    return ((source - 1) / (target - 1) if target > 1 else 0.0) if align else source / target


def _oracle(source, target, kind, align):
    """By PyTorch's two-dimensional functions, along the last axis but one."""
    base, _, antialias = kind.partition("-anti")
    if kind == "mean":
        return lambda x: _functional("adaptive_avg_pool2d", x, (target, x.shape[3]))
    options = {"antialias": bool(antialias), "align_corners": align} if base in MODES else {}
    return lambda x: _functional(
        "interpolate", x, size=(target, x.shape[3]), mode=MODES.get(base, base), **options
    )  # fmt: skip


def _functional(name, *arguments, **options):
    import torch

    return getattr(torch.nn.functional, name)(*arguments, **options)


def _resamples():
    for source, target, kind, align in CASES:
        op = Resample(2, source, target, kind, _step(source, target, align), align)
        for dtype in (dtypes.float32, F64):
            x = uniform((2, 1, source, 2), dtype)
            yield Sample(op, (x,), _oracle(source, target, kind, align), smooth=True, ulps=32)
        for axis, shape in ((0, (source,)), (1, (2, source)), (0, (source, 0))):
            other = Resample(axis, source, target, kind, op.scale, align)
            yield Sample(other, (uniform(shape, dtypes.float16),), ulps=4)
    x = integers((2, 4), dtypes.int32)
    yield Sample(Resample(1, 4, 7, "nearest", 4 / 7, False), (x,))


def _transposes():
    for source, target, kind, align in CASES:
        for dtype in (dtypes.float32, F64):
            op = ResampleTranspose(1, source, target, kind, _step(source, target, align), align)
            yield Sample(op, (uniform((2, target, 3), dtype),), smooth=True, ulps=32)


def _takes():
    index = np.array([[0, 2, -3], [7, 1, 1]])
    for dtype in (*FLOATS, dtypes.int64):
        x = uniform((2, 3, 2), dtype) if dtype.is_floating_point else integers((2, 3, 2), dtype)
        yield Sample(TakeClamped(1), (x, index), lambda x, i: x[:, i.clamp(0, 2)], smooth=True)
        yield Sample(TakeClamped(0), (x, index[0]), lambda x, i: x[i.clamp(0, 1)], smooth=True)
    yield Sample(TakeClamped(0), (uniform((3,), F64), np.array(1)), lambda x, i: x[i], smooth=True)
    yield Sample(TakeClamped(0), (uniform((0, 2), F64), np.zeros((0,), np.int64)), lambda x, i: x[i])


def _max_pool_indices():
    for shape, *numbers in POOLS:
        op = MaxPoolIndices(*numbers)

        def oracle(x, op=op):
            name = f"max_pool{len(op.kernel)}d"
            numbers = op.kernel, op.stride, op.padding, op.dilation, op.ceil_mode
            return _functional(name, x, *numbers, return_indices=True)[1]

        x = rng(3).permutation(int(np.prod(shape))).reshape(shape)
        yield Sample(op, (x.astype(np.float32),), oracle)
        yield Sample(op, ((x // 4).astype(np.float64),), oracle, label=" with ties")
        yield Sample(op, (np.full(shape, -np.inf, np.float32),), oracle, label=" of minus infinity")
    special = np.array([[np.nan, 1.0, -np.inf, -np.inf, np.nan, np.nan, -0.0, 0.0]], np.float32)
    oracle = lambda x: _functional("max_pool1d", x, 2, return_indices=True)[1]  # noqa: E731
    yield Sample(MaxPoolIndices((2,), (2,), (0,), (1,)), (special,), oracle, label=" special")
    wide = np.zeros((1, 40))
    yield Sample(MaxPoolIndices((40,), (40,), (10,), (1,)), (wide[:, :30],), label=" a wide window")


def _unpools():
    index = np.array([[0, 3, 5], [4, 1, 2]])
    for dtype in (*FLOATS, dtypes.int32):
        x = uniform((2, 3), dtype) if dtype.is_floating_point else integers((2, 3), dtype)
        yield Sample(Unpool(6), (x, index), lambda x, i: x.new_zeros(2, 6).scatter(1, i, x), smooth=True)
    yield Sample(Unpool(6), (uniform((0, 3), F64), index[:0]))


GRIDS = [
    ((2, 3, 4, 5), (3, 2), GridSample("bilinear", "zeros", False)),
    ((1, 2, 4, 3), (3, 2), GridSample("bilinear", "border", True)),
    ((1, 2, 4, 3), (1, 2), GridSample("bilinear", "reflection", False)),
    ((1, 2, 4, 3), (3, 2), GridSample("nearest", "reflection", True)),
    ((1, 2, 4, 3), (2, 2), GridSample("bicubic", "zeros", True)),
    ((1, 2, 1, 1), (2, 2), GridSample("bicubic", "reflection", True)),
    ((1, 2, 3, 2, 4), (1, 2, 2), GridSample("bilinear", "zeros", True)),
    ((1, 2, 3, 2, 4), (2, 1, 3), GridSample("nearest", "border", False)),
]


def _grid_samples():
    for shape, out, op in GRIDS:
        oracle = lambda x, g, op=op: _functional("grid_sample", x, g, *op.attributes().values())  # noqa: E731
        for dtype in (dtypes.float32, F64):
            grid = uniform((shape[0], *out, len(out)), dtype, -1.3, 1.3, seed=1)
            # Where places are moved inside or jump, derivatives do too.
            smooth = op.padding == "zeros" and op.mode != "nearest"
            yield Sample(op, (uniform(shape, dtype), grid), oracle, smooth=smooth, ulps=256)
    special = np.array([[[[np.nan, 0.0], [0.3, np.inf], [-np.inf, 0.1]]]])
    for padding in ("zeros", "border"):
        op = GridSample("nearest", padding, True)
        oracle = lambda x, g, op=op: _functional("grid_sample", x, g, *op.attributes().values())  # noqa: E731
        yield Sample(op, (uniform((1, 1, 2, 3), F64), special), oracle, label=" special")
    half = (uniform((1, 2, 3, 3), dtypes.float16), uniform((1, 2, 2, 2), dtypes.float16, seed=1))
    yield Sample(GridSample("bilinear", "zeros", False), half)


TABLE = {
    "grid_sample": _grid_samples,
    "resample": _resamples,
    "resample_transpose": _transposes,
    "take_clamped": _takes,
    "max_pool_indices": _max_pool_indices,
    "unpool": _unpools,
}
