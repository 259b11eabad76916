"""Products of vectors and matrices, powers, the exponential, determinants."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import NamedTuple

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Mul, Sub
from jitgrad.ir.ops.complex import Conj
from jitgrad.ir.ops.determinant import Det, SlogDet
from jitgrad.ir.ops.matrix_function import MatrixExp
from jitgrad.ir.ops.select import Where

from ..dispatch import apply, apply_all
from ..errors import located
from ..functions.diagonals import diag_embed
from ..functions.diagonals import diagonal as _diagonal
from ..functions.dims import normalize_dim
from ..functions.joining import cat
from ..functions.linalg import matmul as _matmul
from ..functions.pointwise import broadcast, check_tensor, convert, expand, filled
from ..functions.reductions import cumprod, summable
from ..functions.reductions import sum as _sum
from ..functions.repeating import roll
from ..promotion import result_dtype
from ..tensor import Tensor
from .arguments import NOT_INVERTIBLE, check_info, first_named, function, reshaped, square
from .solving import inverse_and_info

matmul = function(_matmul)


class SlogDetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


@function
def det(A: Tensor) -> Tensor:
    """The determinant of square matrices, with a gradient where they are singular too.

    >>> import jitgrad as jg
    >>> jg.linalg.det(jg.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    return apply(Det(), square("linalg.det", A))


@function
def slogdet(A: Tensor) -> SlogDetResult:
    """The sign of the determinant (of absolute value 1, or 0) and the logarithm of its absolute value.

    >>> import jitgrad as jg
    >>> jg.linalg.slogdet(jg.tensor([[1.0, 0.0], [0.0, -1.0]])).sign
    tensor(-1.)
    """
    return SlogDetResult(*apply_all(SlogDet(), square("linalg.slogdet", A)))


@first_named
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices; half types are computed in single precision.

    >>> import jitgrad as jg
    >>> jg.linalg.matrix_exp(jg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    name, x = "linalg.matrix_exp", check_tensor(A, "linalg.matrix_exp")
    if not x.dtype.is_differentiable:
        raise located(DTypeError(f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype.name}"))
    wide = dtypes.float32 if x.dtype.itemsize == 2 else x.dtype
    return convert(apply(MatrixExp(), square(name, convert(x, wide))), x.dtype)


def _identity(x: Tensor) -> Tensor:
    return diag_embed(x.new_ones(x.shape[:-1]))  # type: ignore[attr-defined]


@function
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The product of `n` times a square matrix; for negative `n`, of its inverse.

    >>> import jitgrad as jg
    >>> jg.linalg.matrix_power(jg.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    name, count = "linalg.matrix_power", index(n)
    x = check_tensor(A, name)
    if x.ndim < 2:
        raise located(ShapeError(f"{name}: The input tensor A must have at least 2 dimensions."))
    if x.shape[-1] != x.shape[-2]:
        raise located(
            ShapeError(
                f"{name}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
            )
        )
    if count == 0:  # recorded as a function of the matrix, with gradient zero, as in PyTorch
        never = filled(tuple(x.shape), dtypes.bool_, False)
        return apply(Where(), never, x, _identity(x))
    if count < 0:
        x, info = inverse_and_info(square("linalg.inv", x))
        check_info("linalg.inv", info, NOT_INVERTIBLE)
    count, power, out = abs(count), x, None
    while True:  # by squaring
        if count % 2:
            out = power if out is None else _matmul(out, power)
        count //= 2
        if not count:
            break
        power = _matmul(power, power)
    assert out is not None
    return x.clone() if out is A else out  # type: ignore[attr-defined, no-any-return]


def _chain_order(lengths: Sequence[int]) -> list[list[int]]:
    """Where to split each stretch of a product of matrices for the fewest multiplications (Cormen et al., 15.2)."""
    count = len(lengths) - 1
    costs = [[0] * count for _ in range(count)]
    splits = [[0] * count for _ in range(count)]
    for span in range(1, count):
        for i in range(count - span):
            j = i + span
            found = [
                (costs[i][k] + costs[k + 1][j] + lengths[i] * lengths[k + 1] * lengths[j + 1], k) for k in range(i, j)
            ]
            costs[i][j], splits[i][j] = min(found)
    return splits


def chain_product(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices, of which the first and the last may be vectors."""
    operands = [check_tensor(t, name) for t in tensors]
    if len(operands) < 2:
        raise located(OperationError(f"{name}(): expected at least 2 tensors but got {len(operands)}"))
    for which, t in (("first", operands[0]), ("last", operands[-1])):
        if t.ndim not in (1, 2):
            raise located(ShapeError(f"{name}(): the {which} tensor must be 1D or 2D but got {t.ndim}D"))
    shape = [*operands[0].shape[: operands[0].ndim - 1], *operands[-1].shape[1:]]
    operands[0] = reshaped(operands[0], (1, *operands[0].shape)) if operands[0].ndim == 1 else operands[0]
    operands[-1] = reshaped(operands[-1], (*operands[-1].shape, 1)) if operands[-1].ndim == 1 else operands[-1]
    for i, t in enumerate(operands):
        if t.ndim != 2:
            raise located(ShapeError(f"{name}(): tensor {i} must be 2D but got {t.ndim}D"))
        if t.dtype is not operands[0].dtype:
            raise located(
                DTypeError(f"{name}(): all tensors must have the same dtype but tensor {i} is {t.dtype.name}")
            )
        if i and operands[i - 1].shape[1] != t.shape[0]:
            raise located(
                ShapeError(
                    f"{name}(): tensors {i - 1} and {i} with shapes {list(operands[i - 1].shape)} and {list(t.shape)} "
                    "cannot be multiplied"
                )
            )
    splits = _chain_order([operands[0].shape[0], *(t.shape[1] for t in operands)])

    def product(i: int, j: int) -> Tensor:
        return operands[i] if i == j else _matmul(product(i, splits[i][j]), product(splits[i][j] + 1, j))

    return reshaped(product(0, len(operands) - 1), tuple(shape))


@function
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications; the ends may be vectors.

    >>> import jitgrad as jg
    >>> jg.linalg.multi_dot([jg.ones(2, 3), jg.ones(3, 4), jg.ones(4)])
    tensor([12., 12.])
    """
    return chain_product("multi_dot", tensors)


@function
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of length 3 along `dim`; other dims broadcast.

    >>> import jitgrad as jg
    >>> jg.linalg.cross(jg.tensor([1.0, 0.0, 0.0]), jg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return cross_product("linalg.cross", input, other, dim)


def cross_product(name: str, input: Tensor, other: Tensor, dim: int) -> Tensor:
    """`cross`, in terms of rotated copies."""
    x, y = check_tensor(input, name), check_tensor(other, name)
    if x.ndim != y.ndim:
        raise located(ShapeError(f"{name}: inputs must have the same number of dimensions."))
    axis = normalize_dim(dim, x.ndim)
    if x.ndim == 0 or x.shape[axis] != 3 or y.shape[axis] != 3:
        sizes = [t.shape[axis] if t.ndim else 1 for t in (x, y)]
        raise located(ShapeError(f"{name}: inputs dimension {dim} must have length 3. Got {sizes[0]} and {sizes[1]}"))
    x, y = broadcast(name, result_dtype(x, y), x, y)
    ahead = apply(Mul(), roll(x, -1, axis), roll(y, -2, axis))
    behind = apply(Mul(), roll(x, -2, axis), roll(y, -1, axis))
    return apply(Sub(), ahead, behind)


@function
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum over `dim` of the products of elements, those of `x` conjugated; other dims broadcast.

    >>> import jitgrad as jg
    >>> jg.linalg.vecdot(jg.tensor([[1.0, 2.0], [3.0, 4.0]]), jg.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    for t in (x, y):
        if not check_tensor(t, "linalg.vecdot").dtype.is_differentiable:
            raise located(
                DTypeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {t.dtype.name}")
            )
    if x.dtype is not y.dtype:
        raise located(
            DTypeError(f"linalg.vecdot: Expected x and y to have the same dtype, not {x.dtype} and {y.dtype}")
        )
    first = apply(Conj(), x) if x.dtype.is_complex else x
    first, second = broadcast("linalg.vecdot", x.dtype, first, y)
    return _sum(apply(Mul(), first, second), normalize_dim(dim, first.ndim))


@first_named
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to `N - 1` (as many as elements, unless given) of elements, as a new last dim.

    >>> import jitgrad as jg
    >>> jg.linalg.vander(jg.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    t = check_tensor(x, "linalg.vander")
    t = t if t.ndim else reshaped(t, (1,))
    count = t.shape[-1] if N is None else N
    if count <= 1:
        raise located(OperationError("N must be greater than 1."))
    if t.dtype.kind == "bool":
        raise located(DTypeError("linalg.vander does not support bool tensors"))
    t = summable(t, None)
    ones = t.new_ones((*t.shape, 1))  # type: ignore[attr-defined]
    repeated = expand(reshaped(t, (*t.shape, 1)), (*t.shape, max(count - 1, 0)))
    return cumprod(cat([ones, repeated], -1), -1)


@first_named
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices as the last dim.

    >>> import jitgrad as jg
    >>> jg.linalg.diagonal(jg.eye(2))
    tensor([1., 1.])
    """
    return _diagonal(A, offset, dim1, dim2)
