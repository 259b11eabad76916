"""Samples of views, of what is made of them (padding, concatenation, folding), and of writes through them."""

import sys

import numpy as np
from ops.sampling import Sample, numbers

from jitgrad.ir import dtypes
from jitgrad.ir.ops.again import Again
from jitgrad.ir.ops.reinterpret import Reinterpret
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.ops.slicing import Concat, Diagonal, Pad, Slice
from jitgrad.ir.ops.strided import AsStrided
from jitgrad.ir.ops.windows import Fold, Windows
from jitgrad.ir.ops.write import WriteView

RESHAPES = [
    (Reshape((6,)), (2, 3)),
    (Reshape((2, 3)), (6,)),
    (Reshape((3, 2)), (2, 3)),
    (Reshape((4, 3, 1, 2)), (2, 6, 2)),
    (Reshape((1, 2, 1, 3, 1)), (2, 1, 3)),
    (Reshape((2, 3, 4, 5)), (2, 12, 5)),
    (Reshape(()), (1, 1)),
    (Reshape((1,)), ()),
    (Reshape((0, 5)), (3, 0)),
]
PERMUTES = [
    (Permute((1, 0)), (2, 3)),
    (Permute((2, 0, 1)), (2, 3, 4)),
    (Permute(()), ()),
    (Permute((0, 2, 1)), (2, 0, 4)),
]
FLIPS = [
    (Flip((0,)), (3,)),
    (Flip((1,)), (2, 3)),
    (Flip((0, 2)), (2, 3, 4)),
    (Flip(()), ()),
    (Flip((0,)), (0, 2)),
]
SLICES = [
    (Slice((1,), (3,), (2,)), (6,)),
    (Slice((5,), (3,), (-2,)), (6,)),
    (Slice((4,), (5,), (-1,)), (5,)),
    (Slice((0, 1), (2, 2), (1, 1)), (3, 4)),
    (Slice((0, 3), (3, 4), (1, -1)), (3, 4)),
    (Slice((2, 0), (1, 0), (1, 1)), (3, 4)),
    (Slice((), (), ()), ()),
]
DIAGONALS = [
    (Diagonal(0, 0, 1), (3, 3)),
    (Diagonal(1, 0, 1), (3, 5)),
    (Diagonal(-1, 0, 1), (3, 5)),
    (Diagonal(1, 2, 0), (3, 2, 4)),
    (Diagonal(7, 0, 1), (3, 3)),
]
STRIDED = [
    (AsStrided((2, 3), (3, 1)), (6,)),
    (AsStrided((2, 2), (1, 1), 1), (5,)),
    (AsStrided((3, 2), (0, 2)), (4,)),
    (AsStrided((), ()), (2,)),
    (AsStrided((0, 2), (1, 1)), (3,)),
]
WINDOWS = [
    (Windows((0,), (3,), (1,), (1,)), (5,)),
    (Windows((0,), (2,), (2,), (1,)), (7,)),
    (Windows((0,), (2,), (3,), (1,)), (9,)),
    (Windows((0,), (3,), (2,), (1,)), (8,)),
    (Windows((0,), (2,), (1,), (3,)), (8,)),
    (Windows((0,), (3,), (2,), (2,)), (9,)),
    (Windows((2, 3), (3, 2), (1, 2), (1, 1)), (2, 1, 5, 6)),
    (Windows((1, 0), (2, 2), (1, 1), (1, 2)), (4, 3)),
    (Windows((1,), (2,), (1,), (1,)), (0, 3)),
]
VIEWS = RESHAPES + PERMUTES + FLIPS + SLICES + DIAGONALS + WINDOWS
WRITES = [
    ((Slice((1,), (3,), (1,)),), (6,)),
    ((Slice((5,), (3,), (-2,)),), (6,)),
    ((Slice((0,), (3,), (2,)), Slice((2,), (2,), (-1,))), (6,)),
    ((Permute((1, 0)), Slice((1, 0), (2, 1), (1, 1))), (2, 4)),
    ((Reshape((2, 3)), Slice((1, 0), (1, 3), (1, 1)), Reshape((3,))), (6,)),
    ((Diagonal(0, 0, 1),), (3, 3)),
    ((Diagonal(-1, 1, 0),), (3, 5)),
    ((Slice((0, 1), (3, 2), (1, 1)), Diagonal(-1, 0, 1)), (3, 4)),
    ((Flip((0,)), Slice((0,), (2,), (1,))), (5,)),
    ((Slice((3,), (0,), (1,)),), (5,)),
    ((), (2, 2)),
]
PADS = [
    (Pad((1,), (2,)), (3,)),
    (Pad((0, 2), (1, 0)), (2, 3)),
    (Pad((0, 0), (0, 0)), (2, 3)),
    (Pad((1, 1), (1, 1)), (0, 3)),
    (Pad((), ()), ()),
]
CONCATS = [
    (0, [(2, 3), (1, 3), (4, 3)]),
    (1, [(2, 3), (2, 0), (2, 1)]),
    (0, [(3,)]),
    (1, [(0, 2), (0, 3)]),
]


