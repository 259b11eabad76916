"""The Moore-Penrose inverse."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.ops.solve import Pinv

from ..dispatch import apply
from ..functions.pointwise import expand
from ..tensor import Tensor
from .arguments import function, matrices, square
from .norms import limits


@function
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to `max(atol, rtol * the largest)` count as zero.

    `rcond` is an older name of `rtol`. With `hermitian` only the lower triangle is read. The gradient is that at
    constant rank.

    >>> import jitgrad as jg
    >>> jg.linalg.pinv(jg.tensor([[1.0], [1.0]]))
    tensor([[0.5000, 0.5000]])
    """
    x = (square if hermitian else matrices)("linalg.pinv", A)
    if rcond is not None:
        atol, rtol = 0.0, rcond
    absolute, relative = limits("torch.linalg.pinv", x, atol, rtol)
    return apply(Pinv(bool(hermitian)), expand(x, (*absolute.shape, *x.shape[-2:])), absolute, relative)
