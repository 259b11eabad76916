"""The two float formats the expansions are written for, and the few moves all of them make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Expr


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format. `mantissa` counts the stored bits; `magic` is 1.5 * 2**mantissa."""

    dtype: DType
    integer: DType
    mantissa: int
    bias: int

    @property
    def magic(self) -> float:
        """Added to a small float, rounds it to an integer, found in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def magic_bits(self) -> int:
        """The bits of `magic` as an integer."""
        return (self.bias + self.mantissa << self.mantissa) | (1 << self.mantissa - 1)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number of full precision."""
        return float(2.0 ** (1 - self.bias))


FLOAT32: Final = Format(dtypes.float32, dtypes.int32, 23, 127)
FLOAT64: Final = Format(dtypes.float64, dtypes.int64, 52, 1023)


LN2: Final = {
    dtypes.float32: (0.693145751953125, 1.428606765330187e-06),
    dtypes.float64: (0.6931471803691238, 1.9082149292705877e-10),
}
"""log 2 as (high, low); the high part times an exponent is exact."""


def format_of(x: Expr) -> Format:
    """The format of a float32 or float64 expression."""
    return FLOAT32 if x.dtype is dtypes.float32 else FLOAT64


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """`sum(c[i] * x**i)` by Horner's rule, one fma a step."""
    result = scalar.lift(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = scalar.fma(result, x, scalar.lift(c, x.dtype))
    return result


def nearest_integer(x: Expr, scale: float) -> tuple[Expr, Expr]:
    """`x * scale` rounded to the nearest integer, as a float and as an integer; |x * scale| < 2**(mantissa - 1)."""
    fmt = format_of(x)
    shifted = scalar.fma(x, scale, scalar.lift(fmt.magic, x.dtype))
    return shifted - fmt.magic, scalar.bitcast(shifted, fmt.integer) - fmt.magic_bits


def power_of_two(n: Expr, fmt: Format) -> Expr:
    """`2.0 ** n` for an integer `n` of a normal number's exponent."""
    return scalar.bitcast((n << fmt.mantissa) + (fmt.bias << fmt.mantissa), fmt.dtype)


def scale(x: Expr, n: Expr) -> Expr:
    """`x * 2**n`, rounded once even where the result is denormal; `n` whole, of at most twice a normal's exponent."""
    return scalar.apply(scalar.Fn.SCALE, x, n)


def at_least(x: Expr, bound: float) -> Expr:
    """`x`, raised to `bound`; NaN stays."""
    return scalar.where(x < bound, bound, x)


def at_most(x: Expr, bound: float) -> Expr:
    """`x`, lowered to `bound`; NaN stays."""
    return scalar.where(x > bound, bound, x)


def with_sign_of(magnitude: Expr, sign: Expr) -> Expr:
    """`magnitude` with the sign bit of `sign`."""
    return scalar.apply(scalar.Fn.COPYSIGN, magnitude, sign)
