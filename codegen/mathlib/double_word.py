"""Sums and products as an unevaluated pair (high, low), exact or nearly so.

Algorithms of Dekker (1971) and Knuth, with fma for the product, as collected in Muller et al., Handbook of
Floating-Point Arithmetic (2018), chapter 4. They hold because expansions are emitted without contraction or
reassociation.
"""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.ir import scalar
from jitgrad.ir.scalar import Expr, Operand


class Pair(NamedTuple):
    """The number `high + low`, with `high` its rounding."""

    high: Expr
    low: Expr


def two_sum(a: Expr, b: Expr) -> Pair:
    """`a + b` exactly."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def fast_two_sum(a: Expr, b: Expr) -> Pair:
    """`a + b` exactly, where `a` is 0 or not smaller than `b` in magnitude."""
    total = a + b
    return Pair(total, b - (total - a))


def two_product(a: Expr, b: Operand) -> Pair:
    """`a * b` exactly, unless it underflows."""
    product = a * b
    return Pair(product, scalar.fma(a, b, -product))


def multiply(a: Pair, b: Pair) -> Pair:
    """The product of two pairs, to about twice the precision."""
    product = two_product(a.high, b.high)
    low = product.low + scalar.fma(a.high, b.low, a.low * b.high)
    return fast_two_sum(product.high, low)


def add(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs where `a` is 0 or not smaller than `b` in magnitude."""
    total = two_sum(a.high, b.high)
    return fast_two_sum(total.high, total.low + (a.low + b.low))


def divide(a: Pair, b: Pair) -> Pair:
    """`a / b`, the quotient of the high parts, not quite rounded, and what it lacks; one division."""
    inverse = 1.0 / b.high
    quotient = a.high * inverse
    left = scalar.fma(-quotient, b.high, a.high) + scalar.fma(-quotient, b.low, a.low)
    return Pair(quotient, left * inverse)
