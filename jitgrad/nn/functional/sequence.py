"""Losses of sequences: connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.dtypes import int64
from jitgrad.ir.errors import ArgumentError, DTypeError, OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.ctc import CtcLoss
from jitgrad.ir.ops.history import WithHistory

from ...autocasting import autocasts
from ...dispatch import apply, beside, constant
from ...errors import located
from ...functions.comparison import choose
from ...functions.pointwise import check_tensor, convert
from ...tensor import Tensor, read_array
from .arguments import reduced, reduction_name, reshaped


@autocasts("ctc_loss")
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of label sequences, over all their alignments (Graves et al. 2006).

    `log_probs` is [t, n, classes] (or [t, classes]), from `log_softmax`; `targets` is [n, s], or all labels one after
    the other; the lengths say how much of each counts. A "mean" divides each loss by its target's length first.
    `zero_infinity` makes infinite losses 0, with their gradients. Gradients are those of the scores that went into
    `log_softmax`, as in PyTorch.

    >>> import jitgrad as jg
    >>> logp = jg.full((2, 1, 2), 0.5).log()
    >>> jg.nn.functional.ctc_loss(logp, jg.tensor([[1]]), (2,), (1,))
    tensor(0.2877)
    """
    how = reduction_name("ctc_loss", reduction, None, None)
    x = check_tensor(log_probs, "ctc_loss")
    _check(x, targets)
    is_batched = x.ndim == 3
    logp = x if is_batched else reshaped(x, (x.shape[0], 1, x.shape[1]))
    times, counts = (_lengths(t, name) for t, name in ((input_lengths, "input"), (target_lengths, "target")))
    n = logp.shape[1]
    if times.shape != (n,) or counts.shape != (n,):
        raise located(
            OperationError(f"input_lengths and target_lengths must be of size batch_size {n}, not {list(times.shape)} "
                           f"and {list(counts.shape)}")
        )  # fmt: skip
    if not 0 <= blank < logp.shape[2]:
        raise located(OperationError("blank must be in label range"))
    labels = _padded(convert(targets, int64), counts, n)
    loss = _loss(logp, labels, times, counts, blank)
    if zero_infinity:
        loss = choose("ctc_loss", loss == float("inf"), 0, loss)
    if how == "mean":
        loss = loss / convert(counts.clamp_min(1), loss.dtype)
    return reduced(loss if is_batched else reshaped(loss, ()), how)


def _check(x: Tensor, targets: Tensor) -> None:
    if x.ndim not in (2, 3):
        raise located(ShapeError(f"ctc_loss: log_probs must have 2 or 3 axes{operand_lines([x.type_])}"))
    if x.dtype.kind != "float" or x.dtype.itemsize < 4:
        raise located(DTypeError(f"ctc_loss: not implemented for {x.dtype.name}{operand_lines([x.type_])}"))
    if check_tensor(targets, "ctc_loss").dtype.kind != "int" or not x.type_.numel:
        raise located(
            OperationError(f"ctc_loss: needs integer targets, and log_probs that are not empty"
                           f"{operand_lines([x.type_, targets.type_])}")
        )  # fmt: skip


def _lengths(given: Any, name: str) -> Any:
    """Lengths as an int64 vector."""
    if not isinstance(given, Tensor):
        return constant(np.asarray(given, np.int64).reshape(-1))
    if given.dtype.kind != "int":
        raise located(OperationError(f"{name}_lengths must be integral, not {given.dtype.name}"))
    return reshaped(convert(given, int64), (given.type_.numel,))


def _padded(targets: Any, counts: Tensor, n: int) -> Tensor:
    """The labels as [n, s]."""
    if targets.ndim == 2:
        return targets  # type: ignore[no-any-return]
    if targets.ndim != 1:
        raise located(ShapeError(f"ctc_loss: targets must have 1 or 2 axes{operand_lines([targets.type_])}"))
    given = read_array(counts).astype(np.int64)
    if given.sum() > targets.shape[0]:
        raise located(
            ArgumentError(f"ctc_loss: target_lengths add up to {given.sum()}, but there are {targets.shape[0]} targets")
        )
    starts, longest = np.cumsum(given) - given, int(given.max(initial=0))
    places = np.minimum(starts[:, None] + np.arange(longest), max(targets.shape[0] - 1, 0))
    return targets[constant(places)] if longest else targets.new_zeros((n, 0))  # type: ignore[no-any-return]


def _loss(logp: Tensor, labels: Tensor, times: Any, counts: Tensor, blank: int) -> Any:
    """The losses, with the gradient that has been through `log_softmax`."""
    labels, times, counts = (beside(x, logp) for x in (labels, times, counts))
    loss: Any = apply(CtcLoss(blank), logp, labels, times, counts)
    if not logp.requires_grad:
        return loss
    # Minus the posterior is the loss's own gradient; the classes' probabilities are added, where times count.
    steps = reshaped(constant(np.arange(logp.shape[0]), logp), (logp.shape[0], 1, 1))
    counted = (steps < reshaped(times, (1, times.shape[0], 1))) & (loss != float("inf")).reshape(1, -1, 1)
    mass = choose("ctc_loss", counted, logp.exp(), 0).sum((0, 2))  # type: ignore[attr-defined]
    return apply(WithHistory(), loss.detach(), loss + mass)
