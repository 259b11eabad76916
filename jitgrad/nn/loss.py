"""Losses as modules."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import OperationError

from ..errors import located
from ..tensor import Tensor
from . import functional as F
from .functional.arguments import reduction_name
from .linear import Linear
from .module import Module


class _Loss(Module):
    """A loss with a reduction: "none", "mean" or "sum"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        old = size_average is not None or reduce is not None
        self.reduction = reduction_name(type(self).__name__, reduction, size_average, reduce) if old else reduction


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_WeightedLoss):
    """The cross entropy of softmax(input) and a target; see `functional.cross_entropy`.

    >>> import jitgrad as jg
    >>> jg.nn.CrossEntropyLoss()(jg.zeros(3, 2), jg.tensor([0, 1, 1]))
    tensor(0.6931)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class NLLLoss(_WeightedLoss):
    """The negative log-likelihood of target classes, given log-probabilities."""

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared differences, their mean or their sum."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute differences, their mean or their sum."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Absolute differences less `beta / 2`, and below `beta` squared ones over `2 beta`."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """`delta` times (absolute differences less `delta / 2`), and below `delta` half of the squared ones."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_WeightedLoss):
    """The binary cross entropy of probabilities."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of sigmoid(input), without overflow."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of log-probabilities from probabilities."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
        log_target: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy of a linear layer's outputs, with the layer inside; see `functional.linear_cross_entropy`.

    `options` say how PyTorch computes it piece by piece; they change nothing here.
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: Any = None, dtype: DType | None = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
    ) -> None:  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise located(OperationError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"))
        if not 0 <= label_smoothing <= 1:
            raise located(OperationError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"))
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        shape, layer = (self.num_classes, *self.out_features), self.linear
        bias = None if layer.bias is None else layer.bias.reshape(shape)
        return F.linear_cross_entropy(
            input, layer.weight.reshape(*shape, layer.in_features), target, linear_bias=bias, weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Its sizes and options."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
