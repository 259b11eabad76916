"""Metrics: functions of a model's output and the target that give their mean over a batch; and running means."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """The share of targets for which the output is largest.

    `output` has scores [n, classes, ...], `target` numbers of classes [n, ...] (integers).

    >>> import jitgrad as jg
    >>> accuracy(jg.tensor([[0.1, 0.9], [0.8, 0.2]]), jg.tensor([1, 1]))
    tensor(0.5000)
    """
    return (output.argmax(1) == target).float().mean()  # type: ignore[attr-defined]


def top_k(k: int) -> Any:
    """A metric: the share of targets that are among the `k` largest scores. Shapes as for `accuracy`.

    >>> import jitgrad as jg
    >>> top_k(2)(jg.tensor([[0.1, 0.6, 0.3], [0.1, 0.6, 0.3]]), jg.tensor([2, 0]))
    tensor(0.5000)
    """

    def top(output: Tensor, target: Tensor) -> Tensor:
        best = output.topk(k, 1).indices  # type: ignore[attr-defined]
        return (best == target.unsqueeze(1)).any(1).float().mean()  # type: ignore[attr-defined]

    return top


def binary_accuracy(output: Tensor, target: Tensor) -> Tensor:
    """The share of logits, any shape, that lie on the side of 0 that the target, 0 or 1, says.

    >>> import jitgrad as jg
    >>> binary_accuracy(jg.tensor([-2.0, 3.0]), jg.tensor([0.0, 0.0]))
    tensor(0.5000)
    """
    return ((output > 0) == (target > 0.5)).float().mean()


def confusion_matrix(predicted: Tensor, target: Tensor, classes: int) -> Tensor:
    """How often a target (row) was taken for which class (column): int64 [classes, classes].

    >>> import jitgrad as jg
    >>> confusion_matrix(jg.tensor([0, 1, 1]), jg.tensor([0, 0, 1]), classes=2)
    tensor([[1, 1],
            [0, 1]])
    """
    pairs = target.long() * classes + predicted.long()  # type: ignore[attr-defined]
    return pairs.flatten().bincount(minlength=classes * classes).reshape(classes, classes)


class Averages:
    """Means of named values, each weighted by the size of the batch that it is of.

    >>> means = Averages()
    >>> means.add({"loss": 1.0}, 3)
    >>> means.add({"loss": 5.0}, 1)
    >>> means.compute()
    {'loss': 2.0}
    """

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.weight = 0

    def add(self, values: dict[str, float], weight: int) -> None:
        """Take in the means over `weight` items."""
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * weight
        self.weight += weight

    def compute(self) -> dict[str, float]:
        """The means over everything that was added."""
        return {name: total / max(self.weight, 1) for name, total in self.sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """Sums and weight."""
        return {"sums": dict(self.sums), "weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.sums, self.weight = dict(state["sums"]), state["weight"]
