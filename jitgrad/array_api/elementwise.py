"""Elementwise functions whose name or meaning differs between the standard and PyTorch."""

from __future__ import annotations

from typing import Any

from ..functions.pointwise import convert
from ..functions.registry import FUNCTIONS
from ..tensor import Tensor

__all__ = ["bitwise_invert", "clip", "conj", "imag", "matrix_transpose", "real", "round", "sign", "trunc", "vecdot"]


def bitwise_invert(x: Tensor, /) -> Tensor:
    """The bits of integers flipped; of bools, their negation."""
    return FUNCTIONS["bitwise_not"](x)  # type: ignore[no-any-return]


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements, or a bound where they are beyond it; in the dtype of `x`."""
    if min is None and max is None:
        return FUNCTIONS["clone"](x)  # type: ignore[no-any-return]
    return convert(FUNCTIONS["clamp"](x, min, max), x.dtype)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate; of real numbers, themselves."""
    return FUNCTIONS["conj_physical"](x) if x.dtype.is_complex else x  # type: ignore[no-any-return]


def real(x: Tensor, /) -> Tensor:
    """The real parts; real numbers themselves."""
    return FUNCTIONS["real"](x)  # type: ignore[no-any-return]


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; zeros for real numbers."""
    return FUNCTIONS["imag"](x) if x.dtype.is_complex else FUNCTIONS["zeros_like"](x)  # type: ignore[no-any-return]


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; for complex numbers, those divided by their magnitudes; NaN for NaN."""
    out: Tensor = FUNCTIONS["sgn" if x.dtype.is_complex else "sign"](x)
    if not x.dtype.is_floating_point:
        return out
    return FUNCTIONS["where"](FUNCTIONS["isnan"](x), x, out)  # type: ignore[no-any-return]


def round(x: Tensor, /) -> Tensor:
    """The nearest whole numbers, halves to even; of complex numbers, part by part."""
    if x.dtype.is_complex:
        parts = [FUNCTIONS["round"](FUNCTIONS[part](x)) for part in ("real", "imag")]
        return FUNCTIONS["complex"](*parts)  # type: ignore[no-any-return]
    return FUNCTIONS["round"](x)  # type: ignore[no-any-return]


def trunc(x: Tensor, /) -> Tensor:
    """The whole numbers towards zero."""
    return FUNCTIONS["trunc"](x)  # type: ignore[no-any-return]


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return x.mT  # type: ignore[attr-defined, no-any-return]


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sums along an axis of products, the first factor conjugated; the other axes broadcast."""
    product = FUNCTIONS["mul"](conj(x1), x2)
    summed = FUNCTIONS["sum"](product, axis)
    return convert(summed, product.dtype) if product.dtype.kind == "int" else summed
