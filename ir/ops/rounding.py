"""Rounding, and division that rounds: `Floor`, `Ceil`, `Trunc`, `Round`, `FloorDivide`, `Remainder`, `Fmod`.

Dividing an integer by zero raises; a kernel, which can't, gives 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from .. import scalar
from ..builder import Builder
from ..errors import DivisionByZeroError
from ..op import Array, Cotangents, Op, Pointwise, Values, op
from ..scalar import Expr, Fn
from ..types import TensorType
from .arithmetic import Div, Mul, Neg
from .broadcast import accumulator_dtype
from .check import CheckDivisor
from .creation import zeros_like

__all__ = ["Ceil", "Floor", "FloorDivide", "Fmod", "Remainder", "Round", "Trunc"]


class _Rounding(Pointwise):
    """Floats to whole numbers of the same type; integers stay. The gradient is zero."""

    accepts = ("int", "float")
    fn: ClassVar[Fn]

    def reference(self, *operands: Array) -> Array:
        """`ufunc` of floats; integers stay."""
        (x,) = operands
        return x.copy() if x.dtype.kind in "iu" else super().reference(x)

    def scalar(self, *xs: Expr) -> Expr:
        """The scalar function of that name."""
        (x,) = xs
        return scalar.apply(self.fn, x) if x.dtype.is_floating_point else x

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Zero."""
        (g,) = cotangents
        assert g is not None
        return (zeros_like(b, g),)


@op
class Floor(_Rounding):
    """The largest whole number that is not above `x`, elementwise. Its gradient is zero.

    >>> import jitgrad as jg
    >>> jg.floor(jg.tensor([1.5, -1.5]))
    tensor([ 1., -2.])
    """

    name = "floor"
    public = ("floor",)
    ufunc = np.floor
    fn = Fn.FLOOR


@op
class Ceil(_Rounding):
    """The smallest whole number that is not below `x`, elementwise. Its gradient is zero.

    >>> import jitgrad as jg
    >>> jg.ceil(jg.tensor([1.5, -1.5]))
    tensor([ 2., -1.])
    """

    name = "ceil"
    public = ("ceil",)
    ufunc = np.ceil
    fn = Fn.CEIL


@op
class Trunc(_Rounding):
    """`x` without its fraction, elementwise. Its gradient is zero.

    >>> import jitgrad as jg
    >>> jg.trunc(jg.tensor([1.5, -1.5]))
    tensor([ 1., -1.])
    """

    name = "trunc"
    public = ("trunc", "fix")
    ufunc = np.trunc
    fn = Fn.TRUNC


@op
class Round(_Rounding):
    """The nearest whole number, halves to the even one, elementwise. Its gradient is zero."""

    name = "round"
    ufunc = np.rint
    fn = Fn.ROUND


