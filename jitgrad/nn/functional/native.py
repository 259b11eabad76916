"""Functions that PyTorch has at top level too, with arguments in another order, or numbers for modes."""

from __future__ import annotations

from typing import Any

from ...functions.registry import public
from ...tensor import Tensor
from . import likelihood, linear, loss, normalization, sequence
from . import margin as _margin

_REDUCTIONS = ("none", "mean", "sum")


def _name(reduction: int | str) -> str:
    return reduction if isinstance(reduction, str) else _REDUCTIONS[reduction]


@public(method=False)
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.batch_norm`, the parameters first."""
    return normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@public(method=False)
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.instance_norm`, the parameters first."""
    return normalization.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )  # fmt: skip


@public(method=False)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.group_norm`."""
    return normalization.group_norm(input, num_groups, weight, bias, eps)


@public(method=False)
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """`nn.functional.layer_norm`."""
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


@public(method=False)
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int | str = 1,
) -> Tensor:  # fmt: skip
    """`nn.functional.binary_cross_entropy_with_logits`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return loss.binary_cross_entropy_with_logits(
        input, target, weight, None, None, _name(reduction), pos_weight
    )  # fmt: skip


@public(method=False)
def kl_div(input: Tensor, target: Tensor, reduction: int | str = 1, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return loss.kl_div(input, target, None, None, _name(reduction), log_target)


@public(method=False)
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int | str = 1, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`nn.functional.ctc_loss`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return sequence.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _name(reduction), zero_infinity
    )  # fmt: skip


@public(method=False)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return _margin.cosine_embedding_loss(input1, input2, target, margin, None, None, _name(reduction))


@public(method=False)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int | str = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return _margin.hinge_embedding_loss(input, target, margin, None, None, _name(reduction))


@public(method=False)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return _margin.margin_ranking_loss(input1, input2, target, margin, None, None, _name(reduction))


@public(method=False)
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06,
    swap: bool = False, reduction: int | str = 1,
) -> Tensor:  # fmt: skip
    """`nn.functional.triplet_margin_loss`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return _margin.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, None, None, _name(reduction)
    )  # fmt: skip


@public(method=False)
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int | str
) -> Tensor:
    """`nn.functional.poisson_nll_loss`; reductions are 0 (none), 1 (mean) or 2 (sum)."""
    return likelihood.poisson_nll_loss(input, target, log_input, full, None, eps, None, _name(reduction))


for _function in (linear.bilinear, normalization.rms_norm):
    public(method=False)(_function)
