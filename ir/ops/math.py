"""Powers, roots, exponentials, logarithms and their kin, elementwise. Trigonometry has its own module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import dtypes, scalar, special
from ..builder import Builder
from ..graph import Value
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr, Fn
from .arithmetic import Abs, Add, Div, Mul, Neg, Reciprocal, Sub
from .broadcast import accumulator_dtype
from .comparison import Eq, Ge, Gt
from .complex import Real, conj
from .creation import full_like, zeros_like
from .logical import LogicalAnd, LogicalNot
from .select import Where

__all__ = [
    "Erf", "Erfc", "Exp", "Exp2", "Expm1", "Log", "Log1p", "Log2", "Log10", "Pow", "Rsqrt", "Sigmoid",
    "SmoothPointwise", "Sqrt", "Tanh",
]  # fmt: skip


class SmoothPointwise(Pointwise):
    """A function of one float or complex number, with its derivative in terms of operand and result."""

    promotes = "float"
    accepts: ClassVar[tuple[str, ...]] = ("float", "complex")
    fn: ClassVar[Fn]
    wide: ClassVar[bool] = False
    """Whether `formula` adds up roundings, so that it is computed in float64 of all dtypes."""

    def scalar(self, *xs: Expr) -> Expr:
        """`formula`, in float32 for the half types, or in float64 for all if `wide`."""
        (x,) = xs
        dtype = dtypes.float64 if self.wide else accumulator_dtype(x.dtype)
        return scalar.convert(self.formula(scalar.convert(x, dtype)), x.dtype)

    def formula(self, x: Expr) -> Expr:
        """The function of a float32 or float64 element: by default the scalar function `fn`."""
        return scalar.apply(self.fn, x)

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


def _widened(x: Array) -> Array:
    """Half types as float32: what takes several NumPy calls is rounded once, at the end."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


