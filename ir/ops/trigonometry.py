"""Trigonometric and hyperbolic functions and their inverses, elementwise. Angles are in radians."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import scalar
from ..builder import Builder
from ..graph import Value
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr, Fn
from .arithmetic import Add, Div, Mul, Neg, Reciprocal, Sub
from .comparison import Eq
from .creation import full_like, zeros_like
from .math import Rsqrt, SmoothPointwise
from .select import Where

__all__ = [
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan",
]  # fmt: skip


def _one_plus_square(b: Builder, x: Value) -> Value:
    return b(Add(), full_like(b, x, 1.0), b(Mul(), x, x))


def _one_minus_square(b: Builder, x: Value) -> Value:
    one = full_like(b, x, 1.0)
    return b(Mul(), b(Sub(), one, x), b(Add(), one, x))


@op
class Sin(SmoothPointwise):
    """The sine, elementwise.

    >>> import jitgrad as jg
    >>> jg.sin(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """

    name = "sin"
    public = ("sin",)
    ufunc = np.sin
    fn = Fn.SIN

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """cos x."""
        return b(Cos(), x)


@op
class Cos(SmoothPointwise):
    """The cosine, elementwise.

    >>> import jitgrad as jg
    >>> jg.cos(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """

    name = "cos"
    public = ("cos",)
    ufunc = np.cos
    fn = Fn.COS

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """-sin x."""
        return b(Neg(), b(Sin(), x))


@op
class Tan(SmoothPointwise):
    """The tangent, elementwise.

    >>> import jitgrad as jg
    >>> jg.tan(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """

    name = "tan"
    public = ("tan",)
    ufunc = np.tan
    fn = Fn.TAN

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 + y²."""
        return _one_plus_square(b, y)


@op
class Asin(SmoothPointwise):
    """The angle in [-π/2, π/2] whose sine is `x`, elementwise; NaN outside [-1, 1].

    >>> import jitgrad as jg
    >>> jg.asin(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """

    name = "asin"
    public = ("asin", "arcsin")
    ufunc = np.arcsin
    fn = Fn.ASIN

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / √(1 - x²)."""
        return b(Rsqrt(), _one_minus_square(b, x))


@op
class Acos(SmoothPointwise):
    """The angle in [0, π] whose cosine is `x`, elementwise; NaN outside [-1, 1].

    >>> import jitgrad as jg
    >>> jg.acos(jg.tensor([1.0, 0.0]))
    tensor([0.0000, 1.5708])
    """

    name = "acos"
    public = ("acos", "arccos")
    ufunc = np.arccos
    fn = Fn.ACOS

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """-1 / √(1 - x²)."""
        return b(Neg(), b(Rsqrt(), _one_minus_square(b, x)))


@op
class Atan(SmoothPointwise):
    """The angle in (-π/2, π/2) whose tangent is `x`, elementwise.

    >>> import jitgrad as jg
    >>> jg.atan(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """

    name = "atan"
    public = ("atan", "arctan")
    ufunc = np.arctan
    fn = Fn.ATAN

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / (1 + x²)."""
        return b(Reciprocal(), _one_plus_square(b, x))


@op
class Atan2(Pointwise):
    """The angle of the point (`x`, `y`), the ordinate first: `atan2(y, x)`, elementwise, in [-π, π].

    The gradient at the origin is zero.

    >>> import jitgrad as jg
    >>> jg.atan2(jg.tensor([0.0, 1.0]), jg.tensor([1.0, 1.0]))
    tensor([0.0000, 0.7854])
    """

    arity = 2
    name = "atan2"
    numbers = "none"
    public = ("atan2", "arctan2")
    promotes = "float"
    accepts = ("float",)
    ufunc = np.arctan2

    def scalar(self, *xs: Expr) -> Expr:
        """The scalar function of that name."""
        return scalar.apply(Fn.ATAN2, *xs)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g x / (x² + y²)` and `-g y / (x² + y²)`; zero at the origin."""
        (g,) = cotangents
        assert g is not None
        y, x = operands
        square = b(Add(), b(Mul(), x, x), b(Mul(), y, y))
        at_origin = b(Eq(), square, zeros_like(b, square))
        safe = b(Where(), at_origin, full_like(b, square, 1.0), square)
        share = b(Where(), at_origin, zeros_like(b, square), b(Div(), g, safe))
        gy = b(Mul(), share, x) if needs[0] else None
        gx = b(Neg(), b(Mul(), share, y)) if needs[1] else None
        return gy, gx


def _sinh(x: Array) -> Array:
    """NumPy's single-precision function is off by more than 2 ulp."""
    return np.sinh(x.astype(np.float64)).astype(np.float32) if x.dtype == np.float32 else np.sinh(x)


def _cosh(x: Array) -> Array:
    """NumPy's single-precision function is off by more than 2 ulp."""
    return np.cosh(x.astype(np.float64)).astype(np.float32) if x.dtype == np.float32 else np.cosh(x)


@op
class Sinh(SmoothPointwise):
    """The hyperbolic sine, elementwise.

    >>> import jitgrad as jg
    >>> jg.sinh(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """

    name = "sinh"
    public = ("sinh",)
    ufunc = _sinh
    fn = Fn.SINH

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """cosh x."""
        return b(Cosh(), x)


@op
class Cosh(SmoothPointwise):
    """The hyperbolic cosine, elementwise.

    >>> import jitgrad as jg
    >>> jg.cosh(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """

    name = "cosh"
    public = ("cosh",)
    ufunc = _cosh
    fn = Fn.COSH

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """sinh x."""
        return b(Sinh(), x)


def _log_of_twice(x: Expr) -> Expr:
    """log 2x, for x whose double may be infinite."""
    return scalar.log(x) + math.log(2.0)


def _is_large(x: Expr) -> Expr:
    """Where x² + 1 rounds to x², well before x² overflows."""
    return x > 1e8


def _log1p(x: Expr) -> Expr:
    return scalar.apply(Fn.LOG1P, x)


@op
class Asinh(SmoothPointwise):
    """The number whose hyperbolic sine is `x`, elementwise.

    >>> import jitgrad as jg
    >>> jg.asinh(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """

    name = "asinh"
    public = ("asinh", "arcsinh")
    ufunc = np.arcsinh
    wide = True

    def formula(self, x: Expr) -> Expr:
        """log1p(a + a² / (1 + √(1 + a²))) of a = |x|, with the sign of x (fdlibm's formula)."""
        a = scalar.absolute(x)
        small = _log1p(a + a * a / (1.0 + scalar.sqrt(1.0 + a * a)))
        return scalar.apply(Fn.COPYSIGN, scalar.where(_is_large(a), _log_of_twice(a), small), x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / √(1 + x²)."""
        return b(Rsqrt(), _one_plus_square(b, x))


@op
class Acosh(SmoothPointwise):
    """The number from 0 on whose hyperbolic cosine is `x`, elementwise; NaN below 1.

    >>> import jitgrad as jg
    >>> jg.acosh(jg.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """

    name = "acosh"
    public = ("acosh", "arccosh")
    ufunc = np.arccosh
    wide = True

    def formula(self, x: Expr) -> Expr:
        """log1p(t + √(2t + t²)) of t = x - 1 (fdlibm's formula)."""
        t = x - 1.0
        small = _log1p(t + scalar.sqrt(2.0 * t + t * t))
        return scalar.where(x < 1.0, math.nan, scalar.where(_is_large(x), _log_of_twice(x), small))

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / (√(x - 1) √(x + 1))."""
        one = full_like(b, x, 1.0)
        return b(Mul(), b(Rsqrt(), b(Sub(), x, one)), b(Rsqrt(), b(Add(), x, one)))


@op
class Atanh(SmoothPointwise):
    """The number whose hyperbolic tangent is `x`, elementwise; NaN outside [-1, 1].

    >>> import jitgrad as jg
    >>> jg.atanh(jg.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """

    name = "atanh"
    public = ("atanh", "arctanh")
    ufunc = np.arctanh
    wide = True

    def formula(self, x: Expr) -> Expr:
        """log1p(2a / (1 - a)) / 2 of a = |x|, with the sign of x (fdlibm's formula)."""
        a = scalar.absolute(x)
        return scalar.apply(Fn.COPYSIGN, 0.5 * _log1p((a + a) / (1.0 - a)), x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / (1 - x²)."""
        return b(Reciprocal(), _one_minus_square(b, x))
