"""`Storage`: the memory that a tensor and its views share, as an object."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions.registry import public
from .tensor import Tensor, to_array

__all__ = ["UntypedStorage", "is_storage"]


class UntypedStorage:
    """The bytes behind a tensor; two tensors share memory if their storages have the same `data_ptr()`.

    >>> import jitgrad as jg
    >>> x = jg.zeros(2, 3)
    >>> x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    >>> x.untyped_storage().nbytes()
    24
    """

    __slots__ = ("_memory",)

    def __init__(self, tensor: Tensor) -> None:
        owner: Any = to_array(tensor)
        while owner.base is not None and hasattr(owner.base, "__array_interface__"):
            owner = owner.base
        self._memory: np.ndarray[Any, Any] = np.asarray(owner)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self._memory.__array_interface__["data"][0])

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self._memory.nbytes)

    def size(self) -> int:
        """Number of bytes."""
        return self.nbytes()

    def element_size(self) -> int:
        """Bytes of one element: 1."""
        return 1

    def tolist(self) -> list[int]:
        """The bytes, as numbers from 0 to 255."""
        return list(self._memory.tobytes())

    def __len__(self) -> int:
        return self.nbytes()

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        return f"<jitgrad.UntypedStorage of {self.nbytes()} bytes>"


@public(function=False)
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that this tensor and its views share."""
    return UntypedStorage(self)


@public(function=False)
def storage(self: Tensor) -> UntypedStorage:
    """The memory that this tensor and its views share."""
    return UntypedStorage(self)


@public(method=False)
def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage."""
    return isinstance(obj, UntypedStorage)
