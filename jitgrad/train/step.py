"""One step of an optimizer as a function of its batches: what a `Trainer` compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ..autograd import no_grad
from ..compiler import compile
from ..creation import tensor
from ..errors import located
from ..nn import Module
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..optim import Optimizer
from ..pytree import flatten
from ..tensor import Tensor

Forward = Callable[[Module, Any], tuple[Tensor, Any, Any]]  # of a batch: the loss, the model's output, the target
Metrics = Mapping[str, Callable[[Any, Any], Tensor]]


@dataclass(frozen=True)
class Supervised:
    """The forward pass of batches that are a model's inputs and, last, the target."""

    loss: Callable[[Any, Any], Tensor]

    def __call__(self, model: Module, batch: Any) -> tuple[Tensor, Any, Any]:
        """The loss, the output and the target."""
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise located(
                ArgumentError(
                    f"a batch is a tuple or list of inputs and a target, not {type(batch).__name__}; give the Trainer "
                    "forward=... for others"
                )
            )
        *inputs, target = batch
        output = model(*inputs)
        return self.loss(output, target), output, target


@dataclass(frozen=True)
class Computation:
    """What is done with a batch: the forward pass, in which precision, and what is measured on its output."""

    model: Module
    forward: Forward
    metrics: Metrics
    precision: Callable[[], AbstractContextManager[Any]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what `measured` gives."""
        return ("loss", *self.metrics)

    def measured(self, batch: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The loss to differentiate; and the loss and the metrics as values."""
        with self.precision():
            loss, output, target = self.forward(self.model, batch)
        with no_grad():
            return loss, (loss.detach(), *[metric(output, target) for metric in self.metrics.values()])

    def evaluated(self, batch: Any) -> tuple[Tensor, ...]:
        """The loss and the metrics."""
        return self.measured(batch)[1]

    def output(self, batch: Any) -> Tensor:
        """The model's output for a batch, or for an input without a target."""
        with self.precision():
            return self.model(batch) if isinstance(batch, Tensor) else self.forward(self.model, batch)[1]


class TrainingStep:
    """Gradients of one or several batches, clipping, and the optimizer's step.

    Several batches count as one of all their items: each loss, a mean over its batch, has the weight of its size.
    """

    def __init__(
        self, computation: Computation, optimizer: Optimizer, clip_norm: float | None, clip_value: float | None,
        scaler: Any, compiled: bool,
    ) -> None:  # fmt: skip
        self._computation = computation
        self._optimizer = optimizer
        self._clip_norm = clip_norm
        self._clip_value = clip_value
        self._scaler = scaler
        self._eager = self._whole, self._gradients, self._update
        self._compiled = tuple(map(compile, self._eager)) if compiled else self._eager

    def __call__(self, batches: Sequence[Any], is_first: bool) -> tuple[dict[str, float], int]:
        """Make the step; the means of loss and metrics, the gradients' norm, and how many items there were.

        A scaler may have to skip a step, which a graph can't while the optimizer has yet to make its state: the first
        step is made eagerly then.
        """
        whole, gradients, update = self._eager if is_first and self._scaler is not None else self._compiled
        sizes = [batch_size(batch) for batch in batches]
        total = sum(sizes)
        if len(batches) == 1:
            measured, norm = whole(batches[0])
            parts = [measured]
        else:
            self._optimizer.zero_grad()
            weights = [tensor(size / total) for size in sizes]
            parts = [gradients(batch, weight) for batch, weight in zip(batches, weights, strict=True)]
            norm = update()
        rows = [[value.item() for value in part] for part in parts]
        means = [sum(x * size for x, size in zip(column, sizes, strict=True)) / total for column in zip(*rows)]
        values = dict(zip(self._computation.names, means, strict=True))
        return (values if norm is None else {**values, "grad_norm": norm.item()}), total

    def _whole(self, batch: Any) -> tuple[tuple[Tensor, ...], Tensor | None]:
        self._optimizer.zero_grad()
        return self._gradients(batch, None), self._update()

    def _gradients(self, batch: Any, weight: Tensor | None) -> tuple[Tensor, ...]:
        """Add the gradients of a batch; its loss and metrics."""
        loss, values = self._computation.measured(batch)
        part = loss if weight is None else loss * weight
        (part if self._scaler is None else self._scaler.scale(part)).backward()
        return values

    def _update(self) -> Tensor | None:
        """Clip the gradients and step; their norm before, if it is clipped."""
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
        if self._clip_value is not None:
            clip_grad_value_(parameters, self._clip_value)
        norm = None if self._clip_norm is None else clip_grad_norm_(parameters, self._clip_norm)
        if self._scaler is None:
            self._optimizer.step()
        else:
            self._scaler.step(self._optimizer)
            self._scaler.update()
        return norm


def batch_size(batch: Any) -> int:
    """The length of the first tensor in a batch."""
    for x in flatten(batch)[0]:
        if isinstance(x, Tensor) and x.ndim:
            return x.shape[0]
    return 1
