"""`ScatterExtreme`: the largest or smallest of what meets at each place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import scalar
from ..builder import Builder
from ..errors import DTypeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..scalar import Expr
from ..types import TensorType
from .arithmetic import Div
from .comparison import Eq
from .creation import zeros_like
from .indexing import Gather, ScatterAdd, Scattering
from .select import Convert, Where

__all__ = ["ScatterExtreme"]


@op
class ScatterExtreme(Scattering):
    """`base` with the places that `Gather` would read set to the largest (or smallest) of what is there and `source`.

    Operands: `base`, `index`, `source` (of the shape of `index`). Elements that are equally large share the gradient.
    """

    axis: int
    largest: bool
    name = "scatter_extreme"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """As for `Gather`; the source has the index's shape and the base's dtype, which has an order."""
        if operands[0].dtype.is_complex:
            raise DTypeError(f"{self.name}: complex numbers have no order{operand_lines(operands)}")
        return super().infer(*operands)

    def meet(self, present: Expr, coming: Expr) -> Expr:
        """The larger, or smaller; NaN if either is."""
        return scalar.maximum(present, coming) if self.largest else scalar.minimum(present, coming)

    def reference(self, *operands: Array) -> Array:
        """`numpy.maximum.at` or `numpy.minimum.at`."""
        base, index, source = operands
        out = np.array(base, order="C")
        (np.maximum if self.largest else np.minimum).at(out, self._coordinates(base, index), source)
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent to the elements that equal the result, in equal shares."""
        (g,) = cotangents
        assert g is not None
        base, index, source = operands
        read = Gather(self.axis)
        first, second = b(Eq(), base, results[0]), b(Eq(), source, b(read, results[0], index))
        count = b(ScatterAdd(self.axis), self._ones(b, first, g), index, self._ones(b, second, g))
        share = b(Div(), g, count)
        g_base = b(Where(), first, share, zeros_like(b, share)) if needs[0] else None
        if not needs[2]:
            return g_base, None, None
        read_share = b(read, share, index)
        return g_base, None, b(Where(), second, read_share, zeros_like(b, read_share))

    def _ones(self, b: Builder, condition: Value, g: Value) -> Value:
        return b(Convert(g.type.dtype), condition)
