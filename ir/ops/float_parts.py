"""Floats as numbers of their format: the sign of another, the next one, mantissa and exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import DTypeError, operand_lines
from ..op import Array, Cotangents, Op, Pointwise, Values, op
from ..scalar import Expr, Fn
from ..types import TensorType
from .arithmetic import Mul, Neg, Sign
from .broadcast import accumulator_dtype
from .creation import full_like, zeros_like
from .math import Exp2
from .select import Convert

__all__ = ["CopySign", "Frexp", "NextAfter"]

_BITS = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}


@op
class CopySign(Pointwise):
    """The size of `x` with the sign of `y`, elementwise, of floats; that of `y` may be the sign of a zero.

    The gradient of `x` is 0 where `x` is 0, that of `y` everywhere.

    >>> import jitgrad as jg
    >>> jg.copysign(jg.tensor([1.0, -2.0]), -1.0)
    tensor([-1., -2.])
    """

    arity = 2
    name = "copysign"
    numbers = "second"
    public = ("copysign",)
    promotes = "float"
    accepts = ("float",)
    ufunc = np.copysign

    def scalar(self, *xs: Expr) -> Expr:
        """The sign's bit, in float32 for the half types."""
        x, y = (scalar.convert(v, accumulator_dtype(v.dtype)) for v in xs)
        return scalar.convert(scalar.apply(Fn.COPYSIGN, x, y), xs[0].dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent, turned where the sign was, and zero."""
        (g,) = cotangents
        assert g is not None
        x, y = operands[0], results[0]
        gx = b(Mul(), g, b(Mul(), b(Sign(), x), b(self, full_like(b, y, 1.0), y))) if needs[0] else None
        return gx, zeros_like(b, g) if needs[1] else None


@op
class NextAfter(Pointwise):
    """The next number of the dtype after `x` towards `y`, elementwise, of floats; `y` where they are equal.

    >>> import jitgrad as jg
    >>> jg.nextafter(jg.tensor([1.0]), jg.tensor([2.0])) - 1
    tensor([1.1921e-07])
    """

    arity = 2
    name = "nextafter"
    numbers = "none"
    public = ("nextafter",)
    accepts = ("float",)
    ufunc = np.nextafter

    def can_emit(self, *operands: TensorType) -> bool:
        """float32 and float64."""
        return operands[0].dtype in _BITS

    def scalar(self, *xs: Expr) -> Expr:
        """The bits, read as an integer, one more or less."""
        x, y = xs
        bits = scalar.bitcast(x, _BITS[x.dtype])
        moved = scalar.bitcast(scalar.where((x < y).eq(x > 0.0), bits + 1, bits - 1), x.dtype)
        smallest = scalar.const(float(np.finfo(x.dtype.np).smallest_subnormal), x.dtype)
        moved = scalar.where(x.eq(0.0), scalar.apply(Fn.COPYSIGN, smallest, y), moved)
        return scalar.where(scalar.is_nan(x) | scalar.is_nan(y), math.nan, scalar.where(x.eq(y), y, moved))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent for the first operand, which the result is next to."""
        (g,) = cotangents
        assert g is not None
        return g if needs[0] else None, zeros_like(b, g) if needs[1] else None


@op
class Frexp(Op):
    """Mantissas `m` with 0.5 <= |m| < 1 and int32 exponents `e` such that `x = m 2**e`, elementwise, of floats.

    Zeros, infinities and NaN are their own mantissas, with exponent 0.
    """

    name = "frexp"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A float operand."""
        (x,) = operands
        if not x.dtype.is_floating_point:
            raise DTypeError(
                f"frexp: only floating-point dtypes are supported, not {x.dtype.name}{operand_lines(operands)}"
            )
        return x, x.with_dtype(dtypes.int32)

    def reference(self, *operands: Array) -> Array:
        """`numpy.frexp`."""
        (x,) = operands
        mantissa, exponent = np.frexp(x.astype(np.float32) if x.dtype.itemsize == 2 else x)
        return np.asarray(mantissa, dtype=x.dtype), np.asarray(np.where(np.isfinite(mantissa), exponent, 0), np.int32)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by NumPy."""
        return False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The mantissa's cotangent over 2**e."""
        g = cotangents[0]
        if g is None:
            return (None,)
        power = b(Exp2(), b(Neg(), b(Convert(g.type.dtype), results[1])))
        return (b(Mul(), g, power),)
