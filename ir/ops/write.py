"""`WriteView`: assignment through a chain of views, as a function from the old value to the new one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, scalar
from ..builder import Builder
from ..errors import DTypeError, InternalError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, IndexMap, Load, Values, View, op
from ..scalar import Expr
from ..types import Shape, TensorType
from .creation import Full, zeros_like
from .sample_axis import all_batched

__all__ = ["WriteView", "embedded"]


@op
class WriteView(IndexMap):
    """`base` with the region seen through `views`, applied first to last, replaced by `value`.

    It is what `base[2:4].T.copy_(value)` means, and with a base of zeros it is the transpose of the views.

    >>> import numpy as np
    >>> from jitgrad.ir.ops.shape import Permute
    >>> WriteView((Permute((1, 0)),)).reference(np.zeros((2, 1)), np.array([[1.0, 2.0]]))
    array([[1.],
           [2.]])
    """

    views: tuple[View, ...]
    name = "write_view"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The value has the region's shape, and the base's dtype."""
        base, value = operands
        region = base
        for view in self.views:
            (region,) = view.infer(region)
        if value.shape != region.shape:
            raise ShapeError(f"write_view: the region is {region}, the value is {value}")
        if value.dtype is not region.dtype:
            raise DTypeError(f"write_view: the value's dtype is not the region's{operand_lines(operands)}")
        return (base,)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """Each view batched by its own rule."""
        base, value = all_batched(b, operands, batched, size)
        scratch, views = Builder(), []
        region = scratch.input(base.type)
        for view in self.views:
            start = len(scratch.nodes)
            found = view.batch(scratch, (region,), (True,), size) if view.has_batch() else None
            region = scratch(view.shifted(size), region) if found is None else found[0]
            views += [node.op for node in scratch.nodes[start:]]
        return (b(WriteView(tuple(views)), base, value),)  # type: ignore[arg-type]

    def reference(self, *operands: Array) -> Array:
        """A copy of the base, assigned to through NumPy views."""
        base, value = operands
        out = np.array(base, order="C")
        region = _seen_through(self.views, out)
        if region.size and not np.may_share_memory(region, out):  # a reshape had to copy: find the places
            places = _seen_through(self.views, np.arange(out.size).reshape(out.shape))
            out.reshape(-1)[places] = value
        else:
            region[...] = value
        return out

    def can_emit(self, *operands: TensorType) -> bool:
        """Real dtypes, and views that show no element twice."""
        if not super().can_emit(*operands):
            return False
        region = operands[0]
        for view in self.views:
            probe = tuple(scalar.const(0) for _ in region.shape)
            if view.preimage(probe, region) is None:
                return False
            (region,) = view.infer(region)
        return True

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The value's element where the views show this one, else the base's."""
        base, value = operands
        region, conditions, position = base.type, [], index
        for view in self.views:
            found = view.preimage(position, region)
            if found is None:
                raise InternalError(f"write_view: {view} may show an element twice")
            conditions.append(found[0])
            position = found[1]
            (region,) = view.infer(region)
        shown = scalar.every(conditions)
        if shown is scalar.const(True, dtypes.bool_):
            return value(position)
        return scalar.where(shown, value(position, shown), base(index))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The base's: the cotangent with the region zeroed. The value's: the cotangent through the views."""
        (g,) = cotangents
        assert g is not None
        g_base = b(self, g, zeros_like(b, operands[1])) if needs[0] else None
        g_value = None
        if needs[1]:
            g_value = g
            for view in self.views:
                g_value = b(view, g_value)
        return g_base, g_value


def _seen_through(views: Sequence[View], x: Array) -> Array:
    """`x` seen through views one after the other, writeable even where they repeat elements."""
    for view in views:
        x = view.reference(x)
        if not x.flags.writeable:
            x.flags.writeable = True
    return x


def embedded(b: Builder, view: View, value: Value, shape: Shape) -> Value:
    """Zeros of `shape` but for the region that `view` shows, which is `value`: the transpose of the view."""
    zeros = b(Full(shape, value.type.dtype, 0, value.type.device))
    return b(WriteView((view,)), zeros, value)
