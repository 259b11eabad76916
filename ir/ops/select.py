"""Choosing between values and changing their type: `Where` and `Convert`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from .. import scalar
from ..builder import Builder
from ..dtypes import DType, converted
from ..errors import DTypeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Op, Pointwise, Values, op
from ..scalar import Expr
from ..types import TensorType
from .creation import Full, zeros_like

__all__ = ["Convert", "Where", "add_cotangents", "carry_select"]


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
            raise DTypeError(f"where: the condition is {condition.dtype.name}, not bool{operand_lines(operands)}")
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
            return converted(x, self.dtype)

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


@dataclasses.dataclass(frozen=True, slots=True)
class _Masked:
    """A cotangent that is `where(condition, bare, 0)`, or with the branches the other way round."""

    condition: Value
    bare: Value
    first: bool

    @staticmethod
    def of(value: Value) -> _Masked | None:
        """`value` seen so, if it is one."""
        node = value.node
        if node is None or not isinstance(node.op, Where):
            return None
        condition, x, y = node.operands
        if _is_zero(y):
            return _Masked(condition, x, True)
        return _Masked(condition, y, False) if _is_zero(x) else None

    def apply(self, b: Builder, value: Value) -> Value:
        """The same select on another value."""
        zero = zeros_like(b, value)
        branches = (value, zero) if self.first else (zero, value)
        return b(Where(), self.condition, *branches)


def _is_zero(value: Value) -> bool:
    return value.node is not None and isinstance(value.node.op, Full) and value.node.op.value == 0


def carry_select(b: Builder, cotangent: Value, pull: Callable[[Value], Cotangents]) -> Cotangents:
    """Cotangents of a pointwise op's operands, with a select in `cotangent` carried over to them.

    Where the cotangent is `where(c, g, 0)`, the branch not taken must not matter, but its derivative may be
    infinite there, and 0 times infinity is NaN. So `g` is pulled back bare, and the select is put on what
    comes out: `where(c, g, 0) * d` becomes `where(c, g * d, 0)`. Exact, because a pointwise op's rule is
    linear in each element's cotangent; op by op, it follows the chain back to where the branch began.
    """
    masked = _Masked.of(cotangent)
    if masked is None:
        return pull(cotangent)
    return [g if g is None else cotangent if g is masked.bare else masked.apply(b, g) for g in pull(masked.bare)]


def add_cotangents(b: Builder, add: Op, x: Value, y: Value) -> Value:
    """The sum, by the op `add`, of two cotangents; a select common to both stays outside."""
    left, right = _Masked.of(x), _Masked.of(y)
    if left is None or right is None or (left.condition, left.first) != (right.condition, right.first):
        return b(add, x, y)
    return left.apply(b, b(add, left.bare, right.bare))
