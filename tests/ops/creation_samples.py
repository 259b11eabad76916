"""Samples of ops that make values from nothing."""

from ops.sampling import Sample, numbers

from jitgrad.ir import dtypes
from jitgrad.ir.ops.creation import Constant, Full, Iota, Literal


def _full():
    for dtype in dtypes.ALL:
        for shape in ((), (2, 3), (0, 2)):
            yield Sample(Full(shape, dtype, 3), ())
    yield Sample(Full((2,), dtypes.uint8, -1), ())
    yield Sample(Full((2,), dtypes.float32, float("nan")), ())


def _iota():
    for dtype in (*dtypes.ALL[1:6], dtypes.float32, dtypes.float64):
        for shape, axis in (((4,), 0), ((2, 3), 0), ((2, 3), 1), ((0,), 0)):
            yield Sample(Iota(shape, axis, dtype), ())


def _constant():
    for dtype in dtypes.ALL:
        yield Sample(Constant(Literal(numbers((2, 3), dtype))), ())


TABLE = {"full": _full, "iota": _iota, "constant": _constant}
