"""Factorisations: Cholesky, QR, LU, LDL, Householder products."""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.ir import dtypes
from jitgrad.ir.errors import OperationError, ShapeError
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.creation import Iota
from jitgrad.ir.ops.factorization import Cholesky, LdlFactor, LdlSolve, LuFactor, Permutation, Qr
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.solve import SolveTriangular

from ..dispatch import apply, apply_all
from ..errors import located
from ..functions.diagonals import diag_embed, tril, triu
from ..functions.joining import cat
from ..functions.linalg import matmul
from ..functions.pointwise import check_tensor, expand
from ..tensor import Tensor
from .arguments import (
    NOT_POSITIVE,
    ZERO_BLOCK,
    ZERO_PIVOT,
    check_info,
    column,
    floating,
    function,
    matrices,
    mH,
    no_batch_mismatch,
    row,
    same_dtype,
    square,
)


class CholeskyEx(NamedTuple):
    """What `cholesky_ex` gives."""

    L: Tensor
    info: Tensor


class QR(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class PLU(NamedTuple):
    """What `lu` gives."""

    P: Tensor
    L: Tensor
    U: Tensor


class LU(NamedTuple):
    """What `lu_factor` gives."""

    LU: Tensor
    pivots: Tensor


class LUEx(NamedTuple):
    """What `lu_factor_ex` gives."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LDL(NamedTuple):
    """What `ldl_factor` gives."""

    LD: Tensor
    pivots: Tensor


class LDLEx(NamedTuple):
    """What `ldl_factor_ex` gives."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


def cholesky_factor(name: str, A: Tensor, upper: bool, check: bool) -> CholeskyEx:
    """The factor and `info`, which is checked if so asked."""
    x = square(name, A)
    factor, info = apply_all(Cholesky(bool(upper)), x)
    if check:
        check_info(name, info, NOT_POSITIVE)
    return CholeskyEx(mH(factor) if upper else factor, info)


@function
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular `L` with `L @ L.mH == A`, of Hermitian positive-definite matrices; with `upper`, `L.mH`.

    Only one triangle of `A` is read, and the gradient is a Hermitian matrix. Raises `LinAlgError` if a matrix is not
    positive-definite.

    >>> import jitgrad as jg
    >>> jg.linalg.cholesky(jg.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return cholesky_factor("linalg.cholesky", A, upper, True).L


@function
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """`cholesky` without an error: `info` is the order of the first minor that is not positive-definite, else 0.

    >>> import jitgrad as jg
    >>> jg.linalg.cholesky_ex(jg.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=jitgrad.int32)
    """
    return cholesky_factor("linalg.cholesky_ex", A, upper, check_errors)


@function
def qr(A: Tensor, mode: str = "reduced") -> QR:
    """`Q` with orthonormal columns and upper triangular `R` with `Q @ R == A`.

    `mode`: "reduced" (`min(m, n)` columns of `Q`), "complete" (`m` columns), "r" (`Q` is empty).

    >>> import jitgrad as jg
    >>> jg.linalg.qr(jg.tensor([[3.0, 0.0], [4.0, 5.0]])).R
    tensor([[-5., -4.],
            [ 0.,  3.]])
    """
    x = matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise located(
            OperationError(
                f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )
        )
    q, r = apply_all(Qr(mode == "complete"), x)
    if mode == "r":
        from_nothing: Tensor = x.new_empty(0)  # type: ignore[attr-defined]
        return QR(from_nothing, r)
    return QR(q, r)


# ------------------------------------------------------------------------------------------------------- LU


def _check_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise located(OperationError(f"{name}: LU without pivoting is not implemented on the CPU"))


@function
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUEx:
    """`lu_factor` without an error: `info` is the number of the first pivot that is zero, else 0.

    >>> import jitgrad as jg
    >>> jg.linalg.lu_factor_ex(jg.zeros(2, 2)).info
    tensor(1, dtype=jitgrad.int32)
    """
    x = matrices("linalg.lu_factor_ex", A)
    _check_pivoting("linalg.lu_factor", pivot)
    factor, pivots, info = apply_all(LuFactor(), x)
    if check_errors:
        check_info("torch.linalg.lu_factor_ex", info, ZERO_PIVOT)
    return LUEx(factor, pivots, info)


@function
def lu_factor(A: Tensor, *, pivot: bool = True) -> LU:
    """`L` (below the diagonal, its ones left out) and `U` with `A == P @ L @ U` in one matrix, and the pivots.

    Row `i` was exchanged with row `pivots[i] - 1`, one after another.

    >>> import jitgrad as jg
    >>> jg.linalg.lu_factor(jg.tensor([[1.0, 2.0], [4.0, 4.0]])).LU
    tensor([[4.0000, 4.0000],
            [0.2500, 1.0000]])
    """
    x = matrices("linalg.lu_factor", A)
    _check_pivoting("linalg.lu_factor", pivot)
    factor, pivots, info = apply_all(LuFactor(), x)
    check_info("torch.linalg.lu_factor", info, ZERO_PIVOT)
    return LU(factor, pivots)


def permutation_matrix(pivots: Tensor, size: int, like: Tensor) -> Tensor:
    """`P`, with ones at (place before, place after the exchanges)."""
    order = apply(Permutation(size), pivots)
    shape = (*order.shape[:-1], size, size)
    places = apply(Iota(shape, len(shape) - 2))
    return apply(Convert(like.dtype), apply(Eq(), places, expand(row(order), shape)))


def triangles(factor: Tensor) -> tuple[Tensor, Tensor]:
    """`L`, with ones on its diagonal, and `U`."""
    m, n = factor.shape[-2:]
    k = min(m, n)
    low = tril(factor[..., :k], -1)  # type: ignore[index]
    ones = factor.new_ones((*factor.shape[:-2], k))  # type: ignore[attr-defined]
    unit = diag_embed(ones)
    if m > k:
        unit = _padded_rows(unit, m - k)
    return low + unit, triu(factor[..., :k, :])  # type: ignore[index, operator, return-value]


def _padded_rows(x: Tensor, count: int) -> Tensor:
    from_zero = x.new_zeros((*x.shape[:-2], count, x.shape[-1]))  # type: ignore[attr-defined]
    return cat([x, from_zero], -2)


@function
def lu(A: Tensor, *, pivot: bool = True) -> PLU:
    """`P`, `L` and `U` with `A == P @ L @ U`: a permutation, a unit lower and an upper triangular matrix.

    >>> import jitgrad as jg
    >>> jg.linalg.lu(jg.tensor([[1.0, 2.0], [4.0, 4.0]])).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    x = matrices("linalg.lu", A)
    _check_pivoting("linalg.lu_factor", pivot)
    factor, pivots, _ = apply_all(LuFactor(), x)
    return PLU(permutation_matrix(pivots, x.shape[-2], x), *triangles(factor))


@function
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """`X` with `A @ X == B` (`X @ A == B` unless `left`; `A.mH` if `adjoint`), from what `lu_factor` gives of `A`.

    >>> import jitgrad as jg
    >>> a = jg.tensor([[1.0, 2.0], [4.0, 4.0]])
    >>> jg.linalg.lu_solve(*jg.linalg.lu_factor(a), jg.tensor([[3.0], [8.0]]))
    tensor([[1.],
            [1.]])
    """
    factor, rhs = square("linalg.lu_solve", LU, "LU"), matrices("linalg.lu_solve", B, "B")
    same_dtype("linalg.lu_solve", factor, rhs)
    if pivots.dtype is not dtypes.int32:
        raise located(OperationError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"))
    if pivots.shape != factor.shape[:-1]:
        raise located(
            ShapeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
        )
    if factor.shape[-1] != rhs.shape[-2 if left else -1]:
        raise located(
            ShapeError(
                f"linalg.lu_solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                f"({factor.shape[-2]}x{factor.shape[-1]} and {rhs.shape[-2]}x{rhs.shape[-1]})"
            )
        )
    if not left:  # XA = B is AᴴXᴴ = Bᴴ
        return mH(_lu_solution(factor, pivots, mH(rhs), not adjoint))
    return _lu_solution(factor, pivots, rhs, adjoint)


def _lu_solution(factor: Tensor, pivots: Tensor, rhs: Tensor, adjoint: bool) -> Tensor:
    """`A X = B` or `Aᴴ X = B`, with `A = P L U`."""
    order = permutation_matrix(pivots, factor.shape[-1], factor)
    factor, rhs = no_batch_mismatch("linalg.lu_solve", factor, rhs)
    if adjoint:
        turned = mH(factor)
        inner = apply(SolveTriangular(False), turned, rhs)
        return matmul(order, apply(SolveTriangular(True, True), turned, inner))
    inner = apply(SolveTriangular(False, True), factor, matmul(mH(order), rhs))
    return apply(SolveTriangular(True), factor, inner)


# ------------------------------------------------------------------------------------------------------- LDL


@function
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLEx:
    """`ldl_factor` without an error: `info` is not 0 where `D` is singular.

    >>> import jitgrad as jg
    >>> jg.linalg.ldl_factor_ex(jg.eye(2)).info
    tensor(0, dtype=jitgrad.int32)
    """
    x = square("linalg.ldl_factor_ex", A)
    factor, pivots, info = apply_all(LdlFactor(hermitian), x)
    if check_errors:
        check_info("torch.linalg.ldl_factor_ex", info, ZERO_BLOCK)
    return LDLEx(factor, pivots, info)


@function
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDL:
    """`L` and the block diagonal `D` of a symmetric (or Hermitian) matrix, in LAPACK's form, and its pivots.

    >>> import jitgrad as jg
    >>> jg.linalg.ldl_factor(jg.eye(2)).pivots
    tensor([1, 2], dtype=jitgrad.int32)
    """
    x = square("linalg.ldl_factor", A)
    factor, pivots, info = apply_all(LdlFactor(hermitian), x)
    check_info("torch.linalg.ldl_factor", info, ZERO_BLOCK)
    return LDL(factor, pivots)


@function
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """`X` with `A @ X == B`, from what `ldl_factor` gives of `A`.

    >>> import jitgrad as jg
    >>> jg.linalg.ldl_solve(*jg.linalg.ldl_factor(2 * jg.eye(2)), jg.ones(2, 1))
    tensor([[0.5000],
            [0.5000]])
    """
    factor, rhs = square("linalg.ldl_solve", LD, "LD"), matrices("linalg.ldl_solve", B, "B")
    same_dtype("linalg.ldl_solve", factor, rhs)
    if pivots.dtype.kind != "int":
        raise located(OperationError(f"linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype.name}"))
    if pivots.shape != factor.shape[:-1]:
        raise located(
            ShapeError(
                f"linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                f"{list(pivots.shape)} instead"
            )
        )
    factor, rhs = no_batch_mismatch("linalg.ldl_solve", factor, rhs)
    places = expand(apply(Convert(dtypes.int32), pivots), tuple(factor.shape[:-1]))
    return apply(LdlSolve(hermitian), factor, places, rhs)


# ------------------------------------------------------------------------------------------------ Householder


def _reflections(A: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """`V` and `T` with `I - V T Vᴴ` the product of the reflections `I - tau v vᴴ`, v the columns of a unit triangle.

    `T` is `(I + D U)⁻¹ D`, with D the diagonal of `tau` and U the strictly upper triangle of `Vᴴ V` (Schreiber and
    Van Loan 1989), so that all reflections are matrix products, and have a gradient.
    """
    k = tau.shape[-1]
    vectors = triangles(A[..., :k])[0]  # type: ignore[index]
    scaled = column(tau) * triu(matmul(mH(vectors), vectors), 1)  # type: ignore[operator]
    return vectors, apply(SolveTriangular(True, True), scaled, diag_embed(tau))


@function
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first `n` columns of the product of the reflections whose vectors and factors `geqrf` gives.

    >>> import jitgrad as jg
    >>> a = jg.tensor([[3.0], [4.0]])
    >>> jg.linalg.householder_product(*jg.geqrf(a))
    tensor([[-0.6000],
            [-0.8000]])
    """
    name = "torch.linalg.householder_product"
    if check_tensor(A, name).ndim < 2:
        raise located(ShapeError(f"{name}: input must have at least 2 dimensions."))
    x = floating(name, A)
    m, n = x.shape[-2:]
    if m < n:
        raise located(ShapeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"))
    if n < tau.shape[-1]:
        raise located(ShapeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"))
    if tuple(tau.shape[:-1]) != tuple(x.shape[:-2]) or tau.ndim != x.ndim - 1:
        raise located(
            ShapeError(
                f"{name}: Expected tau to have one dimension less than input and batch dimensions of input "
                f"{list(x.shape[:-2])}, but got tau with shape {list(tau.shape)}"
            )
        )
    if tau.dtype is not x.dtype:
        raise located(OperationError(f"{name}: tau dtype {tau.dtype.name} does not match input dtype {x.dtype.name}"))
    vectors, inner = _reflections(x, tau)
    top = mH(vectors[..., :n, :])  # type: ignore[index]
    return identity_columns(x, n) - matmul(vectors, matmul(inner, top))  # type: ignore[operator, return-value]


def identity_columns(x: Tensor, n: int) -> Tensor:
    """The first `n` columns of the identity with as many rows as `x`."""
    unit = diag_embed(x.new_ones((*x.shape[:-2], n)))  # type: ignore[attr-defined]
    return unit if x.shape[-2] == n else _padded_rows(unit, x.shape[-2] - n)


def multiplied_by_reflections(input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    """`Q other`, `other Q`, or with the adjoint of `Q`: see `older.ormqr`."""
    name = "torch.ormqr"
    for which, t in (("input", input), ("other", other)):
        if check_tensor(t, name).ndim < 2:
            raise located(ShapeError(f"{name}: {which} must have at least 2 dimensions."))
    rows, side = other.shape[-2 if left else -1], "-2" if left else "-1"
    if rows < tau.shape[-1]:
        raise located(ShapeError(f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]"))
    if tau.shape[-1] != min(rows, input.shape[-1]):
        raise located(ShapeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"))
    if rows != input.shape[-2]:
        raise located(ShapeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]"))
    if tau.ndim != input.ndim - 1 or other.ndim != input.ndim or tau.shape[:-1] != input.shape[:-2]:
        raise located(ShapeError(f"{name}: batch dimensions of input, tau and other must be equal"))
    if tau.dtype is not input.dtype or other.dtype is not input.dtype:
        raise located(
            OperationError(f"{name}: Expected input, tau and other to have the same dtype, not {input.dtype.name}")
        )
    vectors, inner = _reflections(floating(name, input), tau)
    inner = mH(inner) if transpose else inner
    if left:
        return other - matmul(vectors, matmul(inner, matmul(mH(vectors), other)))  # type: ignore[operator, return-value]
    return other - matmul(matmul(matmul(other, vectors), inner), mH(vectors))  # type: ignore[operator, return-value]
