"""Logs of a training: CSV files, TensorBoard's event files, pictures of its curves."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jitgrad.ir.errors import OperationError

from ..errors import located
from .callbacks import Callback
from .plots import plot_history

if TYPE_CHECKING:
    from .history import Table
    from .trainer import Trainer


class CSVLog(Callback):
    """`steps.csv` and `epochs.csv` in a folder: the rows of `trainer.history`, written as they come.

    A resumed training writes the files anew from its history, so that no row is twice.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._files = {name: _CSVFile(self.folder / f"{name}.csv") for name in ("steps", "epochs")}

    def on_start(self, trainer: Trainer) -> None:
        """Write what there is already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, file in self._files.items():
            file.rewrite(getattr(trainer.history, name))

    def on_step_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Write a row of `steps.csv`."""
        self._files["steps"].append(values, trainer.history.steps)

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Write a row of `epochs.csv`."""
        self._files["epochs"].append(values, trainer.history.epochs)
        self._files["steps"].flush()

    def on_end(self, trainer: Trainer) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


class _CSVFile:
    """A table as a file that grows; written anew when a row brings a column of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None
        self._names: list[str] = []

    def rewrite(self, table: Table) -> None:
        self.close()
        self._file = open(self.path, "w", newline="", encoding="utf-8")  # noqa: SIM115 (it stays open)
        self._names = list(table.columns)
        if self._names:
            self._write([self._names])
            self._write([row.get(name, "") for name in self._names] for row in table)
        self.flush()

    def append(self, row: dict[str, float], table: Table) -> None:
        if self._names == list(table.columns):
            self._write([[row.get(name, "") for name in self._names]])
        else:
            self.rewrite(table)

    def _write(self, rows: Iterable[list[Any]]) -> None:
        csv.writer(self._file).writerows(rows)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class TensorBoardLog(Callback):
    """TensorBoard's event files in a folder: values of steps under `step/`, of epochs under `epoch/`.

    Needs the package `tensorboard` (`pip install 'jitgrad[logs]'`), and raises `RuntimeError` without it. `every` is
    for steps: of so many, one is written. A resumed training's events replace those after its checkpoint.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 1) -> None:
        self.folder = Path(folder)
        self.every = every
        self._events = _tensorboard()
        self._writer: Any = None

    def on_start(self, trainer: Trainer) -> None:
        """Open a file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._writer = self._events.writer.EventFileWriter(str(self.folder))
        if trainer.step:
            start = self._events.event.SessionLog(status=self._events.event.SessionLog.START)
            self._writer.add_event(self._events.event.Event(session_log=start, step=trainer.step + 1))

    def on_step_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Write a step's values."""
        if trainer.step % self.every == 0:
            self._add("step", trainer.step, values)

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Write an epoch's values."""
        self._add("epoch", trainer.step, values)
        self._writer.flush()

    def on_end(self, trainer: Trainer) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, prefix: str, step: int, values: dict[str, float]) -> None:
        summary = self._events.summary.Summary()
        for name, value in values.items():
            if name not in ("step", "epoch"):
                summary.value.add(tag=f"{prefix}/{name}", simple_value=value)
        self._writer.add_event(self._events.event.Event(summary=summary, step=step, wall_time=time.time()))


class _Events:
    """The parts of `tensorboard` that are used."""

    def __init__(self, event: Any, summary: Any, writer: Any) -> None:
        self.event, self.summary, self.writer = event, summary, writer


def _tensorboard() -> _Events:
    """The one place that imports TensorBoard, when a log is asked for."""
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer import event_file_writer
    except ImportError as error:
        raise located(OperationError("TensorBoardLog needs tensorboard: pip install 'jitgrad[logs]'")) from error
    return _Events(event_pb2, summary_pb2, event_file_writer)


class LossPlot(Callback):
    """A picture of the curves of loss and metrics, drawn anew after each epoch; see `plot_history`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Draw it."""
        plot_history(trainer.history, self.path)
