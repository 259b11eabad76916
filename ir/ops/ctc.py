"""Connectionist temporal classification: the loss over all alignments of a sequence with labels.

Source: Graves et al. 2006, doi:10.1145/1143844.1143891. Labels are interleaved with blanks, so that there are
`2 s + 1` states; a step in time stays in a state, or goes one on, or two on from one label to a different one. Sums
over paths are kept as logarithms. They go through time one step after the other, for all items and states at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes
from ..builder import Builder
from ..errors import AutogradError, DTypeError, OperationError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..types import TensorType
from .formula import Term
from .sample_axis import all_batched, merged, split

__all__ = ["CtcLoss", "CtcLossGrad"]

_NEVER = -np.inf


class _Ctc(Op):
    """The operands' types, and the sums over paths."""

    blank: int

    def check(self, operands: Sequence[TensorType]) -> None:
        """Log-probabilities [t, n, c], labels [n, s], and two vectors of lengths [n]; integers are int64."""
        logp, *integers = operands
        if logp.dtype not in (dtypes.float32, dtypes.float64):
            raise DTypeError(f"{self.name}: not defined for {logp.dtype.name}{operand_lines(operands)}")
        if any(t.dtype is not dtypes.int64 for t in integers):
            raise DTypeError(f"{self.name}: labels and lengths must be int64{operand_lines(operands)}")
        n = logp.shape[1] if logp.ndim == 3 else -1
        labels, *lengths = integers
        if n < 0 or labels.ndim != 2 or labels.shape[0] != n or any(t.shape != (n,) for t in lengths):
            raise ShapeError(f"{self.name}: takes [t, n, c], [n, s], [n] and [n]{operand_lines(operands)}")
        if not 0 <= self.blank < logp.shape[2]:
            raise OperationError(f"{self.name}: blank must be in label range, not {self.blank}")

    def states(self, labels: Array) -> tuple[Array, Array]:
        """The label of each state, and whether it may be entered from two states before."""
        n, s = labels.shape
        states = np.full((n, 2 * s + 1), self.blank, np.int64)
        states[:, 1::2] = labels
        skips = np.zeros(states.shape, bool)
        skips[:, 2:] = (states[:, 2:] != self.blank) & (states[:, 2:] != states[:, :-2])
        return states, skips

    def forward(self, operands: Sequence[Array]) -> tuple[Array, Array, Array]:
        """The log of the sums over paths that are in a state at a time [t, n, states]; emissions; losses [n]."""
        logp, labels, times, counts = operands
        _check_lengths(self.name, logp, labels, times, counts)
        states, skips = self.states(np.where(np.arange(labels.shape[1]) < counts[:, None], labels, self.blank))
        emitted = np.take_along_axis(logp, np.broadcast_to(states, (len(logp), *states.shape)), 2)
        alpha = np.full(emitted.shape, _NEVER, logp.dtype)
        n = np.arange(logp.shape[1])
        if len(alpha):
            alpha[0, :, :2] = emitted[0, :, :2]
            alpha[0, counts == 0, 1:] = _NEVER
        for t in range(1, len(alpha)):
            alpha[t] = _step(alpha[t - 1], skips, 1) + emitted[t]
        last = alpha[times - 1, n] if len(alpha) else np.full(states.shape, _NEVER, logp.dtype)
        ends = np.where(counts > 0, last[n, np.maximum(2 * counts - 1, 0)], _NEVER)
        total = np.logaddexp(last[n, 2 * counts], ends)
        return alpha, emitted, -np.where(times > 0, total, np.where(counts == 0, 0.0, _NEVER)).astype(logp.dtype)

    def backward(self, operands: Sequence[Array], emitted: Array) -> Array:
        """As `forward`, of paths from a state at a time to the end."""
        logp, labels, times, counts = operands
        _, skips = self.states(np.where(np.arange(labels.shape[1]) < counts[:, None], labels, self.blank))
        leads = np.zeros_like(skips)  # whether two states on may be entered from here
        leads[:, :-2] = skips[:, 2:]
        at = np.arange(skips.shape[1])
        is_end = (at == 2 * counts[:, None]) | ((at == 2 * counts[:, None] - 1) & (counts[:, None] > 0))
        beta = np.full(emitted.shape, _NEVER, logp.dtype)
        for t in reversed(range(len(beta))):
            going_on = _step(beta[t + 1], leads, -1) if t + 1 < len(beta) else np.full(skips.shape, _NEVER)
            starts = np.where(is_end, 0.0, _NEVER)
            beta[t] = np.where((times == t + 1)[:, None], starts, going_on) + emitted[t]
            beta[t, times <= t] = _NEVER
        return beta


