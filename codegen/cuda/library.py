"""Ops that a library computes on the device, where the host would else: cuFFT, cuSOLVER, Thrust's sorting.

Each is written against NumPy's names, which CuPy has for arrays on a device; the simulator runs the same functions with
NumPy itself. What they can't take, or where an algorithm does not succeed, goes to the host, which says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.graph import Node
from jitgrad.ir.op import Op
from jitgrad.ir.ops.factorization import Cholesky, Qr
from jitgrad.ir.ops.fourier import FftC2C, FftC2R, FftR2C
from jitgrad.ir.ops.solve import Inverse, Solve
from jitgrad.ir.ops.sorting import Sort
from jitgrad.ir.ops.spectral import Eigh, EighVals, Svd, SvdVals

from .runtime.gpu import Gpu
from .steps import Pointers, Regions, RunOnHost

Array = Any  # NumPy's or CuPy's
Routine = Callable[[Any, Any, Sequence[Array]], Sequence[Array]]  # of NumPy's namespace, the op and its operands

_FLOATS: Final = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
_NORMS: Final = {
    True: {"none": "forward", "by_root_n": "ortho", "by_n": "backward"},
    False: {"none": "backward", "by_root_n": "ortho", "by_n": "forward"},
}


class Refused(Exception):
    """The library does not take these numbers."""


def _fft_c2c(xp: Any, op: FftC2C, operands: Sequence[Array]) -> Sequence[Array]:
    transform = xp.fft.ifftn if op.inverse else xp.fft.fftn
    return [transform(operands[0], axes=op.axes, norm=_NORMS[op.inverse][op.norm])]


def _fft_r2c(xp: Any, op: FftR2C, operands: Sequence[Array]) -> Sequence[Array]:
    return [xp.fft.rfftn(operands[0], axes=op.axes, norm=_NORMS[False][op.norm])]


def _fft_c2r(xp: Any, op: FftC2R, operands: Sequence[Array]) -> Sequence[Array]:
    (x,) = operands
    lengths = tuple(op.length if a == op.axes[-1] else x.shape[a] for a in op.axes)
    return [xp.fft.irfftn(x, lengths, axes=op.axes, norm=_NORMS[True][op.norm])]


def _sort(xp: Any, op: Sort, operands: Sequence[Array]) -> Sequence[Array]:
    (x,) = operands
    keys = x.view(np.uint8) if x.dtype == np.bool_ else x
    if op.descending:
        keys = xp.flip(keys, op.axis)
    index = xp.argsort(xp.ascontiguousarray(keys), axis=op.axis, kind="stable")
    if op.descending:
        index = xp.flip(x.shape[op.axis] - 1 - index, op.axis)
    return [xp.take_along_axis(x, index, op.axis), index]


def _finite(xp: Any, *operands: Array) -> None:
    if not all(bool(xp.isfinite(x).all()) for x in operands):
        raise Refused


def _no_info(xp: Any, x: Array) -> Array:
    """LAPACK's word for success, for each matrix."""
    return xp.zeros(x.shape[:-2], np.int32)


def _cholesky(xp: Any, op: Cholesky, operands: Sequence[Array]) -> Sequence[Array]:
    (x,) = operands
    _finite(xp, x)
    factor = xp.linalg.cholesky(_adjoint(xp, x) if op.upper else x)
    _finite(xp, factor)
    return [xp.tril(factor), _no_info(xp, x)]


def _adjoint(xp: Any, x: Array) -> Array:
    return xp.conj(xp.swapaxes(x, -1, -2))


def _solve(xp: Any, op: Solve, operands: Sequence[Array]) -> Sequence[Array]:
    _finite(xp, *operands)
    found = xp.linalg.solve(*operands)
    _finite(xp, found)
    return [found, _no_info(xp, operands[0])]


def _inverse(xp: Any, op: Inverse, operands: Sequence[Array]) -> Sequence[Array]:
    _finite(xp, *operands)
    found = xp.linalg.inv(operands[0])
    _finite(xp, found)
    return [found, _no_info(xp, operands[0])]


def _qr(xp: Any, op: Qr, operands: Sequence[Array]) -> Sequence[Array]:
    return list(xp.linalg.qr(operands[0], "complete" if op.complete else "reduced"))


def _hermitian(xp: Any, x: Array, upper: bool) -> Array:
    """The matrices whose triangle is read."""
    _finite(xp, x)
    return _adjoint(xp, x) if upper else x


def _eigh(xp: Any, op: Eigh, operands: Sequence[Array]) -> Sequence[Array]:
    return list(xp.linalg.eigh(_hermitian(xp, operands[0], op.upper), "L"))


def _eigvalsh(xp: Any, op: EighVals, operands: Sequence[Array]) -> Sequence[Array]:
    return [xp.linalg.eigvalsh(_hermitian(xp, operands[0], op.upper), "L")]


def _svd(xp: Any, op: Svd, operands: Sequence[Array]) -> Sequence[Array]:
    _finite(xp, *operands)
    return list(xp.linalg.svd(operands[0], full_matrices=op.full_matrices))


def _svdvals(xp: Any, op: SvdVals, operands: Sequence[Array]) -> Sequence[Array]:
    _finite(xp, *operands)
    return [xp.linalg.svd(operands[0], compute_uv=False)]


ROUTINES: Final[dict[type[Op], Routine]] = {
    FftC2C: _fft_c2c, FftR2C: _fft_r2c, FftC2R: _fft_c2r, Sort: _sort, Cholesky: _cholesky, Solve: _solve,
    Inverse: _inverse, Qr: _qr, Eigh: _eigh, EighVals: _eigvalsh, Svd: _svd, SvdVals: _svdvals,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunInLibrary:
    """An op by its routine, on device memory; by the host where that refuses."""

    routine: Routine
    fallback: RunOnHost

    @classmethod
    def of(cls, node: Node, regions: Regions) -> RunInLibrary | RunOnHost:
        """The step of a node without a kernel."""
        routine, host = ROUTINES.get(type(node.op)), RunOnHost.of(node, regions)
        types = [v.type for v in (*node.operands, *node.results)]
        taken = _FLOATS if not isinstance(node.op, Sort) else tuple(d for d in dtypes.ALL if d is not dtypes.bfloat16)
        if routine is None or node.operands[0].type.dtype not in taken or any(t.numel == 0 for t in types):
            return host
        return cls(routine, host)

    def run(self, g: Gpu, pointers: Pointers, stream: int) -> None:
        """Run it."""
        operands, results = self.fallback.operands, self.fallback.results
        try:
            with g.runtime.library(stream) as xp:
                found = self.routine(xp, self.fallback.node.op, [o.borrow(g, pointers) for o in operands])
                for place, result in zip(results, found, strict=True):
                    place.borrow(g, pointers)[...] = result
        except (Refused, np.linalg.LinAlgError):
            self.fallback.run(g, pointers, stream)
