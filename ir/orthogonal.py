"""Orthogonal polynomials by their recurrences, for references: of a place `x` and a degree `n`, both arrays.

Both have one float dtype, in which everything is computed, as in PyTorch (half types in float32). The degree is cut
to a whole number; where it is negative the value is 0. Chebyshev polynomials of higher degrees are cosines inside
[-1, 1]. One step of a recurrence takes all elements at once; there are as many as the largest degree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
Step: TypeAlias = Callable[[int, Array, Array, Array], Array]

_COSINES_FROM = {"t": 7, "u": 9, "v": 9, "w": 9}
"""The lowest degree for which a Chebyshev polynomial inside (-1, 1) is computed by way of its angle."""
_HERMITE_LIMIT = {4: 128, 8: 512}
"""The largest degree of Hermite polynomials, by item size; above they are NaN."""
_LONGEST = 100_000
"""Recurrences end here: long before, they have overflowed, or lost all digits."""


def _operands(x: Array, n: Array) -> tuple[Array, Array]:
    """The place in the dtype to compute in, and the degree as int64."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    with np.errstate(all="ignore"):
        degree = np.trunc(np.where(np.isfinite(n), n, np.asarray(-1, n.dtype))).astype(np.int64)
    return wide, degree


def _recurrence(x: Array, n: Array, first: Array, step: Step, needed: Array | None = None) -> Array:
    """The member `n` of the sequence `1, first, step(k, ...), ...`, where `step` gets k, x and the last two."""
    below, last = np.ones_like(x), np.asarray(first, x.dtype)
    result = np.where(n == 0, below, last)
    highest = int(np.max(n if needed is None else np.where(needed, n, 0), initial=0))
    for k in range(1, min(highest, _LONGEST)):
        below, last = last, np.asarray(step(k, x, last, below), x.dtype)
        result = np.where(n == k + 1, last, result)
    return result


def _product_less(a: Array, b: Array, c: Array) -> Array:
    """`a b - c`, rounded once in single precision, as by the machine's fused instruction."""
    if a.dtype != np.float32:
        return a * b - c
    return (a.astype(np.float64) * b - c).astype(np.float32)


def _finished(result: Array, n: Array, like: Array) -> Array:
    return np.where(n < 0, 0, result).astype(like.dtype)


def _twice(k: int, x: Array, last: Array, below: Array) -> Array:
    return _product_less(x + x, last, below)


def _chebyshev(kind: str, x: Array, n: Array, first: Array, at_one: Array, at_minus_one: Array) -> Array:
    """By the recurrence, or for high degrees inside (-1, 1) by way of the angle."""
    by_angle = (n >= _COSINES_FROM[kind]) & (np.abs(x) < 1)
    result = _recurrence(x, n, first, _twice, ~by_angle & (np.abs(x) != 1))
    if by_angle.any():
        result = np.where(by_angle, _of_angle(kind, np.arccos(np.clip(x, -1, 1)), n.astype(x.dtype)), result)
    at_ends = np.where(x > 0, at_one, np.where(n % 2 == 0, at_minus_one, -at_minus_one))
    return np.where(np.abs(x) == 1, at_ends, result)


def _of_angle(kind: str, angle: Array, n: Array) -> Array:
    """The polynomial of the cosine of an angle in (0, π)."""
    half = angle.dtype.type(0.5)
    if kind == "t":
        return np.cos(n * angle)
    if kind == "u":
        return np.sin((n + 1) * angle) / np.sin(angle)
    if kind == "v":
        return np.cos((n + half) * angle) / np.cos(angle * half)
    return np.sin((n + half) * angle) / np.sin(angle * half)


def chebyshev_polynomial_t(x: Array, n: Array) -> Array:
    """The polynomial of the first kind: `cos(n t)` at `x = cos(t)`.

    >>> chebyshev_polynomial_t(np.array([0.5]), np.array([2.0]))
    array([-0.5])
    """
    wide, degree = _operands(x, n)
    with np.errstate(all="ignore"):
        return _finished(_chebyshev("t", wide, degree, wide, np.ones_like(wide), np.ones_like(wide)), degree, x)


