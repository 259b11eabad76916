"""Threads for kernels: how many to use, and the native function that shares a loop out among them.

The pool is Numba's TBB layer, entered from emitted code. It may be used from several Python threads at once and
survives fork. Where TBB is missing it is Numba's simple pool, for one caller at a time and not after fork: whoever
does not get it runs on the calling thread.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Any, Final

from jitgrad.ir.config import config

_LIBRARIES: Final = {"linux": "libtbb.so.12", "darwin": "libtbb.12.dylib", "win32": "tbb12.dll"}


def available_cores() -> int:
    """Cores this process may use: by affinity, and by the quota of its control group."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, cores if quota is None else min(cores, int(quota)))


def _cgroup_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores by the control group's quota, versions 2 and 1; `None` without one."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") or int(period) <= 0 else max(1.0, int(quota) / int(period))


class Pool:
    """The process's pool. `parallel_for` is the address of its entry, 0 where there is none (any more).

    `lock` is to be held, without waiting for it, by whoever uses a pool that serves one caller at a time; those who
    don't get it run their loops themselves. `None` for TBB's.

    Native code that asks for threads by itself reads their number and the entry at each call: see `team`.
    """

    def __init__(self) -> None:
        self.lock: threading.Lock | None = None
        self._starting = threading.Lock()
        self._threads = 0
        self._entry: int | None = None
        self._loaded: list[Any] = []
        self._team, self._alone = (ctypes.c_int64 * 2)(1, 0), (ctypes.c_int64 * 2)(1, 0)

    @property
    def num_threads(self) -> int:
        """Threads that a kernel may use."""
        if self._threads == 0:
            self._threads = config.num_threads or available_cores()
        return self._threads

    @num_threads.setter
    def num_threads(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"the number of threads must be at least 1, not {count}")
        self._threads = count
        self._publish()

    @property
    def parallel_for(self) -> int:
        """The address of the native function; the pool is started with the first use."""
        if self._entry is None:
            with self._starting:
                if self._entry is None:
                    self._entry = self._start()
                    self._publish()
        return self._entry

    def team(self, is_shared: bool) -> int:
        """The address of two cells: the threads that a call may use, and the entry. One thread if it shares nothing.

        One, too, where the pool serves one caller at a time.
        """
        if is_shared and self.parallel_for:
            return ctypes.addressof(self._team)
        return ctypes.addressof(self._alone)

    def _publish(self) -> None:
        entry = self._entry if self.lock is None else 0
        self._team[:] = [self.num_threads, entry] if entry else [1, 0]

    def _start(self) -> int:
        library = _load_tbb()
        layer = None if library is None else _layer("tbbpool")
        if layer is None:
            layer = _layer("workqueue")
            self.lock = threading.Lock()
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._abandon)
        if layer is None:
            return 0
        self._loaded += [library, layer]
        ctypes.CFUNCTYPE(None, ctypes.c_int)(layer.launch_threads)(max(self.num_threads, available_cores()))
        return int(layer.parallel_for)

    def _abandon(self) -> None:
        """After fork: the threads of the simple pool stayed behind."""
        self._entry, self.lock = 0, None
        self._publish()


def _layer(name: str) -> Any:
    """One of Numba's threading layers, if this installation has it.

    It is loaded from its file, because importing Numba takes longer than most compilations.
    """
    full, numba = f"numba.np.ufunc.{name}", importlib.util.find_spec("numba")
    if full in sys.modules:
        return sys.modules[full]
    for folder in [] if numba is None else numba.submodule_search_locations or []:
        for suffix in EXTENSION_SUFFIXES:
            path = Path(folder, "np", "ufunc", name + suffix)
            spec = importlib.util.spec_from_file_location(full, path) if path.exists() else None
            if spec is not None and spec.loader is not None:
                return _executed(spec)
    return None


def _executed(spec: ModuleSpec) -> Any:
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except ImportError:
        return None
    return module


def _load_tbb() -> ctypes.CDLL | None:
    """TBB, with its symbols visible to Numba's layer: the `tbb` wheel's, or the system's."""
    name = _LIBRARIES.get(sys.platform)
    if name is None:
        return None
    for path in _places(name):
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def _places(name: str) -> Iterator[str]:
    """Where a library may be: where the wheel puts it, where its list of files says, where the system looks."""
    yield os.path.join(sys.prefix, "lib", name)
    import importlib.metadata  # takes longer than all the rest, and is hardly ever needed

    try:
        files = importlib.metadata.files("tbb") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    yield from [str(f.locate()) for f in files if f.name == name]
    yield name


pool: Final = Pool()


def get_num_threads() -> int:
    """How many threads kernels use."""
    return pool.num_threads


def set_num_threads(count: int) -> None:
    """Use `count` threads from now on, in this process. Results do not depend on it."""
    pool.num_threads = count
