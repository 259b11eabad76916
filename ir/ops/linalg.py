"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..types import TensorType
from .broadcast import accumulator_dtype
from .complex import conj
from .sample_axis import all_batched
from .shape import Permute, Reshape

__all__ = ["MatMul", "transposed"]


@op
class MatMul(Op):
    """The matrix product over the last two axes, `[..., m, k] x [..., k, n]`, with equal axes in front.

    Half types are multiplied and summed in float32.

    >>> import jitgrad as jg
    >>> jg.tensor([[1.0, 2.0]]) @ jg.tensor([[3.0], [4.0]])
    tensor([[11.]])
    """

    name = "matmul"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Equal numeric dtypes, ranks of two or more, equal batch axes, equal contracted axes."""
        x, y = operands
        if x.dtype is not y.dtype:
            raise DTypeError(f"matmul: operand dtypes differ{operand_lines(operands)}")
        if x.dtype.kind == "bool":
            raise DTypeError(f"matmul: not defined for bool{operand_lines(operands)}")
        if x.ndim < 2 or x.ndim != y.ndim:
            raise ShapeError(f"matmul: ranks must be equal, and two or more{operand_lines(operands)}")
        if x.shape[-1] != y.shape[-2]:
            raise ShapeError(
                f"matmul: contracted axes differ: lhs axis {x.ndim - 1} is {x.shape[-1]}, "
                f"rhs axis {y.ndim - 2} is {y.shape[-2]}{operand_lines(operands)}"
            )
        for axis, (n, m) in enumerate(zip(x.shape[:-2], y.shape[:-2], strict=True)):
            if n != m:
                raise ShapeError(
                    f"matmul: batch axes differ: axis {axis} is {n} in lhs and {m} in rhs{operand_lines(operands)}"
                )
        return (x.with_shape((*x.shape[:-1], y.shape[-1])),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """One product where one matrix serves all samples and takes rows, or a column, of the other."""
        x, y = operands
        rank = x.ndim - batched[0]
        if batched[0] and not batched[1] and rank == 2:
            rows = b(Reshape((size * x.shape[1], x.shape[2])), x)
            return (b(Reshape((size, x.shape[1], y.shape[1])), b(self, rows, y)),)
        if batched[1] and not batched[0] and rank == 2 and y.shape[2] == 1:
            rows = b(Reshape((size, y.shape[1])), y)
            return (b(Reshape((size, x.shape[0], 1)), b(self, rows, transposed(b, x))),)
        return (b(self, *all_batched(b, operands, batched, size)),)

    def reference(self, *operands: Array) -> Array:
        """`numpy.matmul`."""
        x, y = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        if wide == x.dtype:
            with np.errstate(all="ignore"):
                return np.matmul(x, y)
        with np.errstate(all="ignore"):
            return np.matmul(x.astype(wide), y.astype(wide)).astype(x.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g yᴴ` and `xᴴ g`."""
        (g,) = cotangents
        assert g is not None
        x, y = operands
        g_x = b(self, g, transposed(b, conj(b, y))) if needs[0] else None
        g_y = b(self, transposed(b, conj(b, x)), g) if needs[1] else None
        return g_x, g_y


def transposed(b: Builder, value: Value) -> Value:
    """The last two axes exchanged."""
    n = value.ndim
    return b(Permute((*range(n - 2), n - 1, n - 2)), value)
