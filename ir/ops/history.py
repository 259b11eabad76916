"""Values whose gradients go another way than their computation: `Detach` and `WithHistory`.

The tracer writes them where a tensor is detached, computed without recording, or overwritten unseen by gradients,
so that the gradient of a captured graph is that of the program. After the gradient is taken they mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..builder import Builder
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr

__all__ = ["Detach", "WithHistory"]


@op
class Detach(Pointwise):
    """The operand; no gradient flows back."""

    name = "detach"
    differentiable = False
    fast = False
    inplace = False
    ufunc = np.copy

    def reference(self, *operands: Array) -> Array:
        """The operand."""
        return operands[0]

    def scalar(self, *xs: Expr) -> Expr:
        """The operand's element."""
        return xs[0]


@op
class WithHistory(Pointwise):
    """The first operand, with the gradient flowing to the second, which it has overwritten."""

    arity = 2
    name = "with_history"
    fast = False
    inplace = False
    ufunc = np.copy

    def reference(self, *operands: Array) -> Array:
        """The first operand."""
        return operands[0]

    def scalar(self, *xs: Expr) -> Expr:
        """The first operand's element."""
        return xs[0]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent, to the second operand."""
        return None, cotangents[0] if needs[1] else None
