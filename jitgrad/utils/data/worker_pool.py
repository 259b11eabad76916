"""The processes that load for a `DataLoader`, seen from the main process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from jitgrad.ir.errors import OperationError

from ...errors import located
from .fetch import Fetcher
from .transport import receive, send
from .worker import End, Epoch, Failure, Setup, Task, run

_GRACE = 5.0  # seconds that a worker has to stop of its own accord


class WorkerPool:
    """`num_workers` processes, each with a copy of the dataset, that are given batches to load in turn.

    Processes end with the pool, which ends when nobody holds it: at the end of an epoch, or with the loader if workers
    are persistent. They also end when the main process dies.
    """

    def __init__(self, fetcher: Fetcher, num_workers: int, init: Any, context: Any) -> None:
        context = _context(context)
        self.processes: list[Any] = []
        self.pipes: list[connection.Connection] = []
        self._end = weakref.finalize(self, _stop, os.getpid(), self.processes, self.pipes)
        for i in range(num_workers):
            mine, theirs = context.Pipe(duplex=True)
            process = context.Process(
                target=run, args=(Setup(i, num_workers, fetcher, init), theirs), daemon=True,
                name=f"DataLoader worker {i}",
            )  # fmt: skip
            with warnings.catch_warnings():
                # Python 3.12 warns of forks of a process with threads; those here hold no lock that workers take.
                warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
                process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(mine)

    def __len__(self) -> int:
        return len(self.processes)

    @property
    def is_open(self) -> bool:
        """Whether the processes are there."""
        return self._end.alive

    def begin(self, seed: int) -> None:
        """Start an epoch."""
        for i in range(len(self)):
            self.send(i, Epoch(seed))

    def send(self, worker: int, message: Any) -> None:
        """Send a message to a worker."""
        try:
            send(self.pipes[worker], message)
        except (BrokenPipeError, ConnectionError):
            raise self._died(worker) from None

    def receive(self, awaited: set[int], timeout: float) -> list[tuple[int, Any]]:
        """What the `awaited` workers have sent, as soon as there is something: pairs of worker and message."""
        by_handle: dict[Any, int] = {}
        for i in awaited:
            by_handle[self.pipes[i]] = by_handle[self.processes[i].sentinel] = i
        ready = connection.wait(list(by_handle), timeout or None)
        if not ready:
            raise located(OperationError(f"DataLoader timed out after {timeout} seconds"))
        messages = []
        for i in sorted({by_handle[handle] for handle in ready}):
            if self.pipes[i] not in ready and not self.pipes[i].poll():
                raise self._died(i)
            try:
                messages.append((i, receive(self.pipes[i])))
            except (EOFError, OSError):
                raise self._died(i) from None
        return messages

    def _died(self, worker: int) -> Exception:
        process = self.processes[worker]
        process.join(_GRACE)
        code, pid = process.exitcode, process.pid
        if code is not None and code < 0:
            how = f"is killed by signal: {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += ", perhaps by the system for lack of memory"
        else:
            how = f"exited unexpectedly with exit code {code}"
        self.close()
        return located(OperationError(f"DataLoader worker {worker} (pid {pid}) {how}"))

    def close(self) -> None:
        """Stop the processes."""
        self._end()


def _context(given: Any) -> Any:
    return multiprocessing.get_context(given) if given is None or isinstance(given, str) else given


def _stop(owner: int, processes: list[Any], pipes: list[connection.Connection]) -> None:
    """Ask the processes to stop, then make them. In a process forked from the owner, only let go of its copies."""
    if os.getpid() != owner:
        for pipe in pipes:
            pipe.close()
        return
    for pipe in pipes:
        with suppress(OSError):  # it is gone already
            send(pipe, None)
        pipe.close()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


class Pass:
    """One pass over the data, with batches loaded ahead by a pool.

    `tasks` says what is in each batch, for a dataset with numbered items; None for one that is gone through.
    """

    def __init__(
        self, pool: WorkerPool, tasks: Iterator[Any] | None, seed: int, ahead: int, timeout: float, in_order: bool
    ) -> None:
        self._pool = pool
        self._tasks = tasks
        self._timeout = timeout
        self._in_order = in_order
        self._sent = self._given = self._turn = 0
        self._owed: dict[int, int] = {}  # of each batch that was asked for, the worker
        self._loaded: dict[int, Any] = {}
        self._ended: set[int] = set()  # workers that have no more
        pool.begin(seed)
        for _ in range(ahead * len(pool)):
            self._ask()

    def _ask(self) -> None:
        """Give the next worker the next batch to load."""
        if len(self._ended) == len(self._pool):
            return
        task = Task(self._sent)
        if self._tasks is not None:
            indices = next(self._tasks, End)
            if indices is End:
                return
            task = Task(self._sent, indices)
        worker = self._turn % len(self._pool)
        while worker in self._ended:
            worker = (worker + 1) % len(self._pool)
        self._turn = worker + 1
        self._pool.send(worker, task)
        self._owed[self._sent] = worker
        self._sent += 1

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        while self._loaded or self._owed:
            number = self._given if self._in_order else next(iter(self._loaded), None)
            if number not in self._loaded:
                self._collect()
                continue
            batch = self._loaded.pop(number)
            self._given += 1
            if isinstance(batch, Failure):
                raise batch.exception()
            if batch is not End:
                return batch
        raise StopIteration

    def _collect(self) -> None:
        """Take in what has arrived, and ask for as much again."""
        for worker, (number, batch) in self._pool.receive(set(self._owed.values()), self._timeout):
            del self._owed[number]
            self._loaded[number] = batch
            if batch is End:
                self._ended.add(worker)
            self._ask()

    def finish(self) -> None:
        """Let what was asked for arrive, so that the pool can begin another pass."""
        while self._owed:
            for _, (number, _batch) in self._pool.receive(set(self._owed.values()), self._timeout):
                del self._owed[number]
        self._loaded.clear()
