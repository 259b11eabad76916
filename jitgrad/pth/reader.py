"""Reading a file: the pickle's tensors on the memory of its storages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, BinaryIO

import numpy as np

from jitgrad.ir.dtypes import DType, uint8

from ..aliasing import storage_of
from ..autograd.grad_mode import no_grad
from ..functions.strided import as_strided
from ..nn.parameter import Buffer, Parameter
from ..storage import UntypedStorage
from ..tensor import Tensor, wrap
from .archive import Archive, Bytes, Stream, is_archive, is_stream
from .errors import PthError
from .machine import Machine
from .names import Names, StorageType, build

Place = Callable[[Tensor, str], Tensor]
PTH_HEAD = 512  # bytes from the beginning that tell what a file is
_TAR = slice(257, 262)
_PICKLES_BEFORE = 3  # of the older stream: a number that marks it, its version, sizes of types


def is_pth(head: bytes) -> bool:
    """Whether a file that begins so is one of PyTorch's."""
    return is_archive(head) or is_stream(head) or head[_TAR] == b"ustar"


def load_pth(f: Any, place: Place, mmap: bool = False) -> Any:
    """What `torch.save` wrote to a path, or to a binary file with positions.

    `place` puts a tensor of a storage's elements on the device for the name of the one it was on. Tensors that share
    a storage share it here. With `mmap`, memory is read when it is used. Raises `PthError`.
    """
    with ExitStack() as stack:
        path = None if hasattr(f, "read") else str(f)
        file = f if path is None else stack.enter_context(open(path, "rb"))
        head = file.read(PTH_HEAD)
        file.seek(0)
        if head[_TAR] == b"ustar" and not is_archive(head):
            raise PthError("load: this is a tar file, as PyTorch wrote before its version 0.2; write it again with one")
        with no_grad():
            if is_stream(head):
                return _from_stream(Stream(file), place)
            return _from_archive(Archive(file, is_mapped=mmap and path is not None), place)


