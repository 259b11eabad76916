"""A training to interrupt: run as a script, it trains until it is done or killed, and goes on when run again."""

import os
import signal
import sys
from pathlib import Path

import numpy as np

import jitgrad as jg
from jitgrad import nn
from jitgrad.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Images whose augmentation draws from each of the random streams."""

    def __init__(self, size=44):
        rng = np.random.default_rng(0)
        self.images = rng.normal(size=(size, 1, 6, 6)).astype(np.float32)
        self.labels = (self.images.mean((1, 2, 3)) > 0).astype(np.int64)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        noise = np.random.normal(size=(1, 6, 6)).astype(np.float32) * 0.1
        return jg.tensor(self.images[i] + noise) + 0.1 * jg.rand(1, 6, 6), int(self.labels[i])


def make_trainer(folder, compiled=True, callbacks=(), **options):
    """A trainer with all that has a state: batch statistics, dropout, moments, a schedule, early stopping."""
    jg.manual_seed(1)
    np.random.seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(144, 2)
    )
    optimizer = jg.optim.AdamW(model.parameters(), lr=1e-2)
    return jg.train.Trainer(
        model, nn.CrossEntropyLoss(), optimizer, jg.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30),
        scheduler_every="step", metrics={"accuracy": jg.train.accuracy}, clip_norm=1.0, compile=compiled,
        callbacks=[jg.train.EarlyStopping(patience=50, restore_best=True), *callbacks],
        checkpoint=Path(folder) / "last.safetensors", progress=False, **options,
    )  # fmt: skip


def make_loaders(num_workers=0, own_generator=True):
    """Training in random order with a last batch that is smaller, and validation."""
    generator = jg.Generator().manual_seed(5) if own_generator else None
    data = Noisy()
    return (
        DataLoader(data, 8, shuffle=True, num_workers=num_workers, generator=generator),
        DataLoader(data, 16, num_workers=0),
    )


class KillAt(jg.train.Callback):
    """Kills this process before a step's checkpoint, or within it when half of the file is written."""

    def __init__(self, step, within_write):
        self.step, self.within_write = step, within_write

    def on_step_end(self, trainer, values):
        if trainer.step == self.step:
            if self.within_write:
                os.fsync = self._cut_and_kill
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    def _cut_and_kill(self, descriptor):
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder, kill_at, within_write):
    """Train; the end's state goes to a file."""
    trainer = make_trainer(folder, callbacks=[KillAt(kill_at, within_write)], checkpoint_every=2)
    trainer.fit(*make_loaders(), epochs=3, resume=True)
    jg.save({"model": dict(trainer.model.state_dict()), "history": trainer.history.state_dict()}, f"{folder}/end")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "write")
