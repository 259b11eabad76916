"""`XorHash`: a number that tells tensors apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes, scalar
from ..dtypes import DType
from ..errors import DTypeError, operand_lines
from ..op import Array, Reduction, op
from ..scalar import Expr
from ..types import TensorType

__all__ = ["XorHash"]


@op
class XorHash(Reduction):
    """The exclusive or over `axes` of the elements' bits as float64, or as int64, in uint64."""

    axes: tuple[int, ...]
    keepdim: bool = False
    name = "hash_tensor"
    differentiable = False

    def result_dtype(self, operand: DType) -> DType:
        """uint64."""
        return dtypes.uint64

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Real numbers."""
        if operands[0].dtype.is_complex:
            raise DTypeError(f"{self.name}: not defined for {operands[0].dtype.name}{operand_lines(operands)}")
        return super().infer(*operands)

    def reference(self, *operands: Array) -> Array:
        """`numpy.bitwise_xor.reduce`."""
        (x,) = operands
        is_float = dtypes.FROM_NUMPY[x.dtype].is_floating_point
        bits = x.astype(np.float64).view(np.uint64) if is_float else x.astype(np.uint64)
        fold: Callable[..., Array] = np.bitwise_xor.reduce
        return np.asarray(fold(bits, axis=self.axes, keepdims=self.keepdim))

    def initial(self, dtype: DType) -> tuple[Expr, ...]:
        """Zero."""
        return (scalar.const(0, dtypes.uint64),)

    def step(self, accumulators: tuple[Expr, ...], element: Expr, position: Expr) -> tuple[Expr, ...]:
        """Fold in the element's bits."""
        if element.dtype.is_floating_point:
            return self.merge(accumulators, (scalar.bitcast(scalar.convert(element, dtypes.float64), dtypes.uint64),))
        return self.merge(accumulators, (scalar.convert(element, dtypes.uint64),))

    def merge(self, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Exclusive or."""
        return (left[0] ^ right[0],)