def _checked(name: str, ufunc: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`ufunc` that refuses an integer divisor of zero."""

    def divide(x: Array, y: Array) -> Array:
        if x.dtype.kind in "iu" and not np.all(y):
            raise DivisionByZeroError(f"{name}: an integer is divided by zero")
        return ufunc(x, y)

    return divide


class _Division(Pointwise):
    """Division of real numbers with a rounded quotient."""

    arity = 2
    accepts = ("int", "float")

    def value_checks(self, *operands: TensorType) -> Sequence[tuple[int, Op]]:
        """No integer divisor is zero."""
        return ((1, CheckDivisor(self.name)),) if operands[1].dtype.kind == "int" else ()

    def scalar(self, *xs: Expr) -> Expr:
        """By the rule for floats, in float32 for the half types, or that for integers."""
        x, y = xs
        if y.dtype.is_floating_point:
            wide = accumulator_dtype(y.dtype)
            return scalar.convert(self.of_floats(*(scalar.convert(v, wide) for v in xs)), y.dtype)
        return scalar.where(y.eq(0), 0, self.of_integers(x, y))

    def of_floats(self, x: Expr, y: Expr) -> Expr:
        """The result for float32 or float64 elements."""
        raise NotImplementedError

    def of_integers(self, x: Expr, y: Expr) -> Expr:
        """The result for integers, whatever it is where `y` is 0; there it must not trap."""
        raise NotImplementedError


def _safe_divisor(y: Expr) -> Expr:
    """1 in place of the divisors at which machines trap: 0, and -1 (for the lowest integer)."""
    traps = (y.eq(0) | y.eq(-1)) if y.dtype.is_signed else y.eq(0)
    return scalar.where(traps, 1, y)


def _signs_differ(remainder: Expr, y: Expr) -> Expr:
    """Whether a non-zero remainder and the divisor have different signs."""
    return remainder.ne(0) & (remainder < 0).ne(y < 0)


def _floored_remainder(x: Array, y: Array) -> Array:
    """`numpy.remainder`, but that zeros of floats have the dividend's sign."""
    found = np.asarray(np.remainder(x, y))
    return found if found.dtype.kind in "biu" else np.where(found == 0, np.copysign(found, x), found)


def _remainder(x: Expr, y: Expr) -> Expr:
    return scalar.apply(Fn.REM, x, y)


@op
class FloorDivide(_Division):
    """The quotient `x / y` rounded down, elementwise, of integers or floats. Its gradient is zero.

    Raises `ZeroDivisionError` for an integer divisor of zero.

    >>> import jitgrad as jg
    >>> jg.floor_divide(jg.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """

    name = "floor_divide"
    numbers = "either"
    public = ("floor_divide",)
    ufunc = _checked("floor_divide", np.floor_divide)

    def of_floats(self, x: Expr, y: Expr) -> Expr:
        """By way of the remainder, so that the quotient's rounding can't cross a whole number."""
        remainder = _remainder(x, y)
        quotient = (x - remainder) / y
        quotient = scalar.where(_signs_differ(remainder, y), quotient - 1.0, quotient)
        floored = scalar.floor(quotient)
        floored = scalar.where((quotient - floored) > 0.5, floored + 1.0, floored)
        plain = x / y
        zero = scalar.apply(Fn.COPYSIGN, scalar.const(0.0, x.dtype), plain)
        return scalar.where(y.eq(0.0), plain, scalar.where(quotient.eq(0.0), zero, floored))

    def of_integers(self, x: Expr, y: Expr) -> Expr:
        """The quotient towards zero, less one where that rounded up."""
        divisor = _safe_divisor(y)
        quotient = x / divisor
        if not y.dtype.is_signed:
            return quotient
        floored = scalar.where(_signs_differ(_remainder(x, divisor), divisor), quotient - 1, quotient)
        return scalar.where(y.eq(-1), -x, floored)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Zero."""
        (g,) = cotangents
        assert g is not None
        zero = zeros_like(b, g)
        return zero if needs[0] else None, zero if needs[1] else None


@op
class Remainder(_Division):
    """`x - y * floor(x / y)`, elementwise: the remainder with the divisor's sign, as Python's `%`.

    A remainder of zero has the dividend's sign. Raises `ZeroDivisionError` for an integer divisor of zero.

    >>> import jitgrad as jg
    >>> jg.remainder(jg.tensor([7, -7]), 3)
    tensor([1, 2])
    """

    name = "remainder"
    numbers = "either"
    public = ("remainder",)
    ufunc = _checked("remainder", _floored_remainder)

    def of_floats(self, x: Expr, y: Expr) -> Expr:
        """The C remainder, moved to the divisor's side."""
        remainder = _remainder(x, y)
        return scalar.where(_signs_differ(remainder, y), remainder + y, remainder)

    def of_integers(self, x: Expr, y: Expr) -> Expr:
        """The C remainder, moved to the divisor's side."""
        divisor = _safe_divisor(y)
        remainder = _remainder(x, divisor)
        if not y.dtype.is_signed:
            return remainder
        return scalar.where(_signs_differ(remainder, divisor), remainder + divisor, remainder)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g` and `-g * floor(x / y)`."""
        (g,) = cotangents
        assert g is not None
        gy = b(Neg(), b(Mul(), g, b(FloorDivide(), *operands))) if needs[1] else None
        return g if needs[0] else None, gy


@op
class Fmod(_Division):
    """`x - y * trunc(x / y)`, elementwise: the remainder with the dividend's sign, as C's `fmod`.

    Raises `ZeroDivisionError` for an integer divisor of zero.

    >>> import jitgrad as jg
    >>> jg.fmod(jg.tensor([7, -7]), 3)
    tensor([ 1, -1])
    """

    name = "fmod"
    public = ("fmod",)
    ufunc = _checked("fmod", np.fmod)

    def of_floats(self, x: Expr, y: Expr) -> Expr:
        """The C remainder."""
        return _remainder(x, y)

    def of_integers(self, x: Expr, y: Expr) -> Expr:
        """The C remainder."""
        return _remainder(x, _safe_divisor(y))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g` and `-g * trunc(x / y)`."""
        (g,) = cotangents
        assert g is not None
        gy = b(Neg(), b(Mul(), g, b(Trunc(), b(Div(), *operands)))) if needs[1] else None
        return g if needs[0] else None, gy
