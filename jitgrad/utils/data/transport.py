"""How batches travel between processes: a pickle through a socket, large arrays in memory that both map.

The memory has no name (a file without a directory entry, whose descriptor travels through the socket), so that
whatever happens to either process, the system frees it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import tempfile
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_SMALL = 1 << 14  # bytes; below, a copy through the socket costs less than a mapping
_ALIGNMENT = 64
_MAPS = sys.platform != "win32"
_IN_MEMORY = Path("/dev/shm")


def send(connection: Connection, message: Any) -> None:
    """Send an object; the other process gets its arrays without copying them again."""
    buffers: list[pickle.PickleBuffer] = []

    def keep_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALL or not _MAPS:
            return True
        buffers.append(buffer)
        return False

    data = pickle.dumps(message, protocol=5, buffer_callback=keep_in_pickle)
    sizes = [buffer.raw().nbytes for buffer in buffers]
    connection.send_bytes(pickle.dumps(sizes))
    connection.send_bytes(data)
    if not buffers:
        return
    file = _anonymous_file(sum(map(_aligned, sizes)))
    try:
        with mmap.mmap(file, 0) as memory:
            start = 0
            for buffer, size in zip(buffers, sizes, strict=True):
                memory[start : start + size] = buffer.raw()
                start += _aligned(size)
        reduction.send_handle(connection, file, 0)
    finally:
        os.close(file)


def receive(connection: Connection) -> Any:
    """The object that `send` sent; raises `EOFError` if the other process is gone."""
    sizes = pickle.loads(connection.recv_bytes())
    data = connection.recv_bytes()
    if not sizes:
        return pickle.loads(data)
    file = reduction.recv_handle(connection)
    try:
        memory = mmap.mmap(file, 0)
    finally:
        os.close(file)
    views, start = [], 0
    for size in sizes:
        views.append(memoryview(memory)[start : start + size])
        start += _aligned(size)
    return pickle.loads(data, buffers=views)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _anonymous_file(size: int) -> int:
    """The descriptor of a file in memory that no directory lists."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("jitgrad-batch", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, size)
    return file