def _check_lengths(name: str, logp: Array, labels: Array, times: Array, counts: Array) -> None:
    for what, lengths, most in (("input_lengths", times, len(logp)), ("target_lengths", counts, labels.shape[1])):
        if lengths.size and (lengths.min() < 0 or lengths.max() > most):
            raise OperationError(f"{name}: expected {what} between 0 and {most}, but got {lengths.tolist()}")


def _step(before: Array, skips: Array, direction: int) -> Array:
    """The sums over the states that each state may be entered from."""
    stay = before
    one = np.full_like(before, _NEVER)
    two = np.full_like(before, _NEVER)
    if direction > 0:
        one[:, 1:], two[:, 2:] = before[:, :-1], before[:, :-2]
    else:
        one[:, :-1], two[:, :-2] = before[:, 1:], before[:, 2:]
    return np.logaddexp(np.logaddexp(stay, one), np.where(skips, two, _NEVER))


@op
class CtcLoss(_Ctc):
    """Minus the log-probability of a sequence of labels under log-probabilities of classes at each time.

    Operands: log-probabilities [t, n, c], labels [n, s], how many times [n] and how many labels [n] count, as int64.
    The result is [n]; infinite where no alignment is possible.

    >>> import numpy as np
    >>> half = np.log(np.full((2, 1, 2), 0.5))
    >>> CtcLoss(0).reference(half, np.array([[1]]), np.array([2]), np.array([1])).round(4)  # of 4 paths 3
    array([0.2877])
    """

    blank: int = 0
    name = "ctc_loss"
    copies_on_write = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """One loss for each item."""
        self.check(operands)
        return (operands[0].with_shape((operands[0].shape[1],)),)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """More items in the batch."""
        logp, *integers = all_batched(b, operands, batched, size)
        return (split(b, b(self, merged(b, logp, 1), *[merged(b, x) for x in integers]), size),)

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: lengths out of range must raise."""
        return False

    def reference(self, *operands: Array) -> Array:
        """The forward sums."""
        with np.errstate(all="ignore"):
            return self.forward(operands)[2]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """By `CtcLossGrad`."""
        (g,) = cotangents
        assert g is not None
        grad = Term(b, b(CtcLossGrad(self.blank), *operands))
        shape = operands[0].shape
        return (Term(b, g).expand_axis(0, (shape[0], shape[1])).expand_axis(2, shape) * grad).value, None, None, None


@op
class CtcLossGrad(_Ctc):
    """The derivative of `CtcLoss` in its log-probabilities: minus the probability of each class at each time, given
    the labels. 0 where the loss is infinite. It can't be differentiated again.

    >>> import numpy as np
    >>> half = np.log(np.full((2, 1, 2), 0.5))
    >>> CtcLossGrad(0).reference(half, np.array([[1]]), np.array([2]), np.array([1])).round(4)[:, 0]
    array([[-0.3333, -0.6667],
           [-0.3333, -0.6667]])
    """

    blank: int = 0
    name = "ctc_loss_grad"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The type of the log-probabilities."""
        self.check(operands)
        return operands[:1]

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: lengths out of range must raise."""
        return False

    def reference(self, *operands: Array) -> Array:
        """The forward and the backward sums, by class."""
        logp, labels, _, counts = operands
        with np.errstate(all="ignore"):
            alpha, emitted, loss = self.forward(operands)
            beta = self.backward(operands, emitted)
            share = np.exp(alpha + beta - np.where(np.isneginf(emitted), 0, emitted) + loss[:, None])
        share = np.where(np.isfinite(share), share, 0)
        states, _ = self.states(np.where(np.arange(labels.shape[1]) < counts[:, None], labels, self.blank))
        out = np.zeros(logp.shape, logp.dtype)
        t, n, _ = np.ogrid[: len(share), : share.shape[1], :1]
        np.subtract.at(out, (t, n, states[None]), share)
        return out

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """None is known, as in PyTorch."""
        raise AutogradError("ctc_loss: a second derivative is not available")
