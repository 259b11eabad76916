"""Object code of several modules, made by threads while the caller emits the next one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from . import target


@dataclass(slots=True)
class _Job:
    name: str
    text: str
    code: bytes = b""
    error: BaseException | None = None
    thread: threading.Thread | None = None


@dataclass(slots=True)
class CodeMaker:
    """Takes modules as they are emitted; `finish` gives their object code, in the order they came.

    LLVM works without Python's lock, so that one module is compiled while the next is emitted, and several at once.
    A single module, or any with one thread, is compiled by the caller.
    """

    num_threads: int
    _jobs: list[_Job] = field(default_factory=list)
    _free: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = threading.Semaphore(self.num_threads)

    @property
    def names(self) -> list[str]:
        """Those of the modules so far."""
        return [job.name for job in self._jobs]

    def add(self, name: str, text: str, at_once: bool = False) -> None:
        """Have the module of this text compiled, if not now, then later; `at_once` where the caller has more to do."""
        self._jobs.append(_Job(name, text))
        if self.num_threads > 1 and (at_once or len(self._jobs) > 1):
            for job in self._jobs:
                self._start(job)

    def finish(self) -> list[tuple[str, bytes]]:
        """The name and the object code of each module.

        Behind several modules, compiled by several threads, tens of megabytes are free that nobody else would use.
        """
        for job in self._jobs:
            if job.thread is None:
                job.code = target.object_code(job.text)
            else:
                job.thread.join()
            if job.error is not None:
                raise job.error
        found = [(job.name, job.code) for job in self._jobs]
        self._jobs.clear()
        if len(found) > 1:
            target.give_back_memory()
        return found

    def _start(self, job: _Job) -> None:
        if job.thread is None:
            job.thread = threading.Thread(target=self._run, args=(job,), daemon=True)
            job.thread.start()

    def _run(self, job: _Job) -> None:
        with self._free:
            try:
                job.code = target.object_code(job.text)
            except BaseException as error:
                job.error = error
