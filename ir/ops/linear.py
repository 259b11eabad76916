"""The affine map of the last axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..types import Shape, TensorType
from .arithmetic import Add
from .broadcast import Sum
from .complex import conj
from .formula import Term
from .linalg import MatMul, transposed
from .shape import Reshape

__all__ = ["Linear"]


@op
class Linear(Op):
    """`x wᵀ + b` of x [..., n], w [m, n] and optionally b [m], giving [..., m].

    Half types are multiplied and summed in float32, then rounded, then added.

    >>> import numpy as np
    >>> Linear().reference(np.ones((1, 2)), np.array([[1.0, 2.0]]), np.array([0.5]))
    array([[3.5]])
    """

    name = "linear"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Equal numeric dtypes; the last axes of input and weight equal, and the first of weight and bias."""
        x, w, *bias = operands
        if any(t.dtype is not x.dtype for t in operands) or x.dtype.kind == "bool":
            raise DTypeError(f"linear: operands must be of one numeric dtype{operand_lines(operands)}")
        if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
            raise ShapeError(
                f"linear: the last axes of input {list(x.shape)} and weight {list(w.shape)} must be equal"
                f"{operand_lines(operands)}"
            )
        if any(t.shape != (w.shape[0],) for t in bias):
            raise ShapeError(f"linear: the bias must have shape [{w.shape[0]}]{operand_lines(operands)}")
        return (x.with_shape((*x.shape[:-1], w.shape[0])),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """More rows, if all samples have one weight and bias."""
        return (b(self, *operands),) if not any(batched[1:]) else None

    def reference(self, *operands: Array) -> Array:
        """`numpy.matmul`, and the bias added."""
        x, w, *bias = operands
        rows = x if x.ndim == 2 else x.reshape(_rows(x.shape))
        out = MatMul().reference(rows, w.T)
        with np.errstate(all="ignore"):
            for b in bias:
                out += b
        return out if x.ndim == 2 else out.reshape(*x.shape[:-1], w.shape[0])

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """A matrix product of the rows, and the bias repeated."""
        x, w, *bias = operands
        out = Term(b, b(MatMul(), _flat(b, x), transposed(b, w)))
        out = out.apply(Reshape((*x.shape[:-1], w.shape[0]))) if x.ndim != 2 else out
        for vector in bias:
            out = out.apply(Add(), Term(b, vector).expand(out.value.shape))
        return (out.value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g w̄`, `gᵀ x̄`, and the sum of the rows of `g`."""
        (g,) = cotangents
        assert g is not None
        x, w = operands[:2]
        rows = _flat(b, g)
        grads: list[Value | None] = [None] * len(operands)
        if needs[0]:
            g_x = b(MatMul(), rows, conj(b, w))
            grads[0] = g_x if x.ndim == 2 else b(Reshape(x.shape), g_x)
        if needs[1]:
            grads[1] = b(MatMul(), transposed(b, rows), conj(b, _flat(b, x)))
        if len(operands) > 2 and needs[2]:
            grads[2] = b(Sum((0,), False), rows)
        return grads


def _rows(shape: Shape) -> Shape:
    return (math.prod(shape[:-1]), shape[-1])


def _flat(b: Builder, x: Value) -> Value:
    """The rows as a matrix."""
    return x if x.ndim == 2 else b(Reshape(_rows(x.shape)), x)