def region_of(views, type):
    """The type that a chain of views gives."""
    for view in views:
        (type,) = view.infer(type)
    return type


def fold_of(windows, shape):
    """The transpose of `windows` on this shape."""
    lengths = tuple(shape[a] for a in windows.axes)
    return Fold(lengths, windows.axes, windows.sizes, windows.steps, windows.dilations)


def _views(cases, oracle):
    def build():
        for op, shape in cases:
            for dtype in (dtypes.float64, dtypes.int64, dtypes.bool_, dtypes.complex64):
                yield Sample(op, (numbers(shape, dtype),), lambda x, op=op: oracle(op, x), smooth=True)

    return build


def _again():
    for dtype in (dtypes.float64, dtypes.int64, dtypes.bool_):
        x = numbers((2, 3), dtype)
        yield Sample(Again(), (x,), lambda x: x, smooth=True)
        yield Sample(Again(), (x, numbers((4,), dtypes.float64)), lambda x, _: x, smooth=True)


def _sliced(op, x):
    import torch

    for axis, (start, size, step) in enumerate(zip(op.starts, op.sizes, op.steps, strict=True)):
        x = x.index_select(axis, start + step * torch.arange(size))
    return x


def _windows_of(op, x):
    for axis, size, step in zip(op.axes, op.sizes, op.steps, strict=True):
        x = x.unfold(axis, size, step)
    return x


def _windows():
    for op, shape in WINDOWS:
        has_oracle = set(op.dilations) == {1}
        oracle = (lambda x, op=op: _windows_of(op, x)) if has_oracle else None
        yield Sample(op, (numbers(shape, dtypes.float64),), oracle, smooth=True)


def _folds():
    for windows, shape in WINDOWS:
        for dtype in (dtypes.float64, dtypes.float16, dtypes.int32):
            counts = windows.reference(np.zeros(shape)).shape
            yield Sample(fold_of(windows, shape), (numbers(counts, dtype),), smooth=True)


def _writes():
    for views, shape in WRITES:
        for dtype in (dtypes.float64, dtypes.int32):
            base = numbers(shape, dtype)
            region = region_of(views, Sample(WriteView(()), (base,)).types[0])
            yield Sample(WriteView(views), (base, numbers(region.shape, dtype, seed=1)), smooth=True)


def _padded(op, x, fill):
    import torch

    widths = [w for pair in reversed(list(zip(op.low, op.high, strict=True))) for w in pair]
    return torch.nn.functional.pad(x, widths, value=fill.item())


def _pads():
    for op, shape in PADS:
        for dtype in (dtypes.float64, dtypes.int32):
            fill = np.array(7, dtype.np)
            oracle = (lambda x, fill, op=op: _padded(op, x, fill)) if shape else None
            yield Sample(op, (numbers(shape, dtype), fill), oracle, smooth=True)


def _concats():
    for axis, shapes in CONCATS:
        for dtype in (dtypes.float64, dtypes.int32):
            parts = tuple(numbers(s, dtype, seed=i) for i, s in enumerate(shapes))
            yield Sample(Concat(axis), parts, lambda *xs, axis=axis: _cat(xs, axis), smooth=True)


def _cat(xs, axis):
    import torch

    return torch.cat(xs, axis)


def _reinterpreted():
    for have, want in (("float32", "int32"), ("float64", "int32"), ("int16", "float64"), ("bool_", "uint8"),
                       ("complex64", "float32")):  # fmt: skip
        x = numbers((2, 4), getattr(dtypes, have))
        op = Reinterpret(getattr(dtypes, want))
        yield Sample(op, (x,), lambda x, to=want: x.view(getattr(sys.modules["torch"], to)))


TABLE = {
    "again": _again,
    "reshape": _views(RESHAPES, lambda op, x: x.reshape(op.shape)),
    "permute": _views(PERMUTES, lambda op, x: x.permute(op.perm)),
    "flip": _views(FLIPS, lambda op, x: x.flip(op.axes)),
    "slice": _views(SLICES, _sliced),
    "diagonal": _views(DIAGONALS, lambda op, x: x.diagonal(op.offset, op.axis1, op.axis2)),
    "windows": _windows,
    "as_strided": _views(STRIDED, lambda op, x: x.as_strided(op.shape, op.strides, op.offset)),
    "reinterpret": _reinterpreted,
    "fold": _folds,
    "write_view": _writes,
    "pad": _pads,
    "concat": _concats,
}
