"""The largest singular value of a weight, by power iteration, which spectral normalisation divides by."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...tensor import Tensor
from ..conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..functional.distance import normalize
from ..module import Module


def output_dim(module: Module) -> int:
    """The dimension of a module's weight that its outputs belong to."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def as_matrix(weight: Any, dim: int) -> Any:
    """The weight with `dim` as its rows, and all else as its columns."""
    return weight.movedim(dim, 0).flatten(1)


def first_vectors(matrix: Any, eps: float) -> tuple[Tensor, Tensor]:
    """Random unit vectors to start from: one of as many numbers as there are rows, one of as many as columns."""
    rows, columns = matrix.shape
    with no_grad():
        left, right = matrix.new_empty(rows).normal_(0, 1), matrix.new_empty(columns).normal_(0, 1)
        return normalize(left, dim=0, eps=eps), normalize(right, dim=0, eps=eps)


def largest_singular_value(matrix: Any, u: Any, v: Any) -> Any:
    """`u* W v`, differentiable in `W`. The vectors are copied: iterations to come won't change what gradients use."""
    return u.clone().vdot(matrix.mv(v.clone()))


def towards_left(matrix: Any, u: Any, v: Any, eps: float) -> None:
    """Set `u` to the direction of `W v`, in place."""
    with no_grad():
        u.copy_(normalize(matrix.mv(v), dim=0, eps=eps))


def towards_right(matrix: Any, u: Any, v: Any, eps: float) -> None:
    """Set `v` to the direction of `W* u`, in place."""
    with no_grad():
        v.copy_(normalize(matrix.mH.mv(u), dim=0, eps=eps))
