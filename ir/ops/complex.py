"""Complex numbers: `Conj`, `MakeComplex`, views of and as their parts. Gradients are conjugate, as in PyTorch.

For a real loss `L` of `z = x + iy` the cotangent of `z` is `dL/dx + i dL/dy`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..dtypes import DType
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Pointwise, Values, View, op
from ..types import TensorType
from .creation import zeros_like

__all__ = ["Conj", "Imag", "MakeComplex", "Real", "ViewAsComplex", "ViewAsReal", "conj"]


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


class _Part(View):
    """A view of one part of complex numbers: writes to it change that part."""

    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Complex numbers; the type of their parts."""
        (x,) = operands
        if not x.dtype.is_complex:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        return (x.with_dtype(dtypes.to_real(x.dtype)),)


@op
class Real(_Part):
    """The real part of a complex tensor, elementwise."""

    name = "real"

    def reference(self, *operands: Array) -> Array:
        """NumPy's view of the part."""
        return np.asarray(operands[0]).real

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

    def reference(self, *operands: Array) -> Array:
        """NumPy's view of the part."""
        return np.asarray(operands[0]).imag

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Imaginary."""
        (g,) = cotangents
        assert g is not None
        return (b(MakeComplex(), zeros_like(b, g), g),)


def _make_complex(real: Array, imag: Array) -> Array:
    lies: Array = np.where(np.array(True), real, imag)  # in memory as the operands do
    out: Array = lies.astype(np.result_type(real.dtype, np.complex64))
    out.imag = imag
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


@op
class ViewAsReal(View):
    """Complex numbers as pairs of floats, along a new last axis of length 2: the same memory.

    >>> import jitgrad as jg
    >>> jg.view_as_real(jg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """

    name = "view_as_real"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Complex numbers; the type of their parts."""
        (x,) = operands
        if not x.dtype.is_complex:
            raise DTypeError(f"view_as_real is only supported for complex tensors{operand_lines(operands)}")
        return (TensorType((*x.shape, 2), dtypes.to_real(x.dtype), x.device),)

    def reference(self, *operands: Array) -> Array:
        """The real parts, and half an element further the imaginary ones."""
        part = np.asarray(operands[0]).real
        strides = (*part.strides, part.itemsize)
        return np.lib.stride_tricks.as_strided(part, (*part.shape, 2), strides)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The pairs as complex numbers."""
        (g,) = cotangents
        assert g is not None
        return (b(ViewAsComplex(), g),)


@op
class ViewAsComplex(View):
    """Pairs of floats along the last axis, which has length 2, as complex numbers: the same memory.

    >>> import jitgrad as jg
    >>> jg.view_as_complex(jg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """

    name = "view_as_complex"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """float32 or float64, with a last axis of length 2."""
        (x,) = operands
        if x.dtype not in (dtypes.float32, dtypes.float64):
            raise DTypeError(
                f"view_as_complex is only supported for float32 and float64 tensors{operand_lines(operands)}"
            )
        if x.ndim == 0 or x.shape[-1] != 2:
            raise ShapeError(f"view_as_complex: Tensor must have a last dimension of size 2{operand_lines(operands)}")
        return (TensorType(x.shape[:-1], dtypes.to_complex(x.dtype), x.device),)

    def reference(self, *operands: Array) -> Array:
        """The pairs read as one element, if they lie side by side; else of a copy."""
        (x,) = operands
        if not _holds_pairs(x):
            x = np.ascontiguousarray(x)
        if 0 in x.shape:
            return np.empty(x.shape[:-1], dtypes.to_complex(dtypes.FROM_NUMPY[x.dtype]).np)
        return x.view(dtypes.to_complex(dtypes.FROM_NUMPY[x.dtype]).np)[..., 0]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The complex numbers as pairs."""
        (g,) = cotangents
        assert g is not None
        return (b(ViewAsReal(), g),)


def _holds_pairs(x: Array) -> bool:
    """Whether the last axis, of length 2, is contiguous, and other strides are whole pairs."""
    return bool(x.strides[-1] == x.itemsize and all(s % (2 * x.itemsize) == 0 for s in x.strides[:-1]))
