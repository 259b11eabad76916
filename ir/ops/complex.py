"""Complex numbers: `Conj`, `Real`, `Imag`, `MakeComplex`. Gradients are conjugate, as in PyTorch.

For a real loss `L` of `z = x + iy` the cotangent of `z` is `dL/dx + i dL/dy`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..dtypes import DType
from ..graph import Value
from ..op import Array, Cotangents, Pointwise, Values, op
from .creation import zeros_like

__all__ = ["Conj", "Imag", "MakeComplex", "Real", "conj"]


def conj(b: Builder, value: Value) -> Value:
    """The complex conjugate; real values as they are."""
    return b(Conj(), value) if value.type.dtype.is_complex else value


@op
class Conj(Pointwise):
    """The complex conjugate, elementwise.

    >>> import jitgrad as jg
    >>> jg.conj(jg.tensor([1 + 2j]))
    tensor([1.-2.j])
    """

    name = "conj"
    public = ("conj",)
    accepts = ("complex",)
    inplace = False
    ufunc = np.conjugate

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Its own transpose."""
        (g,) = cotangents
        assert g is not None
        return (b(self, g),)


class _Part(Pointwise):
    accepts = ("complex",)
    inplace = False
    fast = False

    def result_dtype(self, *operands: DType) -> DType:
        """The type of the parts."""
        return dtypes.to_real(operands[0])


@op
class Real(_Part):
    """The real part of a complex tensor, elementwise."""

    name = "real"
    ufunc = np.real

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Real."""
        (g,) = cotangents
        assert g is not None
        return (b(MakeComplex(), g, zeros_like(b, g)),)


@op
class Imag(_Part):
    """The imaginary part of a complex tensor, elementwise."""

    name = "imag"
    ufunc = np.imag

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Imaginary."""
        (g,) = cotangents
        assert g is not None
        return (b(MakeComplex(), zeros_like(b, g), g),)


def _make_complex(real: Array, imag: Array) -> Array:
    out = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
    out.real, out.imag = real, imag
    return out


@op
class MakeComplex(Pointwise):
    """A complex tensor from its real and imaginary parts, both float32 or both float64.

    >>> import jitgrad as jg
    >>> jg.complex(jg.tensor([1.0]), jg.tensor([2.0]))
    tensor([1.+2.j])
    """

    arity = 2
    name = "complex"
    public = ("complex",)
    accepts = ("float",)
    inplace = False
    fast = False
    ufunc = _make_complex

    def result_dtype(self, *operands: DType) -> DType:
        """The complex type with such parts."""
        return dtypes.to_complex(operands[0])

    def can_emit(self, *operands: object) -> bool:
        """Never: complex numbers run through NumPy."""
        return False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The parts of the cotangent."""
        (g,) = cotangents
        assert g is not None
        return b(Real(), g) if needs[0] else None, b(Imag(), g) if needs[1] else None
