"""Eigenvalues, singular values, and what follows from them: norms are in `norms`."""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.ir.errors import OperationError
from jitgrad.ir.ops.spectral import Eig, Eigh, EighVals, EigVals, Svd, SvdVals

from ..dispatch import apply, apply_all
from ..errors import located
from ..tensor import Tensor
from .arguments import function, matrices, square


class Eigenpairs(NamedTuple):
    """What `eig` and `eigh` give."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _is_upper(name: str, UPLO: str) -> bool:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise located(OperationError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}"))
    return UPLO.upper() == "U"


def _check_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise located(OperationError(f"{name}: keyword argument `driver=` is only supported on CUDA inputs"))


@function
def eigh(A: Tensor, UPLO: str = "L") -> Eigenpairs:
    """Real eigenvalues, ascending, and orthonormal eigenvectors (columns) of Hermitian matrices.

    Only the lower triangle is read, or the upper one for `UPLO` "U". The gradient assumes distinct eigenvalues, if
    eigenvectors are used, and that their phases do not matter.

    >>> import jitgrad as jg
    >>> jg.linalg.eigh(jg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return Eigenpairs(*apply_all(Eigh(_is_upper("linalg.eigh", UPLO)), square("linalg.eigh", A)))


@function
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of `eigh` alone.

    >>> import jitgrad as jg
    >>> jg.linalg.eigvalsh(jg.tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([-1.,  1.])
    """
    return apply(EighVals(_is_upper("linalg.eigvalsh", UPLO)), square("linalg.eigh", A))


@function
def eig(A: Tensor) -> Eigenpairs:
    """Complex eigenvalues, in no particular order, and eigenvectors of norm 1 (columns) of square matrices.

    The gradient assumes distinct eigenvalues, and that phases of eigenvectors do not matter.

    >>> import jitgrad as jg
    >>> jg.linalg.eig(jg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([2.+0.j, 1.+0.j])
    """
    x = square("linalg.eig", A)
    return Eigenpairs(*apply_all(Eig(), x))


@function
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of `eig` alone.

    >>> import jitgrad as jg
    >>> jg.linalg.eigvals(jg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([2.+0.j, 1.+0.j])
    """
    x = square("linalg.eigvals", A)
    if x.requires_grad:  # the gradient pairs them with eigenvectors, so both come from one call of LAPACK
        return apply_all(Eig(), x)[0]
    return apply(EigVals(), x)


@function
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """`U`, the singular values `S` (real, descending) and `Vh` with `U @ diag(S) @ Vh == A`.

    With `full_matrices`, `U` and `Vh` are square; the gradient goes through their first columns and rows alone, and
    assumes distinct singular values, and that phases do not matter.

    >>> import jitgrad as jg
    >>> jg.linalg.svd(jg.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    x = matrices("linalg.svd", A)
    _check_driver("torch.linalg.svd", driver)
    return SVD(*apply_all(Svd(bool(full_matrices)), x))


@function
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values alone, descending.

    >>> import jitgrad as jg
    >>> jg.linalg.svdvals(jg.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    x = matrices("linalg.svdvals", A)
    _check_driver("torch.linalg.svd", driver)
    return apply(SvdVals(), x)
