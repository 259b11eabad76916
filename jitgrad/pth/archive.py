"""Where a file keeps the pickle and the memory of each storage: a zip archive, or the older stream."""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from .errors import PthError
from .machine import DAMAGE

Bytes = np.ndarray[Any, Any]

ZIP = b"PK\x03\x04"
_MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the older stream begins with this number, pickled
_LOCAL_HEADER = struct.Struct("<26xHH")  # of an archive's entry: the lengths of its name and of what is extra
_ZIP_DAMAGE = (*DAMAGE, zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, struct.error)


def is_archive(head: bytes) -> bool:
    """Whether a file that begins so is a zip archive."""
    return head.startswith(ZIP)


def is_stream(head: bytes) -> bool:
    """Whether a file that begins so is an older file of PyTorch's."""
    return head.startswith(_MAGIC)


class Archive:
    """A zip archive as `torch.save` makes it: `name/data.pkl`, and `name/data/0` and so on.

    If it is mapped, memory is read when it is used, and writing to it does not change the file.
    """

    def __init__(self, file: BinaryIO, is_mapped: bool = False) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
            self._entries = {info.filename: info for info in self._zip.infolist()}
        except _ZIP_DAMAGE as error:
            raise PthError(f"load: the zip archive is damaged: {error}") from error
        found = [name for name in self._entries if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(found) != 1:
            raise PthError("load: the zip archive holds no tensors: there is no data.pkl in it")
        self._folder = found[0].removesuffix("data.pkl")
        if self._folder + "constants.pkl" in self._entries:
            raise PthError("load: this is a TorchScript program, whose code is not read; save its state_dict()")
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if is_mapped else None
        order = self._read("byteorder") if self._folder + "byteorder" in self._entries else b"little"
        self.is_swapped = order.strip() == b"big"

    def pickle(self) -> BinaryIO:
        """The pickle."""
        return io.BytesIO(self._read("data.pkl"))

    def _read(self, name: str) -> bytes:
        return self._bytes(name, self._entries[self._folder + name].file_size).tobytes()

    def memory(self, key: str, size: int) -> Bytes:
        """The first `size` bytes of a storage, as an array that may be written to."""
        info = self._entries.get(f"{self._folder}data/{key}")
        if info is None or info.file_size < size:
            has = "is not there" if info is None else f"has {info.file_size}"
            raise PthError(f"load: the file is damaged: storage {key!r} should have {size} bytes, and {has}")
        return self._bytes(f"data/{key}", size)

    def _bytes(self, name: str, size: int) -> Bytes:
        info = self._entries[self._folder + name]
        try:
            if info.compress_type != zipfile.ZIP_STORED:
                return np.frombuffer(bytearray(self._zip.read(info)), np.uint8)[:size]
            found = self._stored(info)
        except _ZIP_DAMAGE as error:
            raise PthError(f"load: the file is damaged at {info.filename}: {error}") from error
        if self._map is None and info.CRC not in (0, zlib.crc32(found.data)):  # PyTorch may leave it out: 0
            raise PthError(f"load: the file is damaged: the checksum of {info.filename} is another")
        return found[:size]

    def _stored(self, info: zipfile.ZipInfo) -> Bytes:
        """The whole of an entry that is not compressed."""
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL_HEADER.size)
        if not header.startswith(ZIP):
            raise ValueError("its header is missing")
        name, extra = _LOCAL_HEADER.unpack(header)
        start = info.header_offset + _LOCAL_HEADER.size + name + extra
        end = start + info.file_size
        if end > self._file.seek(0, io.SEEK_END):
            raise ValueError("it goes beyond the end")
        if self._map is not None and info.file_size:
            return np.frombuffer(self._map, np.uint8, info.file_size, start)
        return read_bytes(self._file, start, info.file_size)


def read_bytes(file: BinaryIO, start: int, size: int) -> Bytes:
    """`size` bytes of a file from `start` on, which must be there."""
    made = np.empty(size, np.uint8)
    file.seek(start)
    if size and file.readinto(made.data) != size:  # type: ignore[attr-defined]
        raise PthError(f"load: the file is damaged: it ends before byte {start + size}")
    return made


class Stream:
    """The older format: pickles one after the other (the object is the fourth), and then the storages."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, io.SEEK_END)
        file.seek(0)

    def storages(self, keys: list[str], item_sizes: dict[str, int]) -> Iterator[tuple[str, Bytes]]:
        """Key and memory of each storage, which lie from the file's position on: a count of elements, and they."""
        for key in keys:
            head = self.file.read(8)
            if len(head) != 8 or key not in item_sizes:
                raise PthError(f"load: the file is damaged at the storage {key!r}")
            size = int.from_bytes(head, "little", signed=True) * item_sizes[key]
            start = self.file.tell()
            if not 0 <= size <= self.size - start:
                raise PthError(f"load: the file is damaged: storage {key!r} should have {size} bytes")
            yield key, read_bytes(self.file, start, size)
