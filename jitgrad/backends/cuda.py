"""Switches of CUDA's libraries: products are computed in the precision of their dtypes, whatever is set here."""

from __future__ import annotations

from ..cuda.devices import is_available


class _MatMul:
    """Switches of matrix products."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _MatMul()


def is_built() -> bool:
    """Whether CUDA can be used here."""
    return is_available()
