"""Choosing between values and changing their type: `Where` and `Convert`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import scalar
from ..builder import Builder
from ..graph import Value
from ..dtypes import DType
from ..errors import DTypeError, operand_lines
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr
from ..types import TensorType
from .creation import Full, zeros_like

__all__ = ["Convert", "Where", "carry_select"]


@op
class Where(Pointwise):
    """`x` where the bool `condition` holds, else `y`; the other branch's value and gradient have no effect.

    >>> import jitgrad as jg
    >>> jg.where(jg.tensor([True, False]), jg.tensor([1, 2]), jg.tensor([3, 4]))
    tensor([1, 4])
    """

    arity = 3
    name = "where"
    fast = False
    inplace = False
    ufunc = np.where

    def result_dtype(self, *operands: DType) -> DType:
        """That of the branches."""
        return operands[1]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A bool condition and two branches of equal dtype, all of one shape."""
        super().infer(*operands)
        return (operands[1],)

    def check_dtypes(self, operands: Sequence[TensorType]) -> None:
        """A bool, and two operands of equal dtype."""
        condition, x, y = operands
        if condition.dtype.kind != "bool":
            raise DTypeError(
                f"where: the condition is {condition.dtype.name}, not bool{operand_lines(operands)}"
            )
        if x.dtype is not y.dtype:
            raise DTypeError(f"where: the branches' dtypes differ{operand_lines(operands)}")

    def scalar(self, *xs: Expr) -> Expr:
        """A select."""
        return scalar.where(*xs)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent goes to the branch taken; zero to the other."""
        (g,) = cotangents
        assert g is not None
        zero, condition = zeros_like(b, g), operands[0]
        gx = b(self, condition, g, zero) if needs[1] else None
        gy = b(self, condition, zero, g) if needs[2] else None
        return None, gx, gy


@op
class Convert(Pointwise):
    """The operand's values as `dtype`: floats are cut to integers, complex numbers to their real part.

    Converting to bool tests for non-zero. Out of range, the resulting integer is not specified.
    """

    dtype: DType
    name = "convert"
    fast = False
    inplace = False
    ufunc = np.positive

    def result_dtype(self, *operands: DType) -> DType:
        """`dtype`."""
        return self.dtype

    def reference(self, *operands: Array) -> Array:
        """A copy of that dtype."""
        (x,) = operands
        x = np.asarray(x)
        if x.dtype.kind == "c" and not self.dtype.is_complex:
            x = x != 0 if self.dtype.kind == "bool" else x.real
        with np.errstate(all="ignore"):
            return x.astype(self.dtype.np)

    def can_emit(self, *operands: TensorType) -> bool:
        """Real dtypes on both sides."""
        return not self.dtype.is_complex and super().can_emit(*operands)

    def scalar(self, *xs: Expr) -> Expr:
        """A conversion."""
        return scalar.convert(xs[0], self.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent converted back; the real part where the operand was real."""
        (g,) = cotangents
        assert g is not None
        return (b(Convert(operands[0].type.dtype), g),)


def carry_select(b: Builder, cotangent: Value, pull: Callable[[Value], Cotangents]) -> Cotangents:
    """Cotangents of a pointwise op's operands, with a select in `cotangent` carried to them.

    Where the cotangent is `where(c, g, 0)`, the branch not taken must not matter, but its derivative may be
    infinite there, and 0 times infinity is NaN. So `g` is pulled back bare and the select put on what comes out:
    `where(c, g, 0) * d` becomes `where(c, g * d, 0)`. Exact, because a pointwise op's rule is linear in each
    element's cotangent; applied op by op, it follows the chain back to where the branch began.
    """
    node = cotangent.node
    if node is None or not isinstance(node.op, Where):
        return pull(cotangent)
    condition, x, y = node.operands
    if not _is_zero(x) and not _is_zero(y):
        return pull(cotangent)
    bare = x if _is_zero(y) else y
    out: list[Value | None] = []
    for grad in pull(bare):
        if grad is None or grad is bare:
            out.append(None if grad is None else cotangent)
            continue
        zero = zeros_like(b, grad)
        out.append(b(Where(), condition, grad, zero) if bare is x else b(Where(), condition, zero, grad))
    return out


def _is_zero(value: Value) -> bool:
    return value.node is not None and isinstance(value.node.op, Full) and value.node.op.value == 0
