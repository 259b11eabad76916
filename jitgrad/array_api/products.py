"""Products of arrays, promoted to a common dtype."""

from __future__ import annotations

from typing import Any

from ..functions.pointwise import convert
from ..functions.registry import FUNCTIONS
from ..promotion import result_dtype
from ..tensor import Tensor

__all__ = ["matmul", "tensordot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product, in the common dtype."""
    dtype = result_dtype(x1, x2)
    return FUNCTIONS["matmul"](convert(x1, dtype), convert(x2, dtype))  # type: ignore[no-any-return]


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Products summed over as many last axes of `x1` and first ones of `x2`, or over two lists of axes."""
    dtype = result_dtype(x1, x2)
    dims = axes if isinstance(axes, int) else tuple(tuple(a) for a in axes)
    return FUNCTIONS["tensordot"](convert(x1, dtype), convert(x2, dtype), dims)  # type: ignore[no-any-return]
