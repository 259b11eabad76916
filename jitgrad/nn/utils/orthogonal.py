"""Orthogonal matrices as functions of free ones: by the exponential, by Cayley's map, by Householder reflections."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError, UnsupportedError

from ...creation import eye
from ...errors import located
from ...functions.joining import cat
from ...functions.types import finfo
from ...linalg.factorizations import householder_product, qr
from ...linalg.older import geqrf
from ...linalg.products import matrix_exp
from ...linalg.solving import solve
from ...random import randn
from ...tensor import Tensor
from ..module import Module

MAPS = ("matrix_exp", "cayley", "householder")
_TOLERANCE = 10  # in units of rounding times the number of rows


class Orthogonal(Module):
    """Makes a matrix [..., n, k] orthogonal (unitary if complex): its columns, or its rows if they are longer.

    With `use_trivialization`, the result is a map near the identity times the matrix that was set last: Lezcano-Casado,
    "Trivializations for gradient-based optimization on manifolds", 2019.
    """

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.dtype.is_complex and orthogonal_map == "householder":
            raise located(ArgumentError("The householder parametrization does not support complex tensors."))
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        """The orthogonal matrix."""
        is_wide = X.shape[-2] < X.shape[-1]
        X = X.mT if is_wide else X
        Q = _reflected(X) if self.orthogonal_map == "householder" else _rotated(X, self.orthogonal_map)
        if self.use_trivialization and self.base is not None:
            Q = self.base @ Q
        return Q.mT if is_wide else Q

    def right_inverse(self, Q: Any) -> Any:
        """What gives `Q`, or what is orthogonal near it."""
        if Q.shape != self.shape:
            raise located(
                ArgumentError(
                    f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
                )
            )
        is_wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if is_wide else Q
        if self.use_trivialization:
            self.base = _completed(tall)
            return -_eye_like(Q)  # of which every map makes the identity; reflections take their signs from it
        if self.orthogonal_map != "householder":
            raise located(
                UnsupportedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            )
        A, tau = geqrf(tall)
        signs = A.diagonal(dim1=-2, dim2=-1)
        signs.sign_()
        signs.mul_(1 - 2 * (tau == 0).to(signs.dtype))  # LAPACK made no reflection there
        return A.mT if is_wide else A


def _rotated(X: Any, kind: str) -> Any:
    """A map of the skew matrix that the lower triangle of a tall `X` fills."""
    n, k = X.shape[-2:]
    X = X.tril()
    if n != k:
        X = cat([X, X.new_zeros((*X.shape[:-1], n - k))], -1)
    A = X - X.mH
    if kind == "matrix_exp":
        Q = matrix_exp(A)
    else:
        one = eye(n, dtype=A.dtype, device=A.device)
        Q = solve(one - A / 2, one + A / 2)
    return Q if n == k else Q[..., :k]


def _reflected(X: Any) -> Any:
    """The product of the reflections along the columns below the diagonal; the diagonal has signs alone."""
    A = X.tril(-1)
    tau = 2 / (1 + (A * A).sum(-2))
    return householder_product(A, tau) * X.detach().diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)


def _completed(Q: Any) -> Any:
    """A square orthogonal matrix whose first columns are those of `Q`, or orthogonal ones near them."""
    n, k = Q.shape[-2:]
    if n == k:
        return Q.clone() if _is_orthogonal(Q) else _orthogonal_factor(Q)
    return _orthogonal_factor(cat([Q, randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)], -1))


def _is_orthogonal(Q: Any) -> bool:
    error = (Q.mH @ Q - _eye_like(Q)).abs().amax()
    return bool(error <= _TOLERANCE * Q.shape[-2] * finfo(Q.dtype).eps)


def _orthogonal_factor(A: Any) -> Any:
    """The factor Q of the decomposition A = QR in which the diagonal of R is positive."""
    Q, R = qr(A)
    return Q * R.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _eye_like(A: Any) -> Any:
    made = A.new_zeros(A.shape)
    made.diagonal(dim1=-2, dim2=-1).fill_(1)
    return made
