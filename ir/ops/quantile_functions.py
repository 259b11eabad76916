"""Quantile functions of distributions: what turns uniform numbers into Poisson's, binomial and gamma ones.

An element depends on its operands alone, so that what is drawn is the same eagerly and compiled.
"""

from __future__ import annotations

import itertools

import numpy as np

from .. import dtypes
from ..errors import DTypeError, ShapeError, operand_lines
from ..op import Array, op
from ..special import scipy_function
from ..types import TensorType
from .host import HostOp

__all__ = ["BinomialQuantile", "GammaQuantile", "PoissonQuantile"]

_SMALL_RATE = 64.0
_FEW = 64  # elements, with which Python is faster than NumPy


class _Quantile(HostOp):
    """The smallest value whose distribution function is at least the first operand, of parameters in the others."""

    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """float64 operands of one shape."""
        for t in operands:
            if t.dtype is not dtypes.float64:
                raise DTypeError(f"{self.name}: not defined for {t.dtype.name}{operand_lines(operands)}")
            if t.shape != operands[0].shape:
                raise ShapeError(f"{self.name}: operand shapes differ{operand_lines(operands)}")
        return operands[:1]


def _whole(real: Array, below: Array, u: Array) -> Array:
    """`real` rounded up, or one less where the distribution function of that, `below`, is still at least `u`."""
    up = np.ceil(real)
    return np.where(below >= u, np.maximum(up - 1.0, 0.0), up)


@op
class PoissonQuantile(_Quantile):
    """Of Poisson's distribution. Operands: `u` in [0, 1), the rate."""

    name = "poisson_quantile"

    def reference(self, *operands: Array) -> Array:
        """Of small rates by adding up probabilities, of others by `scipy.special.pdtrik`, which takes microseconds."""
        u, rate = (np.ravel(x) for x in operands)
        is_small = rate <= _SMALL_RATE
        out = np.empty_like(u)
        out[is_small] = _summed(u[is_small], rate[is_small])
        is_large = ~is_small
        if is_large.any():
            out[is_large] = _solved(u[is_large], rate[is_large])
        return out.reshape(operands[0].shape)


def _summed(u: Array, rate: Array) -> Array:
    """How many of the probabilities of 1, 2, ... are added up until the sum is at least `u`, or grows no more."""
    first = np.exp(-rate)
    if u.size <= _FEW:
        return np.array([_count(*x) for x in zip(u.tolist(), rate.tolist(), first.tolist(), strict=True)], np.float64)
    out, places = np.zeros_like(u), np.arange(u.size)
    total, probability, beyond = first, first, first < u
    for k in itertools.count(1):
        if not beyond.any():
            break
        u, rate, places, total = u[beyond], rate[beyond], places[beyond], total[beyond]
        out[places] = k
        probability = probability[beyond] * (rate / k)
        before, total = total, total + probability
        beyond = (total < u) & (total > before)
    return out


def _count(u: float, rate: float, probability: float) -> int:
    """The same for one element, by the same operations."""
    total, before, k = probability, -1.0, 0
    while before < total < u:
        k += 1
        probability *= rate / k
        before, total = total, total + probability
    return k


def _solved(u: Array, rate: Array) -> Array:
    with np.errstate(all="ignore"):
        real = scipy_function("pdtrik")(u, rate)
        below = scipy_function("pdtr")(np.maximum(np.ceil(real) - 1.0, 0.0), rate)
        return np.asarray(_whole(real, below, u))


@op
class BinomialQuantile(_Quantile):
    """Of the binomial distribution. Operands: `u` in [0, 1), the number of trials, the probability."""

    name = "binomial_quantile"

    def reference(self, *operands: Array) -> Array:
        """`scipy.special.bdtrik`."""
        u, count, p = operands
        inside = (p > 0) & (p < 1) & (count > 0)
        n, q = np.where(inside, count, 1.0), np.where(inside, p, 0.5)
        with np.errstate(all="ignore"):
            real = scipy_function("bdtrik")(u, n, q)
            less = np.clip(np.ceil(real) - 1.0, 0.0, n - 1.0)
            below = scipy_function("betainc")(n - less, less + 1.0, 1.0 - q)  # the chance of at most `less`
            return np.asarray(np.where(inside, np.clip(_whole(real, below, u), 0.0, n), count * p))


@op
class GammaQuantile(_Quantile):
    """Of the gamma distribution with scale 1. Operands: `u` in [0, 1), the shape parameter."""

    name = "gamma_quantile"

    def reference(self, *operands: Array) -> Array:
        """`scipy.special.gammaincinv`."""
        u, alpha = operands
        with np.errstate(all="ignore"):
            return np.asarray(scipy_function("gammaincinv")(alpha, u))
