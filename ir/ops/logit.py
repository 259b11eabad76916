"""The logarithm of odds, the inverse of the logistic function."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr, Fn
from .broadcast import accumulator_dtype
from .formula import Term

__all__ = ["Logit"]


@op
class Logit(Pointwise):
    """`log(x / (1 - x))`, elementwise, of floats; with `eps`, `x` is first limited to `[eps, 1 - eps]`.

    The gradient is 0 outside these limits, or without them NaN outside [0, 1], as the result is.
    """

    eps: float | None = None
    name = "logit"
    promotes = "float"
    accepts = ("float",)
    fast = False

    def _limits(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.eps is None else (self.eps, 1.0 - self.eps)

    def reference(self, *operands: Array) -> Array:
        """The formula in NumPy, in float32 for the half types."""
        given = operands[0]
        x = given.astype(accumulator_dtype(dtypes.FROM_NUMPY[given.dtype]).np, copy=False)
        with np.errstate(all="ignore"):
            if self.eps is not None:
                low, high = map(x.dtype.type, self._limits())
                x = np.where(x < low, low, x)
                x = np.where(x > high, high, x)
            return np.asarray(np.log(x / (1 - x)), dtype=given.dtype)

    def scalar(self, *xs: Expr) -> Expr:
        """The formula, in float32 for the half types."""
        x = scalar.convert(xs[0], accumulator_dtype(xs[0].dtype))
        if self.eps is not None:
            low, high = (scalar.const(n, x.dtype, runtime=True) for n in self._limits())
            x = scalar.where(x < low, low, x)
            x = scalar.where(x > high, high, x)
        return scalar.convert(scalar.apply(Fn.LOG, x / (1.0 - x)), xs[0].dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`g / (x (1 - x))` within the limits."""
        (g,) = cotangents
        assert g is not None
        dtype = operands[0].type.dtype
        wide = accumulator_dtype(dtype)
        x, (low, high) = Term(b, operands[0]).convert(wide), self._limits()
        inside = Term(b, g).convert(wide) / (x * (1.0 - x))
        outside = math.nan if self.eps is None else 0.0
        pulled = (x < low).choose(outside, (x > high).choose(outside, inside))
        return (pulled.convert(dtype).value,)
