"""Compiled code on disk: one file per entry, named by content, safe with several processes and after crashes.

An entry is written under a temporary name and renamed, and carries a checksum that is verified when it is read; a
damaged one is as good as absent. When the folder outgrows its bound, the entries used longest ago go first. A
folder that cannot be written, or read, costs nothing but the reuse.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jitgrad.ir.config import config

MAGIC: Final = b"jitgrad-object-1\n"
_DIGEST: Final = hashlib.sha256().digest_size
_SUFFIX: Final = ".jgc"


@dataclass(slots=True)
class Counters:
    """How kernels came about in this process."""

    compiled: int = 0
    memory_hits: int = 0
    disk_hits: int = 0

    @property
    def total(self) -> int:
        """All requests."""
        return self.compiled + self.memory_hits + self.disk_hits


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry on disk. `used` is when it was last read or written, in seconds since 1970."""

    name: str
    nbytes: int
    used: float


@dataclass(slots=True)
class DiskCache:
    """Entries in `folder`, together of at most `limit` bytes; without a folder nothing is kept.

    >>> import tempfile
    >>> cache = DiskCache(Path(tempfile.mkdtemp()), 1 << 20)
    >>> cache.write("key", b"code")
    >>> cache.read("key")
    b'code'
    """

    folder: Path | None
    limit: int
    _written: int = field(default=0, init=False)

    def read(self, name: str) -> bytes | None:
        """The content of entry `name`; `None` if there is none, or a damaged one."""
        if self.folder is None:
            return None
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = data[len(MAGIC) + _DIGEST :]
        if not data.startswith(MAGIC) or data[len(MAGIC) : len(MAGIC) + _DIGEST] != hashlib.sha256(content).digest():
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # marks it used, as access times are often not kept
        return content

    def write(self, name: str, content: bytes) -> None:
        """Keep `content` as entry `name`, in place of what was there."""
        if self.folder is None or len(content) > self.limit:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=f"{name[:16]}.", suffix=".tmp")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(temporary, self._path(name))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return
        self._written += len(content)
        if self._written >= self.limit // 16:
            self._written = 0
            self.shrink()

    def shrink(self) -> None:
        """Remove the entries used longest ago until the rest fit the bound."""
        if self.folder is None:
            return
        entries: list[tuple[float, int, str]] = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as scan:
            for entry in scan:
                if entry.name.endswith((_SUFFIX, ".tmp")):
                    with contextlib.suppress(OSError):
                        status = entry.stat()
                        entries.append((status.st_mtime, status.st_size, entry.path))
        excess = sum(size for _, size, _ in entries) - self.limit
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            excess -= size

    def entries(self) -> list[Entry]:
        """What is there, in order of last use."""
        found: list[Entry] = []
        if self.folder is None:
            return found
        with contextlib.suppress(OSError), os.scandir(self.folder) as scan:
            for file in scan:
                if file.name.endswith(_SUFFIX):
                    with contextlib.suppress(OSError):
                        status = file.stat()
                        found.append(Entry(file.name.removesuffix(_SUFFIX), status.st_size, status.st_mtime))
        return sorted(found, key=lambda e: e.used)

    def clear(self) -> list[Entry]:
        """Remove all entries; those that are gone now."""
        found = self.entries()
        for entry in found:
            with contextlib.suppress(OSError):
                os.unlink(self._path(entry.name))
        left = {e.name for e in self.entries()}
        return [e for e in found if e.name not in left]

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / (name + _SUFFIX)


def disk_cache() -> DiskCache:
    """The cache that the configuration names; one object per folder and bound."""
    folder = config.cache_dir
    return _cache_of(None if folder is None else Path(folder), config.cache_mb << 20)


@functools.cache
def _cache_of(folder: Path | None, limit: int) -> DiskCache:
    return DiskCache(folder, limit)


@functools.cache
def source_stamp() -> str:
    """Size and time of each source file that code generation depends on, as Python's cache of bytecode has them."""
    root = Path(__file__).resolve().parent.parent
    walks = [walk for part in ("ir", "codegen") for walk in os.walk(root / part)]
    files = sorted(os.path.join(folder, name) for folder, _, names in walks for name in names if name.endswith(".py"))
    found = [(file, status.st_size, status.st_mtime_ns) for file in files for status in [os.stat(file)]]
    return hashlib.sha256(repr(found).encode()).hexdigest()


COUNTERS: Final = Counters()
