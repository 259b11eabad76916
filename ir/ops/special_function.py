"""What ops of special functions share: one float operand, and how wide kernels compute."""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np

from .. import dtypes, scalar
from ..op import Array
from ..scalar import Expr
from ..scalar_eval import Program
from .math import SmoothPointwise

__all__ = ["SinglePrecisionFunction", "SpecialFunction"]


class SpecialFunction(SmoothPointwise):
    """A smooth function of one float, whose `formula` is written for float64 elements."""

    accepts: ClassVar[tuple[str, ...]] = ("float",)
    wide = True


class SinglePrecisionFunction(SpecialFunction):
    """One that has a formula of its own for float32 elements, `single`, by which eager code and kernels agree."""

    fast = False

    def single(self, x: Expr) -> Expr:
        """The function of a float32 element, in float32."""
        raise NotImplementedError

    def scalar(self, *xs: Expr) -> Expr:
        """`formula` of a float64 element; of others `single`."""
        (x,) = xs
        if x.dtype is dtypes.float64:
            return self.formula(x)
        return scalar.convert(self.single(scalar.convert(x, dtypes.float32)), x.dtype)

    def reference(self, *operands: Array) -> Array:
        """SciPy's function of float64 elements; of others `single`."""
        (x,) = operands
        if x.dtype == np.float64:
            return super().reference(x)
        narrow = x.astype(np.float32, copy=False)
        with np.errstate(over="ignore"):  # to half types
            return np.asarray(_single(self)(narrow), x.dtype)


@functools.cache
def _single(op: SinglePrecisionFunction) -> Program:
    """`op.single`, built once."""
    return Program(op.single(scalar.arg(0, dtypes.float32)))
