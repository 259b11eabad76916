"""Discrete Fourier transforms: `FftC2C`, `FftR2C`, `FftC2R`, by pocketfft through `scipy.fft`.

Each is linear, so that its gradient is a transform again. `norm` is the factor in front of the sums: "none" is 1,
"by_n" is one over the number of points summed over, "by_root_n" its square root.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..config import config
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..types import Shape, TensorType
from .arithmetic import Add
from .complex import Real
from .creation import Full
from .host import HostOp
from .slicing import Pad, Slice
from .write import embedded

__all__ = ["FftC2C", "FftC2R", "FftR2C"]

NORMS = ("none", "by_root_n", "by_n")
# SciPy names a factor by the direction it is left out of.
_SCIPY_NORMS = {
    True: {"none": "forward", "by_root_n": "ortho", "by_n": "backward"},
    False: {"none": "backward", "by_root_n": "ortho", "by_n": "forward"},
}
_WORTH_THREADS = 1 << 16  # elements; below, starting workers costs more than they save


def _transform(name: str, x: Array, axes: tuple[int, ...], inverse: bool, norm: str, **options: Any) -> Array:
    """`scipy.fft.<name>`, on several threads where that pays."""
    from scipy import fft  # lazy: loads SciPy

    workers = (config.num_threads or os.cpu_count() or 1) if x.size >= _WORTH_THREADS else 1
    return getattr(fft, name)(x, axes=axes, norm=_SCIPY_NORMS[inverse][norm], workers=workers, **options)


class _Fourier(HostOp):
    axes: tuple[int, ...]
    norm: str
    _operand_kind = "complex"

    def _check(self, x: TensorType) -> None:
        """A single or double operand of the right kind, distinct axes of one or more points, a known norm."""
        kinds = {"float": (dtypes.float32, dtypes.float64), "complex": (dtypes.complex64, dtypes.complex128)}
        if x.dtype not in kinds[self._operand_kind]:
            raise DTypeError(f"{self.name}: Unsupported dtype {x.dtype.name}{operand_lines([x])}")
        if not self.axes or len(set(self.axes)) != len(self.axes) or any(not 0 <= a < x.ndim for a in self.axes):
            raise ShapeError(f"{self.name}: axes {list(self.axes)} do not fit {x.ndim} axes{operand_lines([x])}")
        if self.norm not in NORMS:
            raise ArgumentError(f"{self.name}: norm is {self.norm!r}, not one of {', '.join(NORMS)}")
        for a in self.axes:
            if x.shape[a] < 1:
                raise ShapeError(f"{self.name}: axis {a} has no points{operand_lines([x])}")


@op
class FftC2C(_Fourier):
    """The discrete Fourier transform of a complex operand over `axes`, or its inverse.

    >>> import jitgrad as jg
    >>> jg.fft.fft(jg.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """

    axes: tuple[int, ...]
    inverse: bool
    norm: str
    name = "fft_c2c"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        self._check(operands[0])
        return operands

    def reference(self, *operands: Array) -> Array:
        """`scipy.fft.fftn` or `ifftn`."""
        (x,) = operands
        if not x.size:
            return x.copy()
        return _transform("ifftn" if self.inverse else "fftn", x, self.axes, self.inverse, self.norm)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The transform in the other direction, with the same factor."""
        (g,) = cotangents
        assert g is not None
        return (b(FftC2C(self.axes, not self.inverse, self.norm), g),)


def _halved(shape: Shape, axis: int) -> Shape:
    """The shape without the half along `axis` that follows by symmetry."""
    return tuple(n // 2 + 1 if a == axis else n for a, n in enumerate(shape))


@op
class FftR2C(_Fourier):
    """The discrete Fourier transform of a real operand; of the last of `axes` only the half that is not redundant.

    >>> import jitgrad as jg
    >>> jg.fft.rfft(jg.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """

    axes: tuple[int, ...]
    norm: str
    name = "fft_r2c"
    _operand_kind = "float"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Complex, `n // 2 + 1` elements along the last of `axes`."""
        (x,) = operands
        self._check(x)
        return (TensorType(_halved(x.shape, self.axes[-1]), dtypes.to_complex(x.dtype), x.device),)

    def reference(self, *operands: Array) -> Array:
        """`scipy.fft.rfftn`."""
        (x,) = operands
        if not x.size:
            return np.empty(_halved(x.shape, self.axes[-1]), np.result_type(x.dtype, np.complex64))
        return _transform("rfftn", x, self.axes, False, self.norm)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Zeros for the half left out, the inverse transform, the real part."""
        (g,) = cotangents
        assert g is not None
        last, length = self.axes[-1], operands[0].shape[self.axes[-1]]
        high = tuple(length - g.shape[last] if a == last else 0 for a in range(g.ndim))
        zero = b(Full((), g.type.dtype, 0, g.type.device))
        whole = b(Pad((0,) * g.ndim, high), g, zero)
        return (b(Real(), b(FftC2C(self.axes, True, self.norm), whole)),)


@op
class FftC2R(_Fourier):
    """The inverse transform of half a spectrum, `length` real points along the last of `axes`.

    >>> import jitgrad as jg
    >>> jg.fft.irfft(jg.tensor([1 + 0j, 1, 1]))
    tensor([1., 0., 0., 0.])
    """

    axes: tuple[int, ...]
    length: int
    norm: str
    name = "fft_c2r"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real, `length` elements along the last of `axes`, of which the operand has `length // 2 + 1`."""
        (x,) = operands
        self._check(x)
        last = self.axes[-1]
        if self.length < 1 or x.shape[last] != self.length // 2 + 1:
            raise ShapeError(
                f"fft_c2r: {x.shape[last]} points along axis {last} are not half of {self.length}"
                f"{operand_lines(operands)}"
            )
        return (TensorType(self._shape(x.shape), dtypes.to_real(x.dtype), x.device),)

    def _shape(self, shape: Shape) -> Shape:
        return tuple(self.length if a == self.axes[-1] else n for a, n in enumerate(shape))

    def reference(self, *operands: Array) -> Array:
        """`scipy.fft.irfftn`."""
        (x,) = operands
        shape = self._shape(x.shape)
        if not x.size:
            return np.empty(shape, x.real.dtype)
        return _transform("irfftn", x, self.axes, True, self.norm, s=tuple(shape[a] for a in self.axes))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The forward transform; what stands for two elements of the spectrum counts twice."""
        (g,) = cotangents
        assert g is not None
        return (_doubled(b, b(FftR2C(self.axes, self.norm), g), self.axes[-1], self.length),)


def _doubled(b: Builder, half: Value, axis: int, length: int) -> Value:
    """Elements 1 to `(length - 1) // 2` along `axis` twice the size."""
    count = length - half.shape[axis]
    shape = tuple(count if a == axis else n for a, n in enumerate(half.shape))
    inner = Slice(tuple(int(a == axis and count > 0) for a in range(half.ndim)), shape, (1,) * half.ndim)
    return b(Add(), half, embedded(b, inner, b(inner, half), half.shape))
