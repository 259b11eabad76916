"""Object code of several modules, made by threads while the caller emits the next one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from . import target

_SWITCH_SECONDS: Final = 2e-4


@contextmanager
def soon_switched() -> Iterator[None]:
    """Inside, threads that wait for Python's lock soon get their turn. One thread at a time may be in here.

    Those that compile come back from LLVM a dozen times for each module, and waited for 5 ms each time while the caller
    ran Python.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@dataclass(slots=True)
class _Job:
    name: str
    text: str
    code: bytes = b""
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.code = target.object_code(self.text)
        except BaseException as error:
            self.error = error


@dataclass(slots=True)
class CodeMaker:
    """Takes modules as they are emitted; `finish` gives their object code, in the order they came.

    LLVM works without Python's lock, so that one module is compiled while the next is emitted, and several at once.
    The caller is one of `num_threads`: others start on what it leaves them, and it joins them when it has no more to
    add. A single module is its own, unless it says that it has more to do.
    """

    num_threads: int
    _jobs: list[_Job] = field(default_factory=list)
    _waiting: list[_Job] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def names(self) -> list[str]:
        """Those of the modules so far."""
        return [job.name for job in self._jobs]

    def add(self, name: str, text: str, at_once: bool = False) -> None:
        """Have the module of this text compiled, if not now, then later; `at_once` where the caller has more to do."""
        job = _Job(name, text)
        self._jobs.append(job)
        with self._lock:
            self._waiting.append(job)
            busy = [thread for thread in self._threads if thread.is_alive()]
            if (at_once or len(self._jobs) > 1) and len(busy) < min(self.num_threads - 1, len(self._waiting)):
                busy.append(threading.Thread(target=self._work, daemon=True))
                busy[-1].start()
            self._threads = busy

    def finish(self) -> list[tuple[str, bytes]]:
        """The name and the object code of each module.

        Behind several modules, compiled by several threads, tens of megabytes are free that nobody else would use.
        """
        self._work()
        for thread in self._threads:
            thread.join()
        for job in self._jobs:
            if job.error is not None:
                raise job.error
        found = [(job.name, job.code) for job in self._jobs]
        self._jobs.clear()
        if len(found) > 1:
            target.give_back_memory()
        return found

    def _work(self) -> None:
        """Compile what waits, the longest first, so that threads end at about the same time."""
        while (job := self._next()) is not None:
            job.run()

    def _next(self) -> _Job | None:
        with self._lock:
            if not self._waiting:
                return None
            longest = max(self._waiting, key=lambda job: len(job.text))
            self._waiting.remove(longest)
            return longest
