"""Matrix products in all their forms, built on the one `MatMul` op."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jitgrad.ir.errors import ArgumentTypeError, DTypeError, ShapeError, operand_lines
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.complex import Conj
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.logical import LogicalOr
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Diagonal

from ..dispatch import apply
from ..errors import located
from ..fast_path import binary_method
from ..mode import local
from ..promotion import Number, result_dtype
from ..tensor import Tensor
from .dims import normalize_dims
from .pointwise import broadcast_shape, check_tensor, convert, expand, filled, pointwise, scaled
from .reductions import sum as sum_
from .registry import public


def _reshape(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    return t if t._data.shape == shape else apply(Reshape(shape), t)


_fast_product = binary_method(MatMul(), lambda x, y: apply(MatMul(), x, y), function=np.matmul)


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
        return _fast_product(x, y)  # type: ignore[no-any-return]
    if m == 0 or n == 0:
        raise located(ShapeError(f"matmul: both operands need at least one axis{operand_lines([x.type_, y.type_])}"))
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
        flat = apply(MatMul(), _reshape(a, (math.prod(rows[:-1]), rows[-1])), b)
        return _reshape(flat, (*rows[:-1], b.shape[1]))
    rank = max(a.ndim, b.ndim)
    a, b = (_reshape(t, (1,) * (rank - t.ndim) + tuple(t.shape)) for t in (a, b))
    batch = _batch_shape(a, b)
    return apply(MatMul(), expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:])))


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
    if not isinstance(other, Tensor):
        return NotImplemented
    if self._data.ndim == other._data.ndim == 2 and local.mode.autocast is None:
        return _fast_product(self, other)  # type: ignore[no-any-return]
    return matmul(self, other)


Tensor.__matmul__ = _matmul_operator  # type: ignore[attr-defined]


def _check_rank(name: str, x: Tensor, rank: int) -> Tensor:
    if check_tensor(x, name).ndim != rank:
        kind = {1: "1D tensors expected", 2: "expected a matrix", 3: "expected a 3D tensor, a batch of matrices"}[rank]
        raise located(ShapeError(f"{name}: {kind}, but got {x.ndim}D{operand_lines([x.type_])}"))
    return x


@public(out=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices.

    >>> import jitgrad as jg
    >>> jg.mm(jg.tensor([[1.0, 2.0]]), jg.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return matmul(_check_rank("mm", input, 2), _check_rank("mm", mat2, 2))


@public(out=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of as many pairs of matrices: `[b, m, k] x [b, k, n]`.

    >>> import jitgrad as jg
    >>> jg.bmm(jg.ones(2, 1, 3), jg.ones(2, 3, 1)).shape
    jitgrad.Size([2, 1, 1])
    """
    return apply(MatMul(), _check_rank("bmm", input, 3), _check_rank("bmm", mat2, 3))


