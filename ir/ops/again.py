"""`Again`: a value to compute something from a second time, which no pass may take for the first time."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder
from ..errors import ShapeError, operand_lines
from ..op import Array, Cotangents, IndexMap, Load, Values, op
from ..scalar import Expr
from ..types import TensorType

__all__ = ["Again"]


@op
class Again(IndexMap):
    """The first operand, for use after the second is there, if one is given.

    What is computed from the result is not merged with what is computed from the operand.
    """

    name = "again"
    batchable = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The first operand's type."""
        if len(operands) not in (1, 2):
            raise ShapeError(f"again: expects one or two operands, not {len(operands)}{operand_lines(operands)}")
        return (operands[0],)

    def reference(self, *operands: Array) -> Array:
        """The first operand."""
        return operands[0].copy()

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The first operand's element."""
        return operands[0](index)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent, to the first operand."""
        return cotangents[0] if needs[0] else None, *[None] * (len(operands) - 1)
