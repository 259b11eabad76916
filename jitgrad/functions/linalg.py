"""Matrix products in all their forms, built on the one `MatMul` op."""

from __future__ import annotations

from jitgrad.ir.errors import ShapeError, operand_lines
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.shape import Reshape

from ..dispatch import apply
from ..errors import located
from ..tensor import Tensor
from .pointwise import check_tensor, expand
from .registry import public


def _reshape(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    return t if t._data.shape == shape else apply(Reshape(shape), t)


@public(out=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product over the last two axes; vectors count as one row or column, leading axes broadcast.

    >>> import jitgrad as jg
    >>> jg.matmul(jg.tensor([[1.0, 2.0]]), jg.tensor([3.0, 4.0]))
    tensor([11.])
    """
    x, y = check_tensor(input, "matmul"), check_tensor(other, "matmul")
    m, n = x.ndim, y.ndim
    if m == 2 and n == 2:
        return apply(MatMul(), x, y)
    if m == 0 or n == 0:
        raise located(
            ShapeError(f"matmul: both operands need at least one axis{operand_lines([x.type_, y.type_])}")
        )
    a = _reshape(x, (1, *x.shape)) if m == 1 else x
    b = _reshape(y, (*y.shape, 1)) if n == 1 else y
    out = _batched(a, b) if max(m, n) > 2 else apply(MatMul(), a, b)
    shape = tuple(out.shape)
    if m == 1:
        shape = (*shape[:-2], shape[-1])
    if n == 1:
        shape = shape[:-1]
    return _reshape(out, shape)


def _batched(a: Tensor, b: Tensor) -> Tensor:
    """At least one operand has leading axes; those of a matrix product with one matrix are rows."""
    rows = tuple(a.shape)
    if b.ndim == 2 and rows[-1] == b.shape[0]:
        flat = apply(MatMul(), _reshape(a, (_count(rows[:-1]), rows[-1])), b)
        return _reshape(flat, (*rows[:-1], b.shape[1]))
    rank = max(a.ndim, b.ndim)
    a, b = (_reshape(t, (1,) * (rank - t.ndim) + tuple(t.shape)) for t in (a, b))
    batch = _batch_shape(a, b)
    return apply(MatMul(), expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:])))


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _batch_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    out = []
    for axis, (n, m) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        if n != m and 1 not in (n, m):
            raise located(
                ShapeError(
                    f"matmul: batch axes do not broadcast: axis {axis} is {n} in lhs and {m} in rhs"
                    f"{operand_lines([a.type_, b.type_])}"
                )
            )
        out.append(m if n == 1 else n)
    return tuple(out)


def _matmul_operator(self: Tensor, other: object) -> object:
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = _matmul_operator  # type: ignore[attr-defined]
