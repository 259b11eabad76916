"""Relatives of the error function: its inverse, the normal distribution's functions, entropy."""

from __future__ import annotations

import math

from .. import approximations, scalar, special
from ..builder import Builder
from ..graph import Value
from ..op import op
from ..scalar import Expr
from .formula import Term
from .math import Exp, Log
from .special_function import SpecialFunction

__all__ = ["Entr", "Erfcx", "Erfinv", "LogNdtr", "Ndtri"]


@op
class Erfinv(SpecialFunction):
    """The inverse of the error function, elementwise; infinite at -1 and 1, NaN beyond.

    >>> import jitgrad as jg
    >>> jg.erfinv(jg.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """

    name = "erfinv"
    quick = False
    copies_on_write = True
    public = ("erfinv",)
    ufunc = special.erfinv

    def formula(self, x: Expr) -> Expr:
        """By Newton's method."""
        return approximations.erfinv(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """√π/2 exp(y²)."""
        root = Term(b, y)
        return ((root * root).apply(Exp()) * (math.sqrt(math.pi) / 2)).value


@op
class Erfcx(SpecialFunction):
    """The scaled complementary error function `exp(x²) erfc(x)`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.erfcx(jg.tensor([0.0, 10.0]))
    tensor([1.0000, 0.0561])
    """

    name = "erfcx"
    ufunc = special.erfcx

    def formula(self, x: Expr) -> Expr:
        """By a Chebyshev series."""
        return approximations.erfcx(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """2xy - 2/√π."""
        return (Term(b, x) * Term(b, y) * 2.0 - 2.0 / math.sqrt(math.pi)).value


@op
class Ndtri(SpecialFunction):
    """The number that a normal variable stays below with probability `x`, elementwise; NaN outside [0, 1].

    >>> import jitgrad as jg
    >>> jg.special.ndtri(jg.tensor([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """

    name = "ndtri"
    ufunc = special.ndtri

    def formula(self, x: Expr) -> Expr:
        """By Newton's method."""
        return approximations.ndtri(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """√(2π) exp(y²/2)."""
        root = Term(b, y)
        return ((root * root * 0.5).apply(Exp()) * math.sqrt(2 * math.pi)).value


@op
class LogNdtr(SpecialFunction):
    """The logarithm of the normal distribution function, elementwise, without underflow.

    >>> import jitgrad as jg
    >>> jg.special.log_ndtr(jg.tensor([0.0, -4.0]))
    tensor([ -0.6931, -10.3601])
    """

    name = "log_ndtr"
    ufunc = special.log_ndtr

    def formula(self, x: Expr) -> Expr:
        """By the scaled complementary error function below -1."""
        return approximations.log_ndtr(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """√(2/π) / erfcx(-x/√2)."""
        return (math.sqrt(2 / math.pi) / (Term(b, x) * -math.sqrt(0.5)).apply(Erfcx())).value


@op
class Entr(SpecialFunction):
    """The entropy `-x log x`, elementwise: 0 at 0, minus infinity below.

    >>> import jitgrad as jg
    >>> jg.special.entr(jg.tensor([0.0, 0.5, -1.0]))
    tensor([0.0000, 0.3466,   -inf])
    """

    name = "entr"
    ufunc = special.entr

    def formula(self, x: Expr) -> Expr:
        """As written, where x is positive."""
        value = -(x * scalar.log(scalar.where(x > 0.0, x, 1.0)))
        outside = scalar.where(x.eq(0.0), scalar.const(0.0, x.dtype), scalar.where(x < 0.0, -math.inf, x))
        return scalar.where(x > 0.0, value, outside)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """-(1 + log x)."""
        return (-(Term(b, x).apply(Log()) + 1.0)).value
