"""Tensors as a safetensors section: written as a stream, opened by mapping the file into memory.

The section is a whole safetensors file: eight bytes that give the length of a JSON header, the header, the data. It is
written and read here, not by the library, because it may lie within another file and is not copied: pages are read
when they are touched, and writes stay in this process (copy on write).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ParseError
from jitgrad.ir.types import TensorType

Array = np.ndarray[Any, Any]
MAX_HEADER: Final = 100_000_000
_NAMES: Final[dict[DType, str]] = {
    dtypes.bool_: "BOOL", dtypes.uint8: "U8", dtypes.int8: "I8", dtypes.int16: "I16", dtypes.int32: "I32",
    dtypes.int64: "I64", dtypes.uint16: "U16", dtypes.uint32: "U32", dtypes.uint64: "U64",
    dtypes.float16: "F16", dtypes.bfloat16: "BF16", dtypes.float32: "F32", dtypes.float64: "F64",
    dtypes.complex64: "C64", dtypes.complex128: "F64",
}  # fmt: skip
_CHUNK: Final = 1 << 24


def stored_shape(type: TensorType) -> list[int]:
    """The shape in the file: complex128, which safetensors lacks, lies there as pairs of float64."""
    return [*type.shape, 2] if type.dtype is dtypes.complex128 else list(type.shape)


class Section:
    """The section that holds `arrays`; `nbytes` and `sha256` are those of all of it."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
        entries: dict[str, Any] = {}
        offset = 0
        for name, x in self._arrays:
            type = TensorType(x.shape, dtypes.FROM_NUMPY[x.dtype])
            end = offset + x.nbytes
            entries[name] = {
                "dtype": _NAMES[type.dtype],
                "shape": stored_shape(type),
                "data_offsets": [offset, end],
            }
            offset = end
        text = json.dumps(entries, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self._header = len(text).to_bytes(8, "little") + text
        self.nbytes = len(self._header) + offset
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        self.sha256 = digest.hexdigest()

    def pieces(self) -> Iterator[Any]:
        """The bytes, in order."""
        yield self._header
        for _, x in self._arrays:
            little = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("<"), copy=False)
            yield memoryview(little.reshape(-1).view(np.uint8)) if x.size else b""


def digest_of(path: str, offset: int, nbytes: int) -> str:
    """The SHA-256 of a part of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        file.seek(offset)
        while nbytes > 0 and (piece := file.read(min(nbytes, _CHUNK))):
            digest.update(piece)
            nbytes -= len(piece)
    return digest.hexdigest()


def open_section(path: str, offset: int, nbytes: int, types: Mapping[str, TensorType]) -> dict[str, Array]:
    """The arrays of a section, which must be of `types`; no others may be there."""
    size = os.path.getsize(path)
    if offset + nbytes > size:
        raise ParseError(f"weights: the file ends at byte {size}, and they should at byte {offset + nbytes}")
    with open(path, "rb") as file:
        entries, start = _header(file, offset, nbytes)
    missing = [n for n in types if n not in entries]
    extra = [n for n in entries if n not in types and n != "__metadata__"]
    if missing or extra:
        what = f"{missing[0]!r} is missing" if missing else f"{extra[0]!r} belongs to no state entry"
        raise ParseError(f"weights: {what}")
    room = nbytes - (start - offset)
    places = {name: _place(name, entries[name], type, room) for name, type in types.items()}
    if sum(t.nbytes for t in types.values()) != room:
        raise ParseError(f"weights: {room} bytes of data are there, and the state has not as many")
    data = np.memmap(path, np.uint8, "c", start, (room,)) if room else np.empty(0, np.uint8)
    return {name: _array(data, places[name], type) for name, type in types.items()}


def _header(file: BinaryIO, offset: int, nbytes: int) -> tuple[dict[str, Any], int]:
    """The entries, and where the data start."""
    file.seek(offset)
    length = int.from_bytes(file.read(8), "little")
    if nbytes < 8 or length > min(nbytes - 8, MAX_HEADER):
        raise ParseError(f"weights: a header of {length} bytes does not fit into {nbytes} bytes")
    try:
        found = json.loads(file.read(length))
    except (ValueError, RecursionError):
        raise ParseError("weights: the header is no JSON") from None
    if not isinstance(found, dict):
        raise ParseError("weights: the header is no JSON object")
    return found, offset + 8 + length


def _place(name: str, entry: Any, type: TensorType, room: int) -> int:
    """Where the data of an entry begin; checks all its fields."""
    want = {"dtype": _NAMES[type.dtype], "shape": stored_shape(type)}
    if not isinstance(entry, dict) or {k: entry.get(k) for k in want} != want:
        raise ParseError(f"weights: {name!r} should be {want['dtype']} of shape {want['shape']}, which it is not")
    offsets = entry.get("data_offsets")
    whole = isinstance(offsets, list) and len(offsets) == 2 and all(type_ is int for type_ in map(_kind, offsets))
    if not whole or not 0 <= offsets[0] <= offsets[1] <= room or offsets[1] - offsets[0] != type.nbytes:
        raise ParseError(f"weights: data_offsets of {name!r} are {offsets!r}; it needs {type.nbytes} of {room} bytes")
    return int(offsets[0])


def _kind(x: Any) -> Any:
    return x.__class__


def _array(data: Array, begin: int, type: TensorType) -> Array:
    """The array of `type` in `data`; a copy where it can't be used in place."""
    part = data[begin : begin + type.nbytes].view(np.ndarray)
    stored = type.dtype.np.newbyteorder("<")
    if not type.nbytes:
        return np.empty(type.shape, type.dtype.np)
    if part.ctypes.data % max(1, type.dtype.itemsize):
        part = part.copy()
    return part.view(stored).reshape(type.shape).astype(type.dtype.np, copy=False)


def nbytes_of(types: Mapping[str, TensorType]) -> int:
    """Bytes of all of them."""
    return sum(math.prod(t.shape) * t.dtype.itemsize for t in types.values())
