"""Matrix products on the device: which strided batches a `MatMul` node is.

Transposes, slices and broadcasts in front of a product are flags, offsets and strides, as on the CPU. Batch axes that
lie one after another in all three operands are one; what is left beyond one batch axis is a loop of calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Node, Value

from ..fuse.strided import contiguous_strides, matrix_layout, product_operand
from .runtime.protocol import Matrix, ProductShape


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand of a product: the value in memory, and how its matrices lie there (in elements)."""

    source: Value
    transposed: bool
    leading: int
    batch_stride: int

    def at(self, pointer: int, offset: int, itemsize: int) -> Matrix:
        """The operand for one call."""
        return Matrix(pointer + offset * itemsize, self.transposed, self.leading, self.batch_stride)


@dataclass(frozen=True, slots=True)
class BatchedProduct:
    """A node as calls of one shape, each with the offsets (in elements) of left, right and result."""

    shape: ProductShape
    lhs: Factor
    rhs: Factor
    result: Factor
    calls: tuple[tuple[int, int, int], ...]

    @property
    def flops(self) -> int:
        """Multiplications and additions of all calls."""
        s = self.shape
        return 2 * s.rows * s.columns * s.inner * s.batch * len(self.calls)


def product_of(node: Node) -> BatchedProduct:
    """How cuBLAS runs a `MatMul` node."""
    x, y = node.operands
    left, right = product_operand(x), product_operand(y)
    lhs, rhs = matrix_layout(x.shape, left.strides), matrix_layout(y.shape, right.strides)
    if lhs is None or rhs is None:
        raise InternalError(f"matmul of operands without a contiguous axis: {x.type}, {y.type}")
    out = contiguous_strides(node.result.shape)
    axes = _merged(list(zip(x.shape[:-2], left.strides, right.strides, out)))
    count, *steps = axes.pop() if axes else (1, 0, 0, 0)
    starts = [(left.offset, right.offset, 0)]
    for place in itertools.product(*(range(n) for n, *_ in axes)):
        shift = [sum(i * axis[k] for i, axis in zip(place, axes)) for k in (1, 2, 3)]
        starts.append((left.offset + shift[0], right.offset + shift[1], shift[2]))
    rows, columns, inner = x.shape[-2], y.shape[-1], x.shape[-1]
    return BatchedProduct(
        ProductShape(x.type.dtype, rows, columns, inner, count),
        Factor(left.source, lhs.transposed, lhs.leading, steps[0]),
        Factor(right.source, rhs.transposed, rhs.leading, steps[1]),
        Factor(node.result, False, max(1, columns), steps[2]),
        tuple(starts[1:]),
    )


def _merged(axes: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Batch axes without those of length 1, neighbours that lie one after another joined; the longest one last."""
    out: list[tuple[int, int, int, int]] = []
    for n, *strides in axes:
        if n == 1:
            continue
        if out and all(before == n * s for before, s in zip(out[-1][1:], strides)):
            n *= out.pop()[0]
        out.append((n, strides[0], strides[1], strides[2]))
    return sorted(out, key=lambda axis: axis[0])
