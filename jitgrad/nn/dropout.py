"""Dropout layers."""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.ir.errors import ArgumentError

from ..errors import located
from ..tensor import Tensor
from . import functional as F
from .module import Module


class _Dropout(Module):
    """What all kinds share."""

    function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise located(ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}"))
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Its numbers."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, sets elements to zero with probability `p` and divides the others by `1 - p`.

    >>> import jitgrad as jg
    >>> jg.nn.Dropout(0.2).eval()(jg.ones(2))
    tensor([1., 1.])
    """

    function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """`Dropout` of whole channels of [n, c, l]."""

    function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """`Dropout` of whole channels of [n, c, h, w]."""

    function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """`Dropout` of whole channels of [n, c, d, h, w]."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what `SELU` gives (Klambauer et al. 2017, arXiv:1706.02515)."""

    function = staticmethod(F.alpha_dropout)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return type(self).function(input, self.p, self.training)


class FeatureAlphaDropout(AlphaDropout):
    """`AlphaDropout` of whole channels."""

    function = staticmethod(F.feature_alpha_dropout)
