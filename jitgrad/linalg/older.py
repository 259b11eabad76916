"""Linear algebra under the names that PyTorch had before `torch.linalg`: functions of `jitgrad` and methods."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, OperationError, ShapeError
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.factorization import Geqrf, LuFactor
from jitgrad.ir.ops.lobpcg import Lobpcg
from jitgrad.ir.ops.math import Log
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.solve import CholeskySolve

from ..dispatch import apply, apply_all
from ..errors import located
from ..functions.dims import Dims, normalize_dims
from ..functions.linalg import matmul
from ..functions.pointwise import check_tensor, convert, filled
from ..functions.registry import numpy_names, public
from ..random import randn
from ..tensor import Tensor
from . import factorizations, norms, products, solving, spectra
from .arguments import (
    NOT_POSITIVE,
    check_info,
    epsilon,
    floating,
    matrices,
    mH,
    no_batch_mismatch,
    same_dtype,
    square,
)
from .pseudo_inverse import pinv

for _function, _names in (
    (products.det, ("det",)),
    (products.slogdet, ("slogdet",)),
    (products.matrix_exp, ("matrix_exp",)),
    (products.matrix_power, ("matrix_power",)),
    (solving.inv, ("inverse",)),
    (factorizations.householder_product, ("orgqr",)),
):
    public(*_names)(_function)


class SVD(NamedTuple):
    """What `jitgrad.svd` gives: `V`, where `linalg.svd` gives its adjoint."""

    U: Tensor
    S: Tensor
    V: Tensor


class Reflections(NamedTuple):
    """What `geqrf` gives."""

    a: Tensor
    tau: Tensor


class TriangularSolution(NamedTuple):
    """What `triangular_solve` gives."""

    solution: Tensor
    cloned_coefficient: Tensor


@public(out=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant of square matrices; NaN where it is negative.

    >>> import jitgrad as jg
    >>> jg.logdet(jg.eye(2))
    tensor(0.)
    """
    sign, size = products.slogdet(square("logdet", input))
    if sign.dtype.is_complex:
        return convert(size, sign.dtype) + apply(Log(), sign)  # type: ignore[operator, no-any-return]
    shape = tuple(sign.shape)
    negative = apply(Eq(), sign, filled(shape, sign.dtype, -1))
    return apply(Where(), negative, filled(shape, size.dtype, math.nan), size)


# ---------------------------------------------------------------------------------------------- factorisations


