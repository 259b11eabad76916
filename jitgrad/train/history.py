"""What a training showed, step by step and epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class Table:
    """Rows of named numbers, kept by column; a number that a row lacks is a NaN.

    >>> table = Table()
    >>> table.append({"step": 1, "loss": 0.5})
    >>> table.append({"step": 2, "loss": 0.25, "val_loss": 0.75})
    >>> table["loss"], table["val_loss"]
    ([0.5, 0.25], [nan, 0.75])
    """

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {}

    def append(self, row: dict[str, float]) -> None:
        """Add a row."""
        length = len(self)
        for name in row:
            self.columns.setdefault(name, [float("nan")] * length)
        for name, column in self.columns.items():
            column.append(row.get(name, float("nan")))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __getitem__(self, name: str) -> list[float]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Its rows, without what they lack."""
        for values in zip(*self.columns.values(), strict=True):
            yield {name: x for name, x in zip(self.columns, values, strict=True) if x == x}

    def state_dict(self) -> dict[str, Any]:
        """The columns as arrays."""
        return {name: np.array(column) for name, column in self.columns.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.columns = {name: column.tolist() for name, column in state.items()}


class History:
    """`steps` has a row for each optimizer step, `epochs` one for each epoch.

    Steps have `step`, `loss`, `lr`, the metrics, and `grad_norm` where gradients are clipped by their norm; epochs have
    `epoch`, `step`, means over the epoch, the same of validation as `val_loss` and so on, `lr` and `seconds`.
    """

    def __init__(self) -> None:
        self.steps = Table()
        self.epochs = Table()

    def state_dict(self) -> dict[str, Any]:
        """Both tables."""
        return {"steps": self.steps.state_dict(), "epochs": self.epochs.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.steps.load_state_dict(state["steps"])
        self.epochs.load_state_dict(state["epochs"])
