"""A worker process of a loader: what it does, and what it tells of a failure."""

from __future__ import annotations

import gc
import pickle
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from multiprocessing import connection, parent_process
from typing import Any

import numpy as np

from jitgrad.ir.config import config

from ...mode import local
from ...random import manual_seed
from .fetch import Fetcher
from .transport import receive, send, shared_arrays
from .worker_info import WorkerInfo, this_process


@dataclass(frozen=True)
class Failure:
    """An exception on its way to the main process: its type and value where they can be pickled, and always as text."""

    pickled: bytes | None
    type_name: str
    text: str
    worker: int

    @classmethod
    def of(cls, error: BaseException, worker: int) -> Failure:
        """The exception being handled."""
        text = "".join(traceback.format_exception(error))
        try:
            pickled = pickle.dumps((type(error), error))
            pickle.loads(pickled)
        except Exception:
            try:
                pickled = pickle.dumps((type(error), None))
                pickle.loads(pickled)
            except Exception:
                pickled = None
        return cls(pickled, type(error).__name__, text, worker)

    def exception(self) -> BaseException:
        """An exception of the same type, whose message has the worker's traceback; the original is its cause."""
        message = f"Caught {self.type_name} in DataLoader worker process {self.worker}.\nOriginal {self.text}"
        kind, original = (RuntimeError, None) if self.pickled is None else pickle.loads(self.pickled)
        try:
            error: BaseException = _KeyErrorWithMessage(message) if kind is KeyError else kind(message)
        except Exception:  # its constructor wants other arguments
            error = RuntimeError(message)
        error.__cause__ = original
        return error


class _KeyErrorWithMessage(KeyError):
    """A `KeyError` that shows its message as it is, and not its `repr`."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Epoch:
    """The start of an epoch: how to seed, and for an `IterableDataset` that it begins anew."""

    seed: int


@dataclass(frozen=True)
class Task:
    """A batch to load: its number, and what a sampler says is in it (nothing for an `IterableDataset`)."""

    number: int
    indices: Any = None


class End:
    """An `IterableDataset` has no more batches for this worker."""


@dataclass(frozen=True)
class Setup:
    """What a worker is started with."""

    id: int
    num_workers: int
    fetcher: Fetcher
    init: Callable[[int], None] | None


def run(setup: Setup, pipe: connection.Connection) -> None:
    """The main function of a worker: load what is asked for until the pipe says stop or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process stops its workers itself
    config.num_threads = 1
    if "jitgrad.codegen.cpu.threads" in sys.modules:  # forked from a process that has used it
        sys.modules["jitgrad.codegen.cpu.threads"].set_num_threads(1)
    local.mode.tracer = None
    this_process.allocate = shared_arrays.allocate
    gc.freeze()  # what was forked is the parent's: looking through it for garbage takes long, and copies its pages
    parent = parent_process()
    watched: list[Any] = [pipe] if parent is None else [pipe, parent.sentinel]
    worker = _Loading(setup)
    try:
        while pipe in connection.wait(watched):
            message = receive(pipe)
            if message is None:
                return
            if isinstance(message, Epoch):
                worker.begin(message)
            else:
                worker.answer(message, pipe)
    except (EOFError, ConnectionError):
        return


class _Loading:
    """The state of a worker within an epoch."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.failure: Failure | None = None
        self.batches: Iterator[Any] | None = None
        self.is_started = False

    def begin(self, epoch: Epoch) -> None:
        """Seed everything, and start the dataset's iterator."""
        setup, seed = self.setup, epoch.seed + self.setup.id
        random.seed(seed)
        manual_seed(seed)
        np.random.seed(np.random.SeedSequence([seed]).generate_state(4))
        this_process.info = WorkerInfo(setup.id, setup.num_workers, seed, setup.fetcher.dataset)
        self.failure = None
        try:
            if setup.init is not None and not self.is_started:
                setup.init(setup.id)
            self.is_started = True
            if setup.fetcher.is_iterable:
                this_process.was_asked = False
                self.batches = self._share()
        except Exception as error:
            self.failure = Failure.of(error, setup.id)

    def _share(self) -> Iterator[Any]:
        """This worker's batches of a stream: every `num_workers`th, unless the dataset shares them out itself."""
        groups = self.setup.fetcher.groups()
        first = next(groups, None)  # the dataset's `__iter__` has run now
        if first is None:
            return
        if this_process.was_asked:
            yield self.setup.fetcher.collate(first)
            yield from map(self.setup.fetcher.collate, groups)
            return
        for number, group in enumerate(chain([first], groups)):
            if number % self.setup.num_workers == self.setup.id:
                yield self.setup.fetcher.collate(group)

    def answer(self, task: Task, pipe: connection.Connection) -> None:
        """Load a batch and send it, or what went wrong."""
        try:
            if self.failure is not None:
                batch: Any = self.failure
            elif self.batches is not None:
                batch = next(self.batches, End)
            else:
                batch = self.setup.fetcher.fetch(task.indices)
            send(pipe, (task.number, batch))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            send(pipe, (task.number, Failure.of(error, self.setup.id)))
