"""What a process that loads for a `DataLoader` knows about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows about itself: its number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Process:
    """The worker that this process is, if it is one."""

    info: WorkerInfo | None = None
    was_asked = False
    allocate: Callable[..., Any] = np.empty  # where batches are put together; a worker has memory that others can map


this_process = _Process()


def get_worker_info() -> WorkerInfo | None:
    """This worker's `id`, `num_workers`, `seed` and `dataset`; None in the main process.

    An `IterableDataset` whose `__iter__` asks for it is expected to give each worker a share of its own; items of one
    that does not are dealt out to the workers by the loader.
    """
    this_process.was_asked = True
    return this_process.info
