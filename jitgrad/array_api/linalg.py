"""The standard's extension for linear algebra."""

from __future__ import annotations

from typing import Any

from .. import linalg
from ..functions.registry import FUNCTIONS
from ..linalg import eig, eigh, eigvals, eigvalsh, inv, matrix_power, solve, svdvals
from ..tensor import Tensor
from .elementwise import matrix_transpose, vecdot
from .products import matmul, tensordot

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor of Hermitian matrices: lower triangular, or `upper`."""
    return linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product along an axis of length 3."""
    return linalg.cross(x1, x2, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinants of matrices."""
    return linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return FUNCTIONS["diagonal"](x, offset, -2, -1)  # type: ignore[no-any-return]


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices."""
    return linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest."""
    return linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of two vectors' elements."""
    return FUNCTIONS["outer"](x1, x2)  # type: ignore[no-any-return]


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses of matrices."""
    return linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """A matrix with orthonormal columns and an upper triangular one whose product is `x`."""
    return linalg.qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    """Signs of determinants, and logarithms of their magnitudes."""
    return linalg.slogdet(x)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """The singular value decomposition of matrices."""
    return linalg.svd(x, full_matrices)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of matrices' diagonals."""
    return FUNCTIONS["sum"](diagonal(x, offset=offset), -1, dtype=dtype)  # type: ignore[no-any-return]


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norms of vectors along these axes, or of all elements."""
    return linalg.vector_norm(x, ord, axis, keepdims)
