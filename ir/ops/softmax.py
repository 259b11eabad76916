"""Softmax and its logarithm over one axis. Half types are computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .broadcast import accumulator_dtype
from .formula import Term
from .math import Exp, Log
from .reduction import Amax

__all__ = ["LogSoftmax", "Softmax"]


class _Normalised(Op):
    """What both share: the type rule, and exponentials relative to the largest element."""

    batchable = True

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A floating-point operand that has the axis."""
        (x,) = operands
        if not x.dtype.is_floating_point:
            raise DTypeError(f"{self.name}: not defined for {x.dtype.name}{operand_lines(operands)}")
        if not 0 <= self.axis < x.ndim:
            raise ShapeError(f"{self.name}: axis {self.axis} is not among {x.ndim} axes{operand_lines(operands)}")
        return (x,)

    def _shifted(self, b: Builder, value: Value) -> Term:
        """The operand minus its largest element, in float32 for the half types."""
        x = Term(b, value).convert(accumulator_dtype(value.type.dtype))
        return x - x.apply(Amax((self.axis,), True)).expand(value.shape)

    def _shifted_reference(self, x: Array) -> Array:
        x = x.astype(accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np, copy=False)
        return x - np.maximum.reduce(x, self.axis, keepdims=True)

    def _cotangent(self, b: Builder, cotangent: Value | None, y: Value) -> tuple[Term, Term]:
        """The cotangent and the result, in float32 for the half types."""
        assert cotangent is not None
        wide = accumulator_dtype(y.type.dtype)
        return Term(b, cotangent).convert(wide), Term(b, y).convert(wide)


@op
class Softmax(_Normalised):
    """exp(x) divided by its sum over `axis`, computed without overflow.

    >>> import jitgrad as jg
    >>> jg.softmax(jg.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """

    axis: int
    name = "softmax"

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        (x,) = operands
        if x.size == 0:
            return x.copy()
        with np.errstate(all="ignore"):
            out = np.exp(self._shifted_reference(x))
            out *= 1 / np.add.reduce(out, self.axis, keepdims=True)
        return out.astype(x.dtype, copy=False)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """`exp(x - max)` times the reciprocal of its sum: one division for a row."""
        (x,) = operands
        if x.shape[self.axis] == 0:
            return (x,)
        e = self._shifted(b, x).apply(Exp())
        return ((e * (1.0 / e.sum(self.axis)).expand(x.shape)).convert(x.type.dtype).value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`y (g - sum(g y))`, from the result alone."""
        g, y = self._cotangent(b, cotangents[0], results[0])
        total = (g * y).sum(self.axis).expand(y.value.shape)
        return ((y * (g - total)).convert(results[0].type.dtype).value,)


@op
class LogSoftmax(_Normalised):
    """The logarithm of the softmax over `axis`, computed without overflow or cancellation.

    >>> import jitgrad as jg
    >>> jg.log_softmax(jg.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """

    axis: int
    name = "log_softmax"

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy."""
        (x,) = operands
        if x.size == 0:
            return x.copy()
        with np.errstate(all="ignore"):
            out = self._shifted_reference(x)
            out -= np.log(np.add.reduce(np.exp(out), self.axis, keepdims=True))
        return out.astype(x.dtype, copy=False)

    def decompose(self, b: Builder, *operands: Value) -> Sequence[Value]:
        """`x - max - log(sum(exp(x - max)))`."""
        (x,) = operands
        if x.shape[self.axis] == 0:
            return (x,)
        shifted = self._shifted(b, x)
        total = shifted.apply(Exp()).sum(self.axis).apply(Log())
        return ((shifted - total.expand(x.shape)).convert(x.type.dtype).value,)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g - exp(y) sum(g)`, from the result alone."""
        g, y = self._cotangent(b, cotangents[0], results[0])
        total = g.sum(self.axis).expand(y.value.shape)
        return ((g - y.apply(Exp()) * total).convert(results[0].type.dtype).value,)
