"""Arithmetic: sums, products, quotients, signs and extremes of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..dtypes import DType
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr
from .comparison import Eq, Lt
from .complex import Real, conj
from .creation import full_like, zeros_like
from .select import Convert, Where

__all__ = ["Abs", "Add", "Div", "Maximum", "Minimum", "Mul", "Neg", "Reciprocal", "Sign", "Sub"]


@op
class Add(Pointwise):
    """`x + y`, elementwise. Integers wrap; for bool it is "or"."""

    arity = 2
    name = "add"
    commutative = True
    ufunc = np.add

    def scalar(self, *xs: Expr) -> Expr:
        """A sum."""
        x, y = xs
        return x | y if x.dtype.kind == "bool" else x + y

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent for both."""
        (g,) = cotangents
        return g if needs[0] else None, g if needs[1] else None


@op
class Sub(Pointwise):
    """`x - y`, elementwise. Integers wrap."""

    arity = 2
    name = "sub"
    accepts = ("int", "float", "complex")
    ufunc = np.subtract

    def scalar(self, *xs: Expr) -> Expr:
        """A difference."""
        return xs[0] - xs[1]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent and its negative."""
        (g,) = cotangents
        assert g is not None
        return g if needs[0] else None, b(Neg(), g) if needs[1] else None


@op
class Mul(Pointwise):
    """`x * y`, elementwise. Integers wrap; for bool it is "and".

    >>> import jitgrad as jg
    >>> jg.mul(jg.tensor([1.0, 2.0]), 3.0)
    tensor([3., 6.])
    """

    arity = 2
    name = "mul"
    numbers = "both"
    public = ("mul", "multiply")
    commutative = True
    ufunc = np.multiply

    def scalar(self, *xs: Expr) -> Expr:
        """A product."""
        x, y = xs
        return x & y if x.dtype.kind == "bool" else x * y

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g * y` and `g * x`, conjugated."""
        (g,) = cotangents
        assert g is not None
        x, y = operands
        gx = b(self, g, conj(b, y)) if needs[0] else None
        gy = b(self, g, conj(b, x)) if needs[1] else None
        return gx, gy