@public(out=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector.

    >>> import jitgrad as jg
    >>> jg.mv(jg.tensor([[1.0, 2.0]]), jg.tensor([3.0, 4.0]))
    tensor([11.])
    """
    return matmul(_check_rank("mv", input, 2), _check_rank("mv", vec, 1))


@public(out=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements, of which there are equally many.

    >>> import jitgrad as jg
    >>> jg.dot(jg.tensor([1.0, 2.0]), jg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    x, y = _check_rank("dot", input, 1), _check_rank("dot", tensor, 1)
    if x.dtype is not y.dtype:
        raise located(
            DTypeError(f"dot : expected both vectors to have same dtype, but found {x.dtype.name} and {y.dtype.name}")
        )
    if x.shape != y.shape:
        raise located(
            ShapeError(
                f"inconsistent tensor size, expected tensor {list(x.shape)} and src {list(y.shape)} to have the same "
                f"number of elements, but got {x.shape[0]} and {y.shape[0]} elements respectively"
            )
        )
    return matmul(x, y)


@public(out=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot`, with the first vector conjugated."""
    if check_tensor(input, "vdot").dtype.is_complex:
        input = apply(Conj(), input)
    return dot(input, other)


@public("outer", "ger", out=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The matrix of the products of each element of one vector with each of another.

    >>> import jitgrad as jg
    >>> jg.outer(jg.tensor([1.0, 2.0]), jg.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = _check_rank("outer", input, 1), _check_rank("outer", vec2, 1)
    return pointwise(Mul(), _reshape(x, (x.shape[0], 1)), _reshape(y, (1, y.shape[0])))


@public(out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sums of products over the last axis of both."""
    if input.ndim == 0 or other.ndim == 0:
        return pointwise(Mul(), input, other)
    if input.shape[-1] != other.shape[-1]:
        raise located(
            ShapeError(
                "inner() the last dimension must match on both input tensors but got shapes "
                f"{list(input.shape)} and {list(other.shape)}"
            )
        )
    return tensordot(input, other, ([-1], [-1]))


def _sum_with_product(name: str, input: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """`beta * input + alpha * product`; with `beta` 0, NaN in `input` has no effect."""
    if check_tensor(input, name).dtype is not product.dtype:
        raise located(
            DTypeError(
                f"{name}: all operands must have the same dtype, but got {input.dtype.name} and {product.dtype.name}"
            )
        )
    if not product.dtype.is_differentiable:
        beta, alpha = (int(x) if isinstance(x, float) else x for x in (beta, alpha))  # as PyTorch does
    if alpha != 1:
        product = scaled(product, alpha)
    shape = product._data.shape
    if broadcast_shape(name, [input, product]) != shape:
        raise located(ShapeError(f"{name}: the shapes do not add up{operand_lines([input.type_, product.type_])}"))
    if beta == 0:
        return product
    return pointwise(Add(), input if beta == 1 else scaled(input, beta), product)


@public(inplace=True, out=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`, with `input` broadcast.

    >>> import jitgrad as jg
    >>> jg.addmm(jg.ones(1), jg.tensor([[1.0, 2.0]]), jg.tensor([[3.0], [4.0]]))
    tensor([[12.]])
    """
    return _sum_with_product("addmm", input, mm(mat1, mat2), beta, alpha)


@public(inplace=True, out=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`."""
    return _sum_with_product("addmv", input, mv(mat, vec), beta, alpha)


@public(inplace=True, out=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`; of bools, "or" and "and" in place of sum and product.

    >>> import jitgrad as jg
    >>> jg.addr(jg.zeros(2, 2), jg.tensor([1.0, 2.0]), jg.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    product = outer(vec1, vec2)
    dtype = result_dtype(check_tensor(input, "addr"), product)
    if not dtype.is_differentiable:
        for which, x in (("beta", beta), ("alpha", alpha)):
            if isinstance(x, float):
                raise located(
                    DTypeError(f"For integral input tensors, argument {which} must not be a floating point number.")
                )
    if dtype.kind == "bool":
        terms = [t for t, factor in ((input, beta), (product, alpha)) if factor]
        shape = product._data.shape
        out = filled(shape, dtype, False)
        for term in terms:
            out = apply(LogicalOr(), out, expand(term, shape))
        return out
    return _sum_with_product("addr", convert(input, dtype), convert(product, dtype), beta, alpha)


@public(inplace=True, out=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2)`, for batches of matrices."""
    return _sum_with_product("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@public(inplace=True, out=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha *` the sum of the products of pairs of matrices."""
    return _sum_with_product("addbmm", input, apply(Sum((0,), False), bmm(batch1, batch2)), beta, alpha)


@public(method=False, out=True)
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Products summed over `dims`: as many last axes of `a` and first ones of `b`, or two lists of axes.

    >>> import jitgrad as jg
    >>> jg.tensordot(jg.ones(2, 3, 4), jg.ones(3, 4, 5)).shape
    jitgrad.Size([2, 5])
    """
    left, right = _contracted_axes(check_tensor(a, "tensordot"), check_tensor(b, "tensordot"), dims)
    if a.dtype is not b.dtype:
        raise located(DTypeError(f"tensordot: both inputs should have same dtype{operand_lines([a.type_, b.type_])}"))
    for i, j in zip(left, right, strict=True):  # an axis of length 1 is repeated
        if a.shape[i] == 1 != b.shape[j]:
            b = apply(Sum((j,), True), b)
        elif b.shape[j] == 1 != a.shape[i]:
            a = apply(Sum((i,), True), a)
        elif a.shape[i] != b.shape[j]:
            raise located(
                ShapeError(
                    f"tensordot: contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and "
                    f"second has size {b.shape[j]} in dim {j}{operand_lines([a.type_, b.type_])}"
                )
            )
    kept_a = tuple(i for i in range(a.ndim) if i not in left)
    kept_b = tuple(i for i in range(b.ndim) if i not in right)
    inside = math.prod(a.shape[i] for i in left)
    rows, columns = [a.shape[i] for i in kept_a], [b.shape[i] for i in kept_b]
    x = _reshape(_permute(a, (*kept_a, *left)), (math.prod(rows), inside))
    y = _reshape(_permute(b, (*right, *kept_b)), (inside, math.prod(columns)))
    return _reshape(apply(MatMul(), x, y), (*rows, *columns))


def _permute(t: Tensor, perm: tuple[int, ...]) -> Tensor:
    return t if perm == tuple(range(t.ndim)) else apply(Permute(perm), t)


def _contracted_axes(
    a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            bound = ">= 0" if dims < 0 else "< ndim_a or ndim_b"
            raise located(
                ShapeError(f"tensordot expects dims {bound}, but got dims={dims}{operand_lines([a.type_, b.type_])}")
            )
        return tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    if len(dims) != 2:
        raise located(ArgumentTypeError("tensordot: dims must be a number or two lists of axes"))
    left, right = normalize_dims(dims[0], a.ndim), normalize_dims(dims[1], b.ndim)
    if len(left) != len(right):
        raise located(ShapeError("tensordot: both dimension lists should have same length"))
    return left, right


@public(out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of `input` replaced by itself times `other`.

    >>> import jitgrad as jg
    >>> jg.kron(jg.eye(2), jg.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]])
    """
    x, y = check_tensor(input, "kron"), check_tensor(other, "kron")
    rank = max(x.ndim, y.ndim)
    left, right = ((1,) * (rank - t.ndim) + tuple(t.shape) for t in (x, y))
    coarse = _reshape(x, tuple(n for pair in left for n in (pair, 1)))
    fine = _reshape(y, tuple(n for pair in right for n in (1, pair)))
    return _reshape(pointwise(Mul(), coarse, fine), tuple(n * m for n, m in zip(left, right, strict=True)))


@public()
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    >>> import jitgrad as jg
    >>> jg.trace(jg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    return sum_(apply(Diagonal(0, 0, 1), _check_rank("trace", input, 2)))
