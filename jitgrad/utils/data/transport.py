"""How batches travel between processes: a pickle through a socket, large arrays in memory that both map.

A worker puts its batches together in such memory at once; other large arrays are copied there on their way.

The memory has no name (a file without a directory entry, whose descriptor travels through the socket), so that
whatever happens to either process, the system frees it.
"""

from __future__ import annotations

import math
import mmap
import os
import pickle
import sys
import tempfile
import weakref
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

_SMALL = 1 << 14  # bytes; below, a copy through the socket costs less than a mapping
_ALIGNMENT = 64
_MAPS = sys.platform != "win32"
_IN_MEMORY = Path("/dev/shm")
# Pages all at once, and not one by one as they are touched, where the system can.
_FLAGS = {"flags": mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)} if _MAPS else {}


class SharedArrays:
    """Arrays of a worker in memory that another process can map, so that `send` need not copy them."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[int, int]] = {}  # by address: size and descriptor

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """An array without content; a small one in ordinary memory."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < _SMALL or not _MAPS:
            return np.empty(shape, dtype)
        file = _anonymous_file(size)
        array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, buffer=mmap.mmap(file, size, **_FLAGS))
        address = array.__array_interface__["data"][0]
        self._files[address] = size, file
        weakref.finalize(array, self._close, address)
        return array

    def file_of(self, buffer: memoryview) -> int | None:
        """The descriptor of the memory that a buffer is all of, if it is one of these."""
        size, file = self._files.get(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0], (0, 0))
        return file if size == buffer.nbytes else None

    def _close(self, address: int) -> None:
        os.close(self._files.pop(address)[1])


shared_arrays = SharedArrays()


def send(connection: Connection, message: Any) -> None:
    """Send an object; the other process gets its arrays without copying them again."""
    buffers: list[memoryview] = []

    def keep_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALL or not _MAPS:
            return True
        buffers.append(raw)
        return False

    data = pickle.dumps(message, protocol=5, buffer_callback=keep_in_pickle)
    files = [shared_arrays.file_of(buffer) for buffer in buffers]
    copied = [buffer for buffer, file in zip(buffers, files, strict=True) if file is None]
    places, start, own = [], 0, 1 if copied else 0  # of each buffer: which file, where in it, how long
    for buffer, file in zip(buffers, files, strict=True):
        places.append((0, start, buffer.nbytes) if file is None else (own, 0, buffer.nbytes))
        start, own = (start + _aligned(buffer.nbytes), own) if file is None else (start, own + 1)
    connection.send_bytes(pickle.dumps(places))
    connection.send_bytes(data)
    if copied:
        _send_copies(connection, copied)
    for file in files:
        if file is not None:
            reduction.send_handle(connection, file, 0)


def _send_copies(connection: Connection, buffers: list[memoryview]) -> None:
    """Send a file that has the buffers one after the other."""
    file = _anonymous_file(sum(_aligned(buffer.nbytes) for buffer in buffers))
    try:
        with mmap.mmap(file, 0, **_FLAGS) as memory:
            start = 0
            for buffer in buffers:
                memory[start : start + buffer.nbytes] = buffer
                start += _aligned(buffer.nbytes)
        reduction.send_handle(connection, file, 0)
    finally:
        os.close(file)


def receive(connection: Connection) -> Any:
    """The object that `send` sent; raises `EOFError` if the other process is gone."""
    places = pickle.loads(connection.recv_bytes())
    data = connection.recv_bytes()
    if not places:
        return pickle.loads(data)
    files = [_mapped(connection) for _ in range(1 + max(number for number, _, _ in places))]
    return pickle.loads(data, buffers=[memoryview(files[n])[start : start + size] for n, start, size in places])


def _mapped(connection: Connection) -> mmap.mmap:
    """The memory whose file comes next."""
    file = reduction.recv_handle(connection)
    try:
        return mmap.mmap(file, 0)
    finally:
        os.close(file)


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