@op
class Exp(SmoothPointwise):
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
class Exp2(SmoothPointwise):
    """2 to the power of `x`, elementwise.

    >>> import jitgrad as jg
    >>> jg.exp2(jg.tensor([0.0, 3.0]))
    tensor([1., 8.])
    """

    name = "exp2"
    public = ("exp2",)
    ufunc = np.exp2

    def formula(self, x: Expr) -> Expr:
        """A power, which is exact for whole numbers."""
        return scalar.apply(Fn.POW, scalar.const(2.0, x.dtype), x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """y ln 2."""
        return b(Mul(), y, full_like(b, y, math.log(2.0)))


@op
class Expm1(SmoothPointwise):
    """`exp(x) - 1`, elementwise, exact near zero.

    >>> import jitgrad as jg
    >>> jg.expm1(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """

    name = "expm1"
    public = ("expm1",)
    ufunc = np.expm1
    fn = Fn.EXPM1

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """y + 1."""
        return b(Add(), y, full_like(b, y, 1.0))


@op
class Log(SmoothPointwise):
    """The natural logarithm, elementwise; NaN of negative numbers.

    >>> import jitgrad as jg
    >>> jg.log(jg.tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """

    name = "log"
    public = ("log",)
    ufunc = np.log
    fn = Fn.LOG

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g / x`."""
        (g,) = cotangents
        assert g is not None
        return (b(Div(), g, conj(b, operands[0])),)


@op
class Log1p(SmoothPointwise):
    """`log(1 + x)`, elementwise, exact near zero.

    >>> import jitgrad as jg
    >>> jg.log1p(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """

    name = "log1p"
    public = ("log1p",)
    ufunc = np.log1p
    fn = Fn.LOG1P

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / (1 + x)."""
        return b(Reciprocal(), b(Add(), x, full_like(b, x, 1.0)))


@op
class Log2(SmoothPointwise):
    """The logarithm to base 2, elementwise; NaN of negative numbers.

    >>> import jitgrad as jg
    >>> jg.log2(jg.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """

    name = "log2"
    public = ("log2",)
    ufunc = np.log2
    fn = Fn.LOG2

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / (x ln 2)."""
        return b(Reciprocal(), b(Mul(), x, full_like(b, x, math.log(2.0))))


_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
"""log10(e) in two parts."""


@op
class Log10(SmoothPointwise):
    """The logarithm to base 10, elementwise; NaN of negative numbers.

    >>> import jitgrad as jg
    >>> jg.log10(jg.tensor([2.0, 50.0]))
    tensor([0.3010, 1.6990])
    """

    name = "log10"
    public = ("log10",)
    ufunc = np.log10
    wide = True

    def formula(self, x: Expr) -> Expr:
        """The natural logarithm times log10(e), the latter in twice the precision."""
        y, (high, low) = scalar.log(x), _LOG10_E
        # an infinite logarithm times a low part would be NaN where the signs differ
        return scalar.where(scalar.absolute(y) < math.inf, scalar.fma(y, high, y * low), y)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """1 / (x ln 10)."""
        return b(Reciprocal(), b(Mul(), x, full_like(b, x, math.log(10.0))))


@op
class Sqrt(SmoothPointwise):
    """The square root, elementwise; NaN of negative numbers.

    >>> import jitgrad as jg
    >>> jg.sqrt(jg.tensor([4.0, 2.0]))
    tensor([2.0000, 1.4142])
    """

    name = "sqrt"
    public = ("sqrt",)
    ufunc = np.sqrt
    fn = Fn.SQRT

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g / 2y`."""
        (g,) = cotangents
        assert g is not None
        y = conj(b, results[0])
        return (b(Div(), g, b(Add(), y, y)),)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(_widened(x))


@op
class Rsqrt(SmoothPointwise):
    """`1 / sqrt(x)`, elementwise.

    >>> import jitgrad as jg
    >>> jg.rsqrt(jg.tensor([4.0, 0.25]))
    tensor([0.5000, 2.0000])
    """

    name = "rsqrt"
    public = ("rsqrt",)
    ufunc = _rsqrt

    def formula(self, x: Expr) -> Expr:
        """One over the root."""
        return 1.0 / scalar.sqrt(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """-y³ / 2."""
        return b(Mul(), full_like(b, y, -0.5), b(Mul(), y, b(Mul(), y, y)))


@op
class Tanh(SmoothPointwise):
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


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-_widened(x)))


@op
class Sigmoid(SmoothPointwise):
    """`1 / (1 + exp(-x))`, elementwise.

    >>> import jitgrad as jg
    >>> jg.sigmoid(jg.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    name = "sigmoid"
    quick = False
    public = ("sigmoid",)
    ufunc = _sigmoid

    def formula(self, x: Expr) -> Expr:
        """`e / (1 + e)` or `1 / (1 + e)` with `e = exp(-|x|)`; what the sum and the quotient lose is put back."""
        e = scalar.exp(-scalar.absolute(x))
        top = scalar.where(x < 0.0, e, 1.0)
        bottom = 1.0 + e
        lost = e - (bottom - 1.0)
        inverse = 1.0 / bottom
        quotient = top * inverse
        left = scalar.fma(-quotient, lost, scalar.fma(-quotient, bottom, top))
        return scalar.fma(left, inverse, quotient)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """y (1 - y)."""
        return b(Mul(), y, b(Sub(), full_like(b, y, 1.0), y))


@op
class Erf(SmoothPointwise):
    """The error function `2/√π ∫₀ˣ exp(-t²) dt`, elementwise, of floats.

    >>> import jitgrad as jg
    >>> jg.erf(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """

    name = "erf"
    quick = False
    public = ("erf",)
    accepts = ("float",)
    ufunc = special.erf
    fn = Fn.ERF

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """2/√π exp(-x²)."""
        bell = b(Exp(), b(Neg(), b(Mul(), x, x)))
        return b(Mul(), full_like(b, x, 2.0 / math.sqrt(math.pi)), bell)


@op
class Erfc(SmoothPointwise):
    """`1 - erf(x)`, elementwise, of floats, without cancellation.

    >>> import jitgrad as jg
    >>> jg.erfc(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """

    name = "erfc"
    quick = False
    public = ("erfc",)
    accepts = ("float",)
    ufunc = special.erfc
    fn = Fn.ERFC

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """-2/√π exp(-x²)."""
        bell = b(Exp(), b(Neg(), b(Mul(), x, x)))
        return b(Mul(), full_like(b, x, -2.0 / math.sqrt(math.pi)), bell)


def _power(x: Array, y: Array) -> Array:
    if x.dtype == np.float32:  # by way of float64, as kernels do; NumPy's own rounds one in four the other way
        return np.power(x, y, dtype=np.float64).astype(np.float32)
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    negative = y < 0
    parity = np.where(y & 1, x, x * x)  # of x in (-1, 1): x to any power that is as odd
    fraction = np.where(abs(x) == 1, parity, 0).astype(x.dtype)
    return np.where(negative, fraction, np.power(x, np.where(negative, 0, y)))


def _integer_power(x: Expr, y: Expr) -> Expr:
    """Repeated squaring, modulo 2 to the power of the width.

    For an odd base the exponent counts modulo a quarter of that; for an even one all powers from the width on are 0.
    """
    width = 8 * x.dtype.itemsize
    result, power = scalar.const(1, x.dtype), x
    for bit in range(width - 2):
        result = scalar.where((y & (1 << bit)).ne(0), result * power, result)
        power = power * power
    odd = (x & 1).ne(0)
    result = scalar.where(odd | (y < width), result, 0)
    if not x.dtype.is_signed:
        return result
    fraction = scalar.where(x.eq(1) | (x.eq(-1) & (y & 1).eq(0)), 1, scalar.where(x.eq(-1), x, 0))
    return scalar.where(y < 0, fraction, result)


@op
class Pow(Pointwise):
    """`x` to the power of `y`, elementwise. `x**0` is 1, with gradient 0, for every `x`.

    Integers wrap; a negative power of an integer is 0 unless the base is 1 or -1.

    >>> import jitgrad as jg
    >>> jg.pow(jg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """

    arity = 2
    name = "pow"
    public = ("pow",)
    accepts = ("int", "float", "complex")
    ufunc = _power

    def scalar(self, *xs: Expr) -> Expr:
        """The power of floats; for integers repeated squaring."""
        return scalar.apply(Fn.POW, *xs) if xs[0].dtype.is_floating_point else _integer_power(*xs)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g y x^(y-1)` and `g x^y log x`.

        Zero, and not NaN, at `x**0` for the base 0 or NaN, and at `0**y` for the power: 1 stands in.
        """
        (g,) = cotangents
        assert g is not None
        gx = b(Mul(), g, conj(b, self._base_slope(b, operands[0], operands[1]))) if needs[0] else None
        gy = b(Mul(), g, conj(b, self._power_slope(b, operands[0], operands[1], results[0]))) if needs[1] else None
        return gx, gy

    def _base_slope(self, b: Builder, x: Value, y: Value) -> Value:
        distance = b(Abs(), x)
        ordinary = b(Gt(), distance, zeros_like(b, distance))
        singular = b(LogicalAnd(), b(Eq(), y, zeros_like(b, y)), b(LogicalNot(), ordinary))
        base = b(Where(), singular, full_like(b, x, 1.0), x)
        return b(Mul(), y, b(self, base, b(Sub(), y, full_like(b, y, 1.0))))

    def _power_slope(self, b: Builder, x: Value, y: Value, result: Value) -> Value:
        size = b(Real(), y) if y.type.dtype.is_complex else y
        singular = b(LogicalAnd(), b(Eq(), x, zeros_like(b, x)), b(Ge(), size, zeros_like(b, size)))
        base = b(Where(), singular, full_like(b, x, 1.0), x)
        return b(Mul(), result, b(Log(), base))
