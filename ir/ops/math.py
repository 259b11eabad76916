"""Powers, exponentials and their kin, elementwise. Integers become floats first, in the frontend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import scalar
from ..builder import Builder
from ..graph import Value
from ..op import Cotangents, Pointwise, Values, op
from ..scalar import Expr, Fn
from .arithmetic import Mul, Sub
from .complex import conj
from .creation import full_like

__all__ = ["Exp", "Tanh"]


class _Smooth(Pointwise):
    """A function of one float or complex number, with its derivative in terms of operand and result."""

    promotes = "float"
    accepts = ("float", "complex")
    fn: ClassVar[Fn]

    def scalar(self, *xs: Expr) -> Expr:
        """The scalar function of that name."""
        return scalar.apply(self.fn, *xs)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """The derivative at operand `x`, where the result is `y`."""
        raise NotImplementedError

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent times the derivative, conjugated."""
        (g,) = cotangents
        assert g is not None
        return (b(Mul(), g, conj(b, self.derivative(b, operands[0], results[0]))),)


@op
class Exp(_Smooth):
    """e to the power of `x`, elementwise.

    >>> import jitgrad as jg
    >>> jg.exp(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    name = "exp"
    public = ("exp",)
    ufunc = np.exp
    fn = Fn.EXP

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """The result."""
        return y


@op
class Tanh(_Smooth):
    """The hyperbolic tangent, elementwise.

    >>> import jitgrad as jg
    >>> jg.tanh(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    name = "tanh"
    public = ("tanh",)
    ufunc = np.tanh
    fn = Fn.TANH

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 - y²."""
        return b(Sub(), full_like(b, y, 1.0), b(Mul(), y, y))
