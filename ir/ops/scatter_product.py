"""`ScatterProduct`: the product of what meets at each place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..builder import Builder
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..scalar import Expr
from ..types import TensorType
from .arithmetic import Div, Mul
from .comparison import Eq
from .complex import Conj
from .creation import full_like, zeros_like
from .indexing import Gather, ScatterAdd, Scattering
from .logical import LogicalAnd
from .select import Convert, Where

__all__ = ["ScatterProduct"]


@op
class ScatterProduct(Scattering):
    """`base` with the places that `Gather` would read multiplied by `source`; repeated places multiply on.

    Operands: `base`, `index`, `source` (of the shape of `index`).

    >>> import jitgrad as jg
    >>> jg.scatter_reduce(jg.tensor([2, 3]), 0, jg.tensor([0, 0]), jg.tensor([5, 7]), "prod")
    tensor([70,  3])
    """

    axis: int
    name = "scatter_product"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """As for `Gather`; the source has the index's shape and the base's dtype."""
        return super().infer(*operands)

    def meet(self, present: Expr, coming: Expr) -> Expr:
        """The product."""
        return present * coming

    def reference(self, *operands: Array) -> Array:
        """`numpy.multiply.at`."""
        base, index, source = operands
        out = np.array(base, order="C")
        with np.errstate(all="ignore"):
            np.multiply.at(out, self._coordinates(base, index), source)
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Each factor's: the cotangent times the product of the others; nothing is divided by zero."""
        (g,) = cotangents
        assert g is not None
        base, index, source = operands
        g_base = None
        if needs[0]:
            g_base = b(Mul(), g, _conj(b, b(self, full_like(b, base, 1), index, source)))
        return g_base, None, self._source_gradient(b, base, index, source, g) if needs[2] else None

    def _source_gradient(self, b: Builder, base: Value, index: Value, source: Value, g: Value) -> Value:
        """For a factor of zero, the product without it; for others, the product divided by them."""
        read = Gather(self.axis)
        is_zero = b(Eq(), source, zeros_like(b, source))
        zeros = b(ScatterAdd(self.axis), zeros_like(b, g), index, b(Convert(g.type.dtype), is_zero))
        only = b(LogicalAnd(), is_zero, b(Eq(), b(read, zeros, index), full_like(b, source, 1)))
        one = full_like(b, source, 1)
        without = b(self, base, index, b(Where(), only, one, source))
        whole = b(self, base, index, source)
        direct = b(read, b(Mul(), g, _conj(b, without)), index)
        divided = b(Div(), b(read, b(Mul(), g, _conj(b, whole)), index), _conj(b, b(Where(), is_zero, one, source)))
        return b(Where(), only, direct, divided)


def _conj(b: Builder, value: Value) -> Value:
    return b(Conj(), value) if value.type.dtype.is_complex else value
