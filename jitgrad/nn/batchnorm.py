"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ir.dtypes import DType, int64
from jitgrad.ir.errors import ArgumentError

from ..autograd.grad_mode import no_grad
from ..creation import empty, ones, zeros
from ..errors import located
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


class _Affine(Module):
    """A normalisation that multiplies by a weight and adds a bias at the end, if it has them."""

    weight: Parameter | None
    bias: Parameter | None

    def _add_affine(self, shape: Any, weight: bool, bias: bool, where: dict[str, Any]) -> None:
        self.register_parameter("weight", Parameter(empty(shape, **where)) if weight else None)
        self.register_parameter("bias", Parameter(empty(shape, **where)) if bias else None)

    def reset_parameters(self) -> None:
        """Set the initial values: weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _BatchNorm(_Affine):
    """Statistics of each channel: of the batch in training, else running ones."""

    _version = 2
    ranks: tuple[int, ...]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: DType | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self._add_affine(num_features, affine, affine and bias, where)
        self.register_buffer("running_mean", zeros(num_features, **where) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, **where) if track_running_stats else None)
        count = zeros((), dtype=int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.track_running_stats:
            for buffer, value in (
                (self.running_mean, 0),
                (self.running_var, 1),
                (self.num_batches_tracked, 0),
            ):
                if buffer is not None:
                    init.constant_(buffer, value)

    def reset_parameters(self) -> None:
        """Set the initial values: weight 1, bias 0, and forget the batches seen."""
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:  # fmt: skip
        """Files from before version 2 have no count of batches: it stays as it is."""
        if (local_metadata.get("version") or 0) < 2 and self.num_batches_tracked is not None:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_input(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            expected = " or ".join(f"{n}D" for n in self.ranks)
            raise located(ArgumentError(f"expected {expected} input (got {input.ndim}D input)"))

    def forward(self, input: Tensor) -> Tensor:
        """Apply it, and in training move the running statistics."""
        self._check_input(input)
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        counted = self.num_batches_tracked if self.training and self.track_running_stats else None
        if counted is not None:
            with no_grad():
                counted.add_(1)  # type: ignore[attr-defined]
                if self.momentum is None:
                    momentum = 1.0 / counted  # type: ignore[operator]
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if keep else None, self.running_var if keep else None, self.weight, self.bias,
            use_batch, momentum, self.eps,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Its numbers."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [n, c] or [n, c, l] (Ioffe and Szegedy 2015, arXiv:1502.03167)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of [n, c, h, w] (Ioffe and Szegedy 2015, arXiv:1502.03167).

    In training each channel gets mean 0 and variance 1 over the batch; running statistics, moved by `momentum` (or
    averaged over all batches, if it is None), are used in evaluation.

    >>> import jitgrad as jg
    >>> layer = jg.nn.BatchNorm2d(3)
    >>> layer
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    >>> layer(jg.randn(2, 3, 4, 4)).shape
    jitgrad.Size([2, 3, 4, 4])
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of [n, c, d, h, w] (Ioffe and Szegedy 2015, arXiv:1502.03167)."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation whose statistics are those of all processes of a group; of one process, its own."""

    ranks = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group


class LayerNorm(_Affine):
    """Normalisation over the last axes, of lengths `normalized_shape` (Ba et al. 2016, arXiv:1607.06450)."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self._add_affine(shape, elementwise_affine, elementwise_affine and bias, where)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Its numbers."""
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        return text + f", bias={self.bias is not None}"


class RMSNorm(Module):
    """Division by the root mean square over the last axes (Zhang and Sennrich 2019, arXiv:1910.07467)."""

    weight: Parameter | None

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: DType | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def reset_parameters(self) -> None:
        """Set the initial values: weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Apply it."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Its numbers."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