@op
class Div(Pointwise):
    """`x / y`, elementwise, of floats or complex numbers, by the rules of IEEE 754."""

    arity = 2
    name = "div"
    copies_on_write = True
    promotes = "float"
    accepts = ("float", "complex")
    ufunc = np.true_divide

    def scalar(self, *xs: Expr) -> Expr:
        """A quotient."""
        return xs[0] / xs[1]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g / y` and `-(g / y) * (x / y)`, conjugated."""
        (g,) = cotangents
        assert g is not None
        share = b(self, g, conj(b, operands[1]))
        gx = share if needs[0] else None
        gy = b(Neg(), b(Mul(), share, conj(b, results[0]))) if needs[1] else None
        return gx, gy


@op
class Neg(Pointwise):
    """`-x`, elementwise. Integers wrap.

    >>> import jitgrad as jg
    >>> jg.neg(jg.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """

    name = "neg"
    public = ("neg", "negative")
    accepts = ("int", "float", "complex")
    ufunc = np.negative

    def scalar(self, *xs: Expr) -> Expr:
        """The negative."""
        return -xs[0]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The negative cotangent."""
        (g,) = cotangents
        assert g is not None
        return (b(self, g),)


@op
class Reciprocal(Pointwise):
    """`1 / x`, elementwise. Integers become the default float type first.

    >>> import jitgrad as jg
    >>> jg.reciprocal(jg.tensor([2.0, -4.0]))
    tensor([ 0.5000, -0.2500])
    """

    name = "reciprocal"
    public = ("reciprocal",)
    promotes = "float"
    accepts = ("float", "complex")
    ufunc = np.reciprocal

    def scalar(self, *xs: Expr) -> Expr:
        """A quotient."""
        return 1.0 / xs[0]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`-g / x²`, from the result."""
        (g,) = cotangents
        assert g is not None
        y = conj(b, results[0])
        return (b(Neg(), b(Mul(), b(Mul(), g, y), y)),)


@op
class Abs(Pointwise):
    """The absolute value, elementwise; of a complex number its distance from zero, a float.

    The gradient at zero is zero.

    >>> import jitgrad as jg
    >>> jg.abs(jg.tensor([1.0, -2.0]))
    tensor([1., 2.])
    """

    name = "abs"
    public = ("abs", "absolute")
    accepts = ("int", "float", "complex")
    ufunc = np.absolute

    def result_dtype(self, *operands: DType) -> DType:
        """That of the parts, for complex numbers."""
        return dtypes.to_real(operands[0])

    def scalar(self, *xs: Expr) -> Expr:
        """The absolute value."""
        (x,) = xs
        return scalar.absolute(x) if x.dtype.is_signed else x

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent times the sign."""
        (g,) = cotangents
        assert g is not None
        (x,) = operands
        if x.type.dtype.is_complex:
            g = b(Convert(x.type.dtype), g)
        return (b(Mul(), g, b(Sign(), x)),)


def _sign(x: Array) -> Array:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype) if x.dtype.kind != "c" else np.sign(x)


@op
class Sign(Pointwise):
    """The sign, elementwise: -1, 0 or 1 (0 of NaN); of a complex number `x / |x|`, and 0 of 0.

    >>> import jitgrad as jg
    >>> jg.sign(jg.tensor([3.0, 0.0, -2.0]))
    tensor([ 1.,  0., -1.])
    """

    name = "sign"
    quick = False
    public = ("sign", "sgn")
    accepts = ("int", "float", "complex")
    ufunc = _sign

    def scalar(self, *xs: Expr) -> Expr:
        """By comparing with zero."""
        (x,) = xs
        positive = scalar.convert(x > 0, x.dtype)
        return scalar.where(x < 0, -1, positive) if x.dtype.is_signed else positive

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Zero; for a complex number the cotangent's part across the direction, over the distance."""
        (g,) = cotangents
        assert g is not None
        (x,), (y,) = operands, results
        if not x.type.dtype.is_complex:
            return (zeros_like(b, g),)
        along = b(Convert(x.type.dtype), b(Real(), b(Mul(), g, conj(b, y))))
        across = b(Sub(), g, b(Mul(), along, y))
        at_zero = b(Eq(), x, zeros_like(b, x))
        distance = b(Where(), at_zero, full_like(b, x, 1.0), b(Convert(x.type.dtype), b(Abs(), x)))
        return (b(Where(), at_zero, zeros_like(b, x), b(Div(), across, distance)),)


class _Extreme(Pointwise):
    """The larger or smaller of two; NaN if either is. Where they are equal both get half of the cotangent."""

    arity = 2
    commutative = True
    accepts = ("bool", "int", "float")
    inplace = False
    numbers = "none"

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """To the one that was taken; half to each of equals."""
        (g,) = cotangents
        assert g is not None
        x, y = operands
        zero = zeros_like(b, g)
        shared = b(Where(), b(Eq(), x, y), b(Mul(), g, full_like(b, g, 0.5)), g)
        lower, higher = (x, y) if isinstance(self, Maximum) else (y, x)
        gx = b(Where(), b(Lt(), lower, higher), zero, shared) if needs[0] else None
        gy = b(Where(), b(Lt(), higher, lower), zero, shared) if needs[1] else None
        return gx, gy


@op
class Maximum(_Extreme):
    """The larger of `x` and `y`, elementwise; NaN where either is. Equal operands share the gradient.

    >>> import jitgrad as jg
    >>> jg.maximum(jg.tensor([1.0, 4.0]), jg.tensor([3.0, 2.0]))
    tensor([3., 4.])
    """

    name = "maximum"
    public = ("maximum",)
    ufunc = np.maximum

    def scalar(self, *xs: Expr) -> Expr:
        """The maximum."""
        x, y = xs
        return x | y if x.dtype.kind == "bool" else scalar.maximum(x, y)


@op
class Minimum(_Extreme):
    """The smaller of `x` and `y`, elementwise; NaN where either is. Equal operands share the gradient.

    >>> import jitgrad as jg
    >>> jg.minimum(jg.tensor([1.0, 4.0]), jg.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """

    name = "minimum"
    public = ("minimum",)
    ufunc = np.minimum

    def scalar(self, *xs: Expr) -> Expr:
        """The minimum."""
        x, y = xs
        return x & y if x.dtype.kind == "bool" else scalar.minimum(x, y)
