"""`Reinterpret`: the same bits as elements of another type."""

from __future__ import annotations

from ..dtypes import DType
from ..errors import ShapeError, operand_lines
from ..op import Array, View, op
from ..types import TensorType

__all__ = ["Reinterpret"]


@op
class Reinterpret(View):
    """The operand's bits as elements of `dtype`; elements of another width change the length of the last axis.

    >>> import jitgrad as jg
    >>> jg.tensor([1.0]).view(jg.int32)
    tensor([1065353216], dtype=jitgrad.int32)
    """

    dtype: DType
    name = "reinterpret"
    batchable = True
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A last axis that has room for whole elements."""
        (x,) = operands
        have, want = x.dtype.itemsize, self.dtype.itemsize
        if have == want:
            return (TensorType(x.shape, self.dtype, x.device),)
        if x.ndim == 0:
            raise ShapeError(
                f"self.dim() cannot be 0 to view {x.dtype.name} as {self.dtype.name} (different element sizes)"
                f"{operand_lines(operands)}"
            )
        length = x.shape[-1] * have
        if length % want:
            raise ShapeError(
                f"self.size(-1) must be divisible by {want // have} to view {x.dtype.name} as {self.dtype.name} "
                f"(different element sizes), but got {x.shape[-1]}{operand_lines(operands)}"
            )
        return (TensorType((*x.shape[:-1], length // want), self.dtype, x.device),)

    def reference(self, *operands: Array) -> Array:
        """`ndarray.view`."""
        return operands[0].view(self.dtype.np)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: kernels keep to the types of buffers."""
        return False
