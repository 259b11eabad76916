"""Pictures of a training's curves, by Matplotlib."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.ir.errors import OperationError

from ..errors import located
from .history import History

_BESIDE = ("step", "epoch", "seconds", "lr")  # columns that are no curves of quality
_WINDOWS = 100  # parts of a curve that a smoothed one averages over


def plot_history(history: History, path: str | os.PathLike[str], title: str = "") -> Path:
    """Draw the curves of a training to a file (PNG, SVG, PDF, as its name says), and return its path.

    One panel for the loss, on a logarithmic scale, one for each metric: steps pale, their running mean on top, epochs
    of training and validation as points. Needs Matplotlib (`pip install 'jitgrad[logs]'`), and raises `RuntimeError`
    without it.
    """
    names = [name for name in history.steps.columns if name not in _BESIDE]
    figure = _new_figure(figsize=(5.5 * max(len(names), 1), 4), dpi=110, layout="constrained")
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(1, len(names), number)
        _curves(axes, history, name)
        axes.set(xlabel="step", ylabel=name, title=title if number == 1 else "")
        axes.grid(alpha=0.3)
        axes.legend()
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _curves(axes: Any, history: History, name: str) -> None:
    steps, values = np.array(history.steps["step"]), np.array(history.steps[name])
    axes.plot(steps, values, color="C0", alpha=0.25, linewidth=0.8)
    axes.plot(*_smoothed(steps, values), color="C0", label="steps, running mean")
    for column, color in ((name, "C2"), (f"val_{name}", "C1")):
        if column in history.epochs:
            label = "validation" if column.startswith("val_") else "epoch"
            axes.plot(history.epochs["step"], history.epochs[column], "o-", color=color, label=label)
    if name == "loss" and (values > 0).all():
        axes.set_yscale("log")


def _smoothed(steps: Any, values: Any) -> tuple[Any, Any]:
    """Means over windows of equal length, at their middles."""
    width = max(1, len(values) // _WINDOWS)
    count = len(values) // width
    parts = (np.asarray(x[: count * width], float).reshape(count, width).mean(1) for x in (steps, values))
    return next(parts), next(parts)


def _new_figure(**options: Any) -> Any:
    """The one place that imports Matplotlib, when something is drawn. No display, no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise located(OperationError("drawing needs Matplotlib: pip install 'jitgrad[logs]'")) from error
    return Figure(**options)