class _Tensors:
    """Builds tensors on storages, which `memory(key, size)` gives as bytes."""

    def __init__(self, memory: Callable[[str, int], Bytes], place: Place, is_swapped: bool = False) -> None:
        self._memory = memory
        self._place = place
        self._is_swapped = is_swapped
        self._placed: dict[tuple[str, Any], Tensor] = {}
        self.item_sizes: dict[str, int] = {}  # of the storages that the pickle names

    def object(self, pickle: BinaryIO) -> Any:
        """What a pickle describes."""
        made = Machine(Names(self._makers()), self._storage, build).run(pickle)
        return made if not isinstance(made, _Storage) else UntypedStorage(made.elements(made.kind.dtype or uint8))

    def _makers(self) -> dict[str, Callable[..., Any]]:
        return {
            "torch._utils._rebuild_tensor": self._strided,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._retyped,
            "torch._utils._rebuild_parameter": self._parameter,
            "torch._utils._rebuild_parameter_with_state": self._parameter,
            "torch._tensor._rebuild_from_type_v2": self._typed,
        }

    def _storage(self, identifier: Any) -> _Storage:
        if not isinstance(identifier, tuple) or len(identifier) < 5 or identifier[0] != "storage":
            raise PthError("load: the file is damaged: a storage has no description")
        _, kind, key, location, count, *views = identifier
        if not isinstance(kind, StorageType) or not isinstance(count, int) or count < 0 or any(views):
            raise PthError(f"load: the file is damaged: storage {key!r} has no type, or no size")
        item_size = self.item_sizes[str(key)] = kind.dtype.np.itemsize if kind.dtype else 1
        return _Storage(self, str(key), str(location), count * item_size, kind)

    def elements(self, storage: _Storage, dtype: DType) -> Tensor:
        """All elements of a storage as one tensor in its place, the same at each call."""
        known = self._placed.get((storage.key, dtype))
        if known is None:
            memory = self._memory(storage.key, storage.size)
            array = memory[: storage.size // dtype.np.itemsize * dtype.np.itemsize].view(dtype.np)
            if self._is_swapped:
                array = array.byteswap()
            known = self._placed[storage.key, dtype] = self._place(wrap(array), storage.location)
        return known

    def _strided(self, storage: Any, offset: Any, shape: Any, strides: Any, dtype: DType | None = None) -> Tensor:
        """A tensor of the elements of `storage` at these places, which must lie in it."""
        numbers = (offset, *shape, *strides)
        if not isinstance(storage, _Storage) or any(type(n) is not int or n < 0 for n in numbers):
            raise PthError("load: the file is damaged: a tensor has no storage, or a negative size")
        base = storage.elements(dtype or storage.dtype)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if 0 not in shape and last >= base.type_.numel:
            raise PthError(
                f"load: the file is damaged: a tensor of shape {tuple(shape)} and strides {tuple(strides)} from "
                f"element {offset} on goes beyond its storage of {base.type_.numel}"
            )
        if 0 in shape:
            return wrap(as_strided(base.new_empty(0), shape, strides)._data)  # type: ignore[attr-defined]
        made = wrap(as_strided(base, shape, strides, offset)._data)
        made._storage = storage_of(base)
        return made

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: bool = False,
                hooks: Any = None, metadata: Any = None, dtype: DType | None = None) -> Tensor:  # fmt: skip
        made: Any = self._strided(storage, offset, shape, strides, dtype)
        if requires_grad and not made.dtype.is_differentiable:
            raise PthError(f"load: the file is damaged: a tensor of {made.dtype.name} requires gradients")
        metadata = metadata or {}
        if metadata.get("conj"):
            made = made.conj().clone()
        if metadata.get("neg"):
            made = -made
        made.requires_grad_(bool(requires_grad))
        return made  # type: ignore[no-any-return]

    def _retyped(self, storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: bool, hooks: Any,
                 dtype: Any, metadata: Any = None) -> Tensor:  # fmt: skip
        if not isinstance(dtype, DType):
            raise PthError("load: the file is damaged: a tensor has no dtype")
        return self._tensor(storage, offset, shape, strides, requires_grad, hooks, metadata, dtype)

    def _parameter(self, data: Any, requires_grad: bool = True, hooks: Any = None, state: Any = None) -> Parameter:
        return Parameter(data, bool(requires_grad))

    def _typed(self, make: Any, kind: Any, arguments: Any, state: Any) -> Any:
        """A tensor of a subclass, or with attributes, which are left out."""
        made = make.make(*arguments)
        if kind is Buffer:
            return Buffer(made)
        return Parameter(made, made.requires_grad) if kind is Parameter else made


class _Storage:
    """The memory of tensors, as a pickle names it."""

    def __init__(self, tensors: _Tensors, key: str, location: str, size: int, kind: StorageType) -> None:
        self._tensors = tensors
        self.key = key
        self.location = location
        self.size = size
        self.kind = kind

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        if self.kind.dtype is None:
            raise PthError(f"load: the file is damaged: storage {self.key!r} has no type")
        return self.kind.dtype

    def elements(self, dtype: DType) -> Tensor:
        """All elements, as one tensor."""
        return self._tensors.elements(self, dtype)


def _from_archive(archive: Archive, place: Place) -> Any:
    return _Tensors(archive.memory, place, archive.is_swapped).object(archive.pickle())


def _from_stream(stream: Stream, place: Place) -> Any:
    """The object is read twice: storages lie behind it, and how many bytes their elements have is said in it."""
    for _ in range(_PICKLES_BEFORE):
        _plain(stream.file)
    start = stream.file.tell()

    def unknown(key: str, size: int) -> Bytes:
        if size > stream.size:
            raise PthError(f"load: the file is damaged: storage {key!r} should have {size} bytes")
        return np.zeros(size, np.uint8)

    first = _Tensors(unknown, lambda t, _: t)
    first.object(stream.file)
    memory = dict(stream.storages(_plain(stream.file), first.item_sizes))
    stream.file.seek(start)

    def known(key: str, size: int) -> Bytes:
        if key not in memory or memory[key].size < size:
            raise PthError(f"load: the file is damaged: storage {key!r} should have {size} bytes")
        return memory[key]

    return _Tensors(known, place).object(stream.file)


def _plain(file: BinaryIO) -> Any:
    """What a pickle without tensors describes."""
    return Machine(Names({}), lambda _: None, build).run(file)
