"""Object code of several modules, made by threads while the caller emits the next one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from . import target

_SWITCH_SECONDS: Final = 2e-4


@dataclass(slots=True)
class _Switching:
    """How many ask for Python's lock to be passed on soon, and how soon it was before."""

    asking: int = 0
    before: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


_SWITCHING: Final = _Switching()


def _forked() -> None:
    """A child has none of the threads that have asked."""
    if _SWITCHING.asking:
        sys.setswitchinterval(_SWITCHING.before)
    _SWITCHING.asking = 0
    _SWITCHING.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_SWITCHING.lock.acquire, after_in_parent=_SWITCHING.lock.release, after_in_child=_forked)


@contextmanager
def soon_switched() -> Iterator[None]:
    """Inside, threads that wait for Python's lock soon get their turn.

    Those that compile come back from LLVM a dozen times for each module, and waited for 5 ms each time while the caller
    ran Python.
    """
    with _SWITCHING.lock:
        if not _SWITCHING.asking:
            _SWITCHING.before = sys.getswitchinterval()
            sys.setswitchinterval(min(_SWITCHING.before, _SWITCH_SECONDS))
        _SWITCHING.asking += 1
    try:
        yield
    finally:
        with _SWITCHING.lock:
            _SWITCHING.asking = max(0, _SWITCHING.asking - 1)
            if not _SWITCHING.asking:
                sys.setswitchinterval(_SWITCHING.before)


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
                busy.append(threading.Thread(target=self._work))  # no daemon: it may be in LLVM when Python ends
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
        with soon_switched():
            while (job := self._next()) is not None:
                job.run()

    def _next(self) -> _Job | None:
        with self._lock:
            if not self._waiting:
                return None
            longest = max(self._waiting, key=lambda job: len(job.text))
            self._waiting.remove(longest)
            return longest