def chebyshev_polynomial_u(x: Array, n: Array) -> Array:
    """The polynomial of the second kind: `sin((n + 1) t) / sin(t)` at `x = cos(t)`."""
    wide, degree = _operands(x, n)
    with np.errstate(all="ignore"):
        return _finished(_chebyshev("u", wide, degree, wide + wide, degree + 1, degree + 1), degree, x)


def chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """The polynomial of the third kind: `cos((n + 1/2) t) / cos(t / 2)` at `x = cos(t)`."""
    wide, degree = _operands(x, n)
    with np.errstate(all="ignore"):
        ends = np.ones_like(wide), 2 * degree + 1
        return _finished(_chebyshev("v", wide, degree, wide + wide - 1, *ends), degree, x)


def chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """The polynomial of the fourth kind: `sin((n + 1/2) t) / sin(t / 2)` at `x = cos(t)`."""
    wide, degree = _operands(x, n)
    with np.errstate(all="ignore"):
        ends = 2 * degree + 1, np.ones_like(wide)
        return _finished(_chebyshev("w", wide, degree, wide + wide + 1, *ends), degree, x)


def _shifted(function: Callable[[Array, Array], Array], x: Array, n: Array) -> Array:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return function((wide + wide) - 1, n).astype(x.dtype)


def shifted_chebyshev_polynomial_t(x: Array, n: Array) -> Array:
    """The polynomial of the first kind at `2x - 1`."""
    return _shifted(chebyshev_polynomial_t, x, n)


def shifted_chebyshev_polynomial_u(x: Array, n: Array) -> Array:
    """The polynomial of the second kind at `2x - 1`."""
    return _shifted(chebyshev_polynomial_u, x, n)


def shifted_chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """The polynomial of the third kind at `2x - 1`."""
    return _shifted(chebyshev_polynomial_v, x, n)


def shifted_chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """The polynomial of the fourth kind at `2x - 1`."""
    return _shifted(chebyshev_polynomial_w, x, n)


def _hermite(x: Array, n: Array, first: Array, step: Step) -> Array:
    limit = _HERMITE_LIMIT[x.dtype.itemsize]
    return np.where(n > limit, np.nan, _recurrence(x, np.minimum(n, limit), first, step))


def hermite_polynomial_h(x: Array, n: Array) -> Array:
    """The physicists' polynomial: `H(k+1) = 2x H(k) - 2k H(k-1)`."""
    wide, degree = _operands(x, n)
    with np.errstate(all="ignore"):
        result = _hermite(wide, degree, wide + wide, lambda k, x, p, q: _product_less(x + x, p, 2 * k * q))
        return _finished(result, degree, x)


def hermite_polynomial_he(x: Array, n: Array) -> Array:
    """The probabilists' polynomial: `He(k+1) = x He(k) - k He(k-1)`."""
    wide, degree = _operands(x, n)
    with np.errstate(all="ignore"):
        return _finished(_hermite(wide, degree, wide, lambda k, x, p, q: _product_less(x, p, k * q)), degree, x)


def laguerre_polynomial_l(x: Array, n: Array) -> Array:
    """The Laguerre polynomial, 1 at 0: `(k + 1) L(k+1) = (2k + 1 - x) L(k) - k L(k-1)`."""
    wide, degree = _operands(x, n)

    def step(k: int, x: Array, last: Array, below: Array) -> Array:
        return _product_less((k + k) + (1 - x), last, k * below) / (k + 1)

    with np.errstate(all="ignore"):
        result = _recurrence(wide, degree, 1 - wide, step, wide != 0)
        return _finished(np.where(wide == 0, 1, result), degree, x)


def legendre_polynomial_p(x: Array, n: Array) -> Array:
    """The Legendre polynomial, 1 at 1: `(k + 1) P(k+1) = (2k + 1) x P(k) - k P(k-1)`."""
    wide, degree = _operands(x, n)

    def step(k: int, x: Array, last: Array, below: Array) -> Array:
        return _product_less((k + k + 1) * x, last, k * below) / (k + 1)

    with np.errstate(all="ignore"):
        result = _recurrence(wide, degree, wide, step, np.abs(wide) != 1)
        at_ends = np.where((wide > 0) | (degree % 2 == 0), 1, -1)
        return _finished(np.where(np.abs(wide) == 1, at_ends, result), degree, x)
