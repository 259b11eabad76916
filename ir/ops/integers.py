"""Greatest common divisors and least common multiples of integers, elementwise."""

from __future__ import annotations

import numpy as np

from ..op import Pointwise, op
from ..types import TensorType

__all__ = ["Gcd", "Lcm"]


class _OfIntegers(Pointwise):
    """Two integer operands; the loop of Euclid's algorithm is NumPy's."""

    arity = 2
    commutative = True
    accepts = ("int",)
    numbers = "none"
    differentiable = False

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by NumPy."""
        return False


@op
class Gcd(_OfIntegers):
    """The greatest common divisor of `x` and `y`, elementwise, of integers; 0 of zeros.

    >>> import jitgrad as jg
    >>> jg.gcd(jg.tensor([12, -4]), jg.tensor([18, 6]))
    tensor([6, 2])
    """

    name = "gcd"
    public = ("gcd",)
    ufunc = np.gcd


@op
class Lcm(_OfIntegers):
    """The least common multiple of `x` and `y`, elementwise, of integers; it wraps at the dtype's width.

    >>> import jitgrad as jg
    >>> jg.lcm(jg.tensor([12, -4]), jg.tensor([18, 6]))
    tensor([36, 12])
    """

    name = "lcm"
    public = ("lcm",)
    ufunc = np.lcm
