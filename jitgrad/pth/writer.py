"""Writing a file that `torch.load` reads, with its default `weights_only=True` too, without PyTorch."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import zipfile
from collections import Counter, OrderedDict
from typing import Any, BinaryIO

import numpy as np

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError
from jitgrad.ir.types import Device

from ..errors import located
from ..nn.parameter import Parameter
from ..tensor import Size, Tensor, to_array
from .memory import Place, storages
from .names import STORAGES, UNTYPED

_ALIGNMENT = 64  # of memory in the file, so that it can be mapped
_LOCAL_HEADER = 30
_PADDING = struct.Struct("<2sH")  # an extra field of an archive's entry: a name, and how much follows
_ZIP64_FIELD = 20
_STORAGE_OF = {dtype: name for name, dtype in STORAGES.items()}


def save_pth(obj: Any, file: BinaryIO, name: str = "archive") -> None:
    """Write tensors in nested containers, with numbers and strings. Tensors that share host memory share it there.

    Raises `ArgumentTypeError` for other things, before anything is written.
    """
    seen = _Pickle([])
    seen.write(obj, ())
    flats, places = storages(seen.arrays)
    final = _Pickle(places)
    final.write(obj, ())
    entries: dict[str, Any] = {
        "data.pkl": final.finished(), ".format_version": b"1", ".storage_alignment": b"%d" % _ALIGNMENT,
        "byteorder": sys.byteorder.encode(), **{f"data/{key}": flat for key, flat in enumerate(flats)},
        "version": b"3\n",
    }  # fmt: skip
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for entry, content in entries.items():
            _add(archive, f"{name}/{entry}", memoryview(content.view(np.uint8) if entry[:5] == "data/" else content))


def _add(archive: zipfile.ZipFile, name: str, content: memoryview) -> None:
    """Add an entry whose content begins at a multiple of the alignment."""
    info = zipfile.ZipInfo(name)  # of the year 1980: equal objects give equal files
    info.file_size = content.nbytes
    is_large = content.nbytes * 1.05 > zipfile.ZIP64_LIMIT  # `zipfile` puts a field of its own in front then
    start = archive.fp.tell() + _LOCAL_HEADER + len(name.encode()) + _PADDING.size + _ZIP64_FIELD * is_large  # type: ignore[union-attr]
    padding = -start % _ALIGNMENT
    info.extra = _PADDING.pack(b"FB", padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=is_large) as entry:
        entry.write(content)


class _Pickle:
    """A pickle of protocol 2, as `torch.save` writes. `places` says where the memory of each tensor is, in order.

    Without places it only finds the arrays.
    """

    def __init__(self, places: list[Place]) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._places = places
        self._out = io.BytesIO(b"\x80\x02")
        self._out.seek(0, io.SEEK_END)
        self._memo: dict[Any, int] = {}
        self._kept: list[Any] = []

    def finished(self) -> bytes:
        """The whole pickle."""
        return self._out.getvalue() + pickle.STOP

    def write(self, x: Any, path: tuple[str, ...]) -> None:
        """Write `x`, which lies at `path`."""
        known = self._memo.get(id(x))
        if known is not None:
            self._put(pickle.LONG_BINGET, known.to_bytes(4, "little"))
        elif not self._write_plain(x):
            self._write_other(x, path)

    def _put(self, *parts: bytes) -> None:
        for part in parts:
            self._out.write(part)

    def _remember(self, x: Any) -> None:
        self._memo[id(x)] = number = len(self._memo)
        self._kept.append(x)
        self._put(pickle.LONG_BINPUT, number.to_bytes(4, "little"))

    def _write_plain(self, x: Any) -> bool:
        """Write a number, a string or nothing; whether `x` is one."""
        if x is None:
            self._put(pickle.NONE)
        elif type(x) is bool:
            self._put(pickle.NEWTRUE if x else pickle.NEWFALSE)
        elif type(x) is int:
            data = pickle.encode_long(x)
            size = (pickle.LONG1 + bytes([len(data)])) if len(data) < 256 else pickle.LONG4 + _count(data)
            self._put(pickle.BININT + struct.pack("<i", x) if -(2**31) <= x < 2**31 else size + data)
        elif type(x) is float:
            self._put(pickle.BINFLOAT, struct.pack(">d", x))
        elif type(x) is str:
            data = x.encode("utf-8", "surrogatepass")
            self._put(pickle.BINUNICODE, _count(data), data)
        else:
            return False
        return True

    def _write_other(self, x: Any, path: tuple[str, ...]) -> None:
        if isinstance(x, Tensor):
            self._tensor(x)
        elif isinstance(x, dict):
            self._dict(x, path)
        elif type(x) is list:
            self._put(pickle.EMPTY_LIST)
            self._remember(x)
            self._marked(x, path, pickle.APPENDS)
        elif type(x) is tuple:
            self._marked(x, path, pickle.TUPLE)
        elif type(x) in (set, frozenset):
            self._call("__builtin__", type(x).__name__, list(x))
        elif isinstance(x, (np.ndarray, np.generic)):
            self._numpy(x, path)
        elif not self._named(x):
            raise _unsaved(x, path)

    def _named(self, x: Any) -> bool:
        """Write what is made by calling something by its name, or is a name itself; whether `x` is such."""
        if isinstance(x, DType):
            self._global("torch", x.name)
        elif isinstance(x, Size):
            self._call("torch", "Size", tuple(x))
        elif isinstance(x, Device):
            self._call("torch", "device", *((x.type,) if x.index is None else (x.type, x.index)))
        elif type(x) is complex:
            self._call("__builtin__", "complex", x.real, x.imag)
        elif type(x) is bytes:
            self._call("_codecs", "encode", x.decode("latin-1"), "latin1")
        elif type(x) is bytearray:
            self._call("__builtin__", "bytearray", x.decode("latin-1"), "latin-1")
        else:
            return False
        return True

    def _marked(self, items: Any, path: tuple[str, ...], end: bytes) -> None:
        self._put(pickle.MARK)
        for i, item in enumerate(items):
            self.write(item, (*path, str(i)))
        self._put(end)

    def _global(self, module: str, name: str) -> None:
        self._put(pickle.GLOBAL, f"{module}\n{name}\n".encode())

    def _call(self, module: str, name: str, *arguments: Any) -> None:
        self._global(module, name)
        self._marked(arguments, (), pickle.TUPLE)
        self._put(pickle.REDUCE)

    def _dict(self, x: dict[Any, Any], path: tuple[str, ...]) -> None:
        if isinstance(x, Counter):
            self._call("collections", "Counter", dict(x))
            self._remember(x)
            return
        if isinstance(x, OrderedDict):
            self._call("collections", "OrderedDict")
        else:
            self._put(pickle.EMPTY_DICT)
        self._remember(x)
        self._put(pickle.MARK)
        for key, value in x.items():
            self.write(key, path)
            self.write(value, (*path, str(key)))
        self._put(pickle.SETITEMS)
        metadata = getattr(x, "_metadata", None)
        if isinstance(x, OrderedDict) and metadata is not None:
            self.write({"_metadata": metadata}, path)
            self._put(pickle.BUILD)

    def _tensor(self, t: Tensor) -> None:
        """A call that makes the tensor out of a storage, which is a persistent identifier."""
        is_parameter = isinstance(t, Parameter)
        if is_parameter:
            self._global("torch._utils", "_rebuild_parameter")
            self._put(pickle.MARK)
        array = to_array(t)
        self._kept.append(array)
        self.arrays.append(array)
        place = self._places[len(self.arrays) - 1] if self._places else Place(0, 0, (), 0)
        is_typed = t.dtype in _STORAGE_OF
        self._global("torch._utils", "_rebuild_tensor_v2" if is_typed else "_rebuild_tensor_v3")
        self._put(pickle.MARK)
        self._storage(t, place)
        for x in (place.offset, tuple(t.shape), place.strides, t.requires_grad and not is_parameter, OrderedDict()):
            self.write(x, ())
        if not is_typed:
            self.write(t.dtype, ())
        self._put(pickle.TUPLE, pickle.REDUCE)
        if is_parameter:
            self.write(t.requires_grad, ())
            self.write(OrderedDict(), ())
            self._put(pickle.TUPLE, pickle.REDUCE)
        self._remember(t)

    def _storage(self, t: Tensor, place: Place) -> None:
        self._put(pickle.MARK)
        self.write("storage", ())
        kind = _STORAGE_OF.get(t.dtype)
        self._global("torch" if kind else "torch.storage", kind or UNTYPED)
        for x in (str(place.storage), str(t.device), place.count * (1 if kind else t.dtype.itemsize)):
            self.write(x, ())
        self._put(pickle.TUPLE, pickle.BINPERSID)

    def _numpy(self, x: Any, path: tuple[str, ...]) -> None:
        """As NumPy pickles itself. `torch.load` reads this with `weights_only=False`."""
        if x.dtype.kind not in "biufc":
            raise _unsaved(x, path)
        kind, little = x.dtype.str[1:], x.astype(x.dtype.newbyteorder("<"))
        is_array = isinstance(x, np.ndarray)
        module = "numpy._core.multiarray"
        if is_array:
            self._global(module, "_reconstruct")
            self._put(pickle.MARK)
            self._global("numpy", "ndarray")
            self._marked((0,), (), pickle.TUPLE)
            self.write(b"b", ())
            self._put(pickle.TUPLE, pickle.REDUCE)
            self._remember(x)
            self._put(pickle.MARK)
            self.write(1, ())
            self.write(tuple(x.shape), ())
        else:
            self._global(module, "scalar")
            self._put(pickle.MARK)
        self._call("numpy", "dtype", kind, False, True)
        if is_array:
            self.write(False, ())
        self.write(little.tobytes(), ())
        self._put(pickle.TUPLE, pickle.BUILD if is_array else pickle.REDUCE)


def _count(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little")


def _unsaved(x: Any, path: tuple[str, ...]) -> ArgumentTypeError:
    where = ".".join(path) or "the object itself"
    return located(
        ArgumentTypeError(
            f"save: {where}: {type(x).__name__} cannot be saved; tensors, arrays, numbers, strings and containers "
            "of them can. Of a module or an optimizer, save its state_dict()"
        )
    )
