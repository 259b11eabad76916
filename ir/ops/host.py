"""`HostOp`: the base of ops that a library computes, and no generated kernel."""

from __future__ import annotations

from ..op import Op
from ..types import TensorType

__all__ = ["HostOp"]


class HostOp(Op):
    """An op that always runs through its reference: LAPACK's, pocketfft's, SciPy's routines."""

    batchable = True

    def can_emit(self, *operands: TensorType) -> bool:
        """Never."""
        return False