@public(out=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`.

    >>> import jitgrad as jg
    >>> jg.cholesky(jg.tensor([[4.0]]))
    tensor([[2.]])
    """
    factor, info = factorizations.cholesky_factor("cholesky", input, upper, False)
    check_info("cholesky", info, NOT_POSITIVE)
    return factor


def _solved_from_factor(name: str, B: Tensor, L: Tensor, upper: bool) -> Tensor:
    factor, rhs = square(name, L, "A"), matrices(name, B, "B")
    same_dtype(name, factor, rhs)
    if factor.shape[-1] != rhs.shape[-2]:
        raise located(
            ShapeError(
                f"{name}: Incompatible matrix sizes: each A matrix is {factor.shape[-1]} by {factor.shape[-1]} but "
                f"each b matrix is {rhs.shape[-2]} by {rhs.shape[-1]}"
            )
        )
    factor, rhs = no_batch_mismatch(name, mH(factor) if upper else factor, rhs)
    return apply(CholeskySolve(), factor, rhs)


@public(out=True)
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """`X` with `A @ X == B`, from the Cholesky factor of `A`.

    >>> import jitgrad as jg
    >>> jg.cholesky_solve(jg.tensor([[4.0]]), jg.tensor([[2.0]]))
    tensor([[1.]])
    """
    return _solved_from_factor("cholesky_solve", B, L, upper)


@public(out=True)
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of a matrix, from its Cholesky factor.

    >>> import jitgrad as jg
    >>> jg.cholesky_inverse(jg.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    factor = square("cholesky_inverse", L, "A")
    identity = factorizations.identity_columns(factor, factor.shape[-1])
    return _solved_from_factor("cholesky_inverse", identity, factor, upper)


@public(out=True)
def geqrf(input: Tensor) -> Reflections:
    """`R`, below its diagonal the vectors of the reflections whose product is `Q`, and their factors.

    >>> import jitgrad as jg
    >>> jg.geqrf(jg.tensor([[3.0], [4.0]])).tau
    tensor([1.6000])
    """
    return Reflections(*apply_all(Geqrf(), matrices("torch.geqrf", input, "input")))


@public(out=True)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of `other` with `Q` (on its left or right), or its adjoint, from what `geqrf` gives.

    >>> import jitgrad as jg
    >>> a = jg.tensor([[3.0], [4.0]])
    >>> jg.ormqr(*jg.geqrf(a), a, transpose=True).round(decimals=4)[0]
    tensor([-5.])
    """
    return factorizations.multiplied_by_reflections(input, tau, other, left, transpose)


@public(out=True)
def qr(input: Tensor, some: bool = True) -> factorizations.QR:
    """`linalg.qr`, "reduced" or, unless `some`, "complete".

    >>> import jitgrad as jg
    >>> jg.qr(jg.tensor([[3.0], [4.0]])).R
    tensor([[-5.]])
    """
    return factorizations.qr(input, "reduced" if some else "complete")


@public(out=True)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """`linalg.svd`, with `V` in place of its adjoint; square `U` and `V` unless `some`, zeros unless `compute_uv`.

    >>> import jitgrad as jg
    >>> jg.svd(jg.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    x = matrices("linalg.svd", input)
    if compute_uv:
        u, s, vh = spectra.svd(x, not some)
        return SVD(u, s, mH(vh))
    (m, n), batch = x.shape[-2:], tuple(x.shape[:-2])
    u, v = (x.new_zeros((*batch, k, k)) for k in (m, n))  # type: ignore[attr-defined]
    return SVD(u, spectra.svdvals(x), v)


@public(out=True)
def lu(input: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """`linalg.lu_factor` as a tuple; with `get_infos` `linalg.lu_factor_ex`.

    >>> import jitgrad as jg
    >>> jg.lu(jg.tensor([[1.0, 2.0], [4.0, 4.0]]))[1]
    tensor([2, 2], dtype=jitgrad.int32)
    """
    x = matrices("lu", input)
    if not pivot:
        raise located(OperationError("linalg.lu_factor: LU without pivoting is not implemented on the CPU"))
    found = factorizations.LUEx(*apply_all(LuFactor(), x))
    return found if get_infos else (found.LU, found.pivots)


@public(method=False, out=True)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> factorizations.PLU:
    """`P`, `L` and `U` from what `linalg.lu_factor` gives; those not asked for are empty.

    >>> import jitgrad as jg
    >>> jg.lu_unpack(*jg.linalg.lu_factor(jg.tensor([[1.0, 2.0], [4.0, 4.0]]))).U
    tensor([[4., 4.],
            [0., 1.]])
    """
    factor = check_tensor(LU_data, "lu_unpack")
    if factor.ndim < 2:
        raise located(ShapeError("lu_unpack: The input tensor LU_data must have at least 2 dimensions."))
    if unpack_pivots and LU_pivots.dtype is not dtypes.int32:
        raise located(
            OperationError(
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: this "
                "function is intended to be used with the output produced by torch.linalg.lu_factor"
            )
        )
    nothing: Tensor = factor.new_empty(0)  # type: ignore[attr-defined]
    order = factorizations.permutation_matrix(LU_pivots, factor.shape[-2], factor) if unpack_pivots else nothing
    low, up = factorizations.triangles(factor) if unpack_data else (nothing, nothing)
    return factorizations.PLU(order, low, up)


@public(out=True)
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve`, with the right-hand side first.

    >>> import jitgrad as jg
    >>> jg.lu_solve(jg.ones(2, 1), *jg.linalg.lu_factor(2 * jg.eye(2)))
    tensor([[0.5000],
            [0.5000]])
    """
    return factorizations.lu_solve(LU_data, LU_pivots, b)


@public(out=True)
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """`X` with `A @ X == b` (or `A.mT @ X == b`) for a triangle of `A`, and a copy of `A`.

    >>> import jitgrad as jg
    >>> jg.triangular_solve(jg.tensor([[4.0]]), jg.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    a, rhs = square("triangular_solve", A), matrices("triangular_solve", b, "b")
    copy: Tensor = a.clone()  # type: ignore[attr-defined]
    if transpose:
        solution = solving.solve_triangular(a.mT, rhs, upper=not upper, unitriangular=unitriangular)  # type: ignore[attr-defined]
    else:
        solution = solving.solve_triangular(a, rhs, upper=upper, unitriangular=unitriangular)
    batch = tuple(solution.shape[:-2])
    return TriangularSolution(solution, copy.expand((*batch, *a.shape[-2:])))  # type: ignore[attr-defined]


@public()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv`; singular values up to `rcond` times the largest count as zero.

    >>> import jitgrad as jg
    >>> jg.pinverse(jg.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rcond)


# ---------------------------------------------------------------------------------------------------- low rank


def _basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """Orthonormal columns whose span approximates that of `A - M` (Halko et al. 2009, algorithm 4.4)."""
    a = A if M is None else A - M  # type: ignore[operator]
    found = factorizations.qr(matmul(a, randn(a.shape[-1], q, dtype=a.dtype, device=a.device))).Q
    for _ in range(niter):
        found = factorizations.qr(matmul(mH(a), found)).Q
        found = factorizations.qr(matmul(a, found)).Q
    return found


@public(method=False)
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> SVD:
    """An approximate singular value decomposition of `A - M` of rank `q`, by random projections.

    Halko, Martinsson and Tropp 2009 (arXiv:0909.4061), algorithm 5.1, with `niter` power iterations.

    >>> import jitgrad as jg
    >>> jg.svd_lowrank(jg.ones(5, 4), q=2).S.shape
    jitgrad.Size([2])
    """
    x = floating("svd_lowrank", A)
    mean = None if M is None else M.expand(x.shape)  # type: ignore[attr-defined]
    wide = x.shape[-2] < x.shape[-1]
    if wide:
        x, mean = mH(x), None if mean is None else mH(mean)
    basis = _basis(x, 6 if q is None else q, 2 if niter is None else niter, mean)
    inside = matmul(mH(basis), x if mean is None else x - mean)  # type: ignore[operator]
    u, s, vh = spectra.svd(inside, False)
    u, v = matmul(basis, u), mH(vh)
    return SVD(v, s, u) if wide else SVD(u, s, v)


@public(method=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> SVD:
    """Principal components: `svd_lowrank` of the columns less their means (if `center`).

    >>> import jitgrad as jg
    >>> jg.pca_lowrank(jg.rand(5, 4), q=2).V.shape
    jitgrad.Size([4, 2])
    """
    x = floating("pca_lowrank", A)
    m, n = x.shape[-2:]
    rank = min(6, m, n) if q is None else q
    if not 0 <= rank <= min(m, n):
        raise located(ArgumentError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"))
    if niter < 0:
        raise located(ArgumentError(f"niter(={niter}) must be non-negative integer"))
    return svd_lowrank(x - x.mean(-2, keepdim=True) if center else x, rank, niter)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------- products


@public(out=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """`linalg.cross`, by default along the first dim of length 3.

    >>> import jitgrad as jg
    >>> jg.cross(jg.tensor([1.0, 0.0, 0.0]), jg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if dim is None:
        found = [a for a, n in enumerate(check_tensor(input, "cross").shape) if n == 3]
        if not found:
            raise located(OperationError("no dimension of size 3 in input"))
        dim = found[0]
    return products.cross_product("linalg.cross", input, other, dim)


@public(method=False)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, in the order that takes the fewest multiplications.

    >>> import jitgrad as jg
    >>> jg.chain_matmul(jg.ones(2, 3), jg.ones(3, 4), jg.ones(4, 1)).shape
    jitgrad.Size([2, 1])
    """
    for t in matrices:
        if check_tensor(t, "chain_matmul").ndim != 2:
            raise located(ShapeError(f"chain_matmul: Tensor dimension is {t.ndim}, expected 2 instead"))
    return matrices[0] if len(matrices) == 1 else products.chain_product("multi_dot", matrices)


@public(out=True)
@numpy_names
def norm(
    input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False,
    *, dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """The `p`-norm of the elements over `dim`, or of all; "fro" is 2, and "nuc" the nuclear norm of matrices.

    `p` may be infinite, negative or 0 (which counts elements that are not zero). The gradient is 0 at 0.

    >>> import jitgrad as jg
    >>> jg.norm(jg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = check_tensor(input, "norm")
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise located(OperationError(f"only valid string values are 'fro' and 'nuc', found {p}"))
    if p == "nuc":
        dims = tuple(range(x.ndim)) if dim is None else normalize_dims(dim, x.ndim)
        if len(dims) != 2:
            raise located(OperationError(f"linalg.matrix_norm: The dim argument must be a 2-tuple. Got {dims}"))
        return norms.matrix_norm(x, "nuc", dims, keepdim, dtype=dtype)
    return norms.vector_norm(x, 2.0 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)  # type: ignore[arg-type]


@public(method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The `pow`-norm over all dims but one, which stay with length 1; over all for `dim` -1.

    >>> import jitgrad as jg
    >>> jg.norm_except_dim(jg.ones(2, 4))
    tensor([[2.],
            [2.]])
    """
    if dim == -1:
        return norms.vector_norm(v, pow)
    return norms.vector_norm(v, pow, [a for a in range(v.ndim) if a != dim % v.ndim], keepdim=True)


@public(method=False, out=True)
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over `dim`, or of all.

    >>> import jitgrad as jg
    >>> jg.frobenius_norm(jg.tensor([[3.0, 4.0]]), 1)
    tensor([5.])
    """
    return norms.vector_norm(input, 2, dim or None if isinstance(dim, (tuple, list)) else dim, keepdim)


@public(method=False, out=True)
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices.

    >>> import jitgrad as jg
    >>> jg.nuclear_norm(jg.eye(3))
    tensor(3.)
    """
    return norms.matrix_norm(input, "nuc", dim, keepdim)


@public(method=False)
def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
    iK: Tensor | None = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None,
    method: str | None = None, tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The `k` largest (or smallest) eigenvalues of symmetric matrices, and their eigenvectors, by iteration.

    With `B`, of the generalised problem. `X` holds `n` vectors to start from (random ones unless given). `iK`, the
    method and the parameters of the orthogonalisation are PyTorch's: the result does not depend on them.

    >>> import jitgrad as jg
    >>> jg.lobpcg(jg.diag(jg.arange(9.0)), k=2)[0]
    tensor([8., 7.])
    """
    a = square("lobpcg", A)
    count = k if k is not None else 1 if X is None else X.shape[-1]
    block = n if n is not None else count if X is None else X.shape[-1]
    rows = a.shape[-1]
    if rows < 3 * block:
        raise located(
            ArgumentError(
                f"LPBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the "
                f"number of requested eigenpairs (={block})"
            )
        )
    start = randn((*a.shape[:-2], rows, block), dtype=a.dtype, device=a.device) if X is None else X.detach()  # type: ignore[attr-defined]
    if a.requires_grad:
        a = (a + a.mT) / 2  # type: ignore[attr-defined, operator]
    accuracy = epsilon(a) ** 0.5 if tol is None else tol
    op = Lobpcg(count, largest is None or largest, 1000 if niter is None else niter, float(accuracy))
    return tuple(apply_all(op, a, start, *([] if B is None else [B])))  # type: ignore[return-value]
