"""A progress bar for each epoch, and a line of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from .callbacks import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

_WIDTH = 100


class ProgressBar(Callback):
    """A bar over an epoch's batches with loss and metrics, on a terminal; and a line for each epoch, everywhere."""

    def __init__(self) -> None:
        self._bar: Any = None

    def on_epoch_start(self, trainer: Trainer, total: int | None) -> None:
        """Begin a bar."""
        name = f"epoch {trainer.epoch + 1}"
        self._bar = tqdm(desc=name, total=total, initial=trainer.batch, ncols=_WIDTH, leave=False, disable=None)

    def on_step_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Move the bar on."""
        self._bar.set_postfix({name: x for name, x in values.items() if name not in ("step", "lr")}, refresh=False)
        self._bar.update(trainer.batch - self._bar.n)

    def on_epoch_end(self, trainer: Trainer, values: dict[str, float]) -> None:
        """Print the line."""
        self._close()
        numbers = [f"{name} {x:.4g}" for name, x in values.items() if name not in ("epoch", "step", "seconds")]
        tqdm.write(f"epoch {trainer.epoch}: {', '.join(numbers)} ({values['seconds']:.1f} s)")

    def on_end(self, trainer: Trainer) -> None:
        """Take the bar away."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
