"""Samples of special functions of two operands or with fields, of float parts, and of polynomials."""

import numpy as np
from ops.sampling import FLOATS, Sample, special_values, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.creation import full_like
from jitgrad.ir.ops.float_parts import Frexp
from jitgrad.ir.ops.gamma import Igamma, Igammac, Polygamma, Zeta
from jitgrad.ir.ops.polynomial import (
    ChebyshevT,
    ChebyshevU,
    ChebyshevV,
    ChebyshevW,
    HermiteH,
    HermiteHe,
    LaguerreL,
    LegendreP,
    ShiftedChebyshevT,
    ShiftedChebyshevU,
    ShiftedChebyshevV,
    ShiftedChebyshevW,
)

F32, F64 = dtypes.float32, dtypes.float64


def _torch(name, where="special"):
    def call(*operands):
        import torch

        return getattr(getattr(torch, where) if where else torch, name)(*operands)

    return call


def _polygamma():
    for n in (1, 2, 3):
        oracle = lambda x, n=n: _torch("polygamma", "")(n, x)  # noqa: E731
        for dtype in (F32, F64):
            torch = None if dtype is F64 else oracle  # PyTorch's trigamma has ten digits
            yield Sample(Polygamma(n), (uniform((3, 4), dtype, 0.7, 8.0),), torch, smooth=True, ulps=64.0)
    yield Sample(Polygamma(1), (uniform((20,), F64, -0.9, -0.1),), ulps=16.0)
    yield Sample(Polygamma(1), (np.array([0.0, -0.0, -1.0, np.inf, np.nan, 0.5, 1e10]),), ulps=16.0)


def _of_second(op, torch_name, first, second, ulps=32.0):
    """Differentiable in the second operand alone: the first one is a constant where derivatives are taken."""

    def build():
        oracle = _torch(torch_name)
        for dtype in FLOATS:
            arrays = uniform((3, 4), dtype, *first), uniform((3, 4), dtype, *second, seed=1)
            torch = oracle if dtype.itemsize > 2 else None
            through = lambda b, a, x: b.emit(op, full_like(b, a, first[1]), x)  # noqa: E731
            yield Sample(op, arrays, torch, smooth=dtype is F64, ulps=ulps, differentiated=through)
        values = special_values(F64, 2)
        yield Sample(op, values, ulps=ulps, label=" special")
        finite = np.isfinite(values[0]) & np.isfinite(values[1])  # PyTorch lets some NaN pass as numbers
        yield Sample(op, tuple(v[finite] for v in values), oracle, ulps=ulps, label=" finite")

    return build


def _frexp():
    for dtype in FLOATS:
        oracle = _torch("frexp", None) if dtype.itemsize > 2 else None
        yield Sample(
            Frexp(), (np.array([0.6, 0.9, -0.7, 3.0, 5.5, 1e-3, -100.0]).astype(dtype.np),), oracle, smooth=True
        )
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7]).astype(dtype.np)
        yield Sample(Frexp(), (special,), oracle, label=" special")


def _polynomial(op):
    def build():
        oracle = _torch(op.name)
        for dtype in (F32, F64):
            x, n = np.meshgrid(np.linspace(-2.5, 2.5, 11), np.arange(-1, 12))
            ulps = 256.0  # the recurrence is not contracted, and PyTorch's is
            yield Sample(op, (x.astype(dtype.np), n.astype(dtype.np)), oracle, ulps=ulps)
        for dtype in FLOATS[:2]:
            yield Sample(op, (uniform((5,), dtype), np.arange(5).astype(dtype.np)))
        yield Sample(op, (np.zeros((0,)), np.zeros((0,))), oracle)

    return build


POLYNOMIALS = (
    ChebyshevT(), ChebyshevU(), ChebyshevV(), ChebyshevW(), ShiftedChebyshevT(), ShiftedChebyshevU(),
    ShiftedChebyshevV(), ShiftedChebyshevW(), HermiteH(), HermiteHe(), LaguerreL(), LegendreP(),
)  # fmt: skip
TABLE = {
    "polygamma": _polygamma,
    "igamma": _of_second(Igamma(), "gammainc", (0.6, 3.0), (0.5, 4.0)),
    "igammac": _of_second(Igammac(), "gammaincc", (0.6, 3.0), (0.5, 4.0)),
    "zeta": _of_second(Zeta(), "zeta", (1.5, 4.0), (0.6, 3.0)),
    "frexp": _frexp,
} | {op.name: _polynomial(op) for op in POLYNOMIALS}
