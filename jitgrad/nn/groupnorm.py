"""Normalisation of groups of channels, of single images, and by neighbours."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError

from ..errors import located
from ..tensor import Tensor
from . import functional as F
from .batchnorm import _Affine, _BatchNorm
from .module import Module


class GroupNorm(_Affine):
    """Normalisation of each group of channels of each item (Wu and He 2018, arXiv:1803.08494).

    >>> import jitgrad as jg
    >>> jg.nn.GroupNorm(2, 6)
    GroupNorm(2, 6, eps=1e-05, affine=True, bias=True)
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise located(
                ArgumentError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self._add_affine(num_channels, affine, affine and bias, where)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Its numbers."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _InstanceNorm(_BatchNorm):
    """Normalisation of each channel of each item; `ranks` are with and without a batch."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it, and in training move the running statistics, if there are any."""
        self._check_input(input)
        channels = input.shape[-(self.ranks[-1] - 1)]
        if channels != self.num_features and self.affine:
            raise located(
                ArgumentError(f"expected input's size at the channel dim to match num_features: {self.num_features}, "
                              f"but got: {channels}.")
            )  # fmt: skip
        unbatched = input.ndim == self.ranks[0]
        x = input.unsqueeze(0) if unbatched else input  # type: ignore[attr-defined]
        y = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return y.squeeze(0) if unbatched else y


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of [n, c, l] or [c, l] (Ulyanov et al. 2016, arXiv:1607.08022)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of [n, c, h, w] or [c, h, w] (Ulyanov et al. 2016, arXiv:1607.08022)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of [n, c, d, h, w] or [c, d, h, w] (Ulyanov et al. 2016, arXiv:1607.08022)."""

    ranks = (4, 5)


class LocalResponseNorm(Module):
    """Division by a power of the squares of neighbouring channels (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Its numbers."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` of [n, c, h, w], under its older name."""
