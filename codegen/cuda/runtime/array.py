"""`DeviceArray`: what a tensor on a device has where one on the CPU has a NumPy array.

It knows shape, strides, dtype and place, and nothing that needs the numbers themselves. NumPy's functions refuse it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentTypeError
from jitgrad.ir.types import Device

if TYPE_CHECKING:
    from .pool import Block, MemoryPool

Strides = tuple[int, ...]


def _own_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype object that equals `dtype` and is another: front ends that look at identity first pass by on the CPU."""
    return dtype.newbyteorder("=") if dtype.kind in "biufc" else dtype


DEVICE_DTYPES: Final[dict[Any, np.dtype[Any]]] = {d.np: _own_dtype(d.np) for d in dtypes.ALL}


class Memory:
    """A stretch of device memory; the tensors that show it keep it alive. `owner` is whoever lent foreign memory."""

    __slots__ = ("__weakref__", "block", "device", "nbytes", "owner", "pointer", "pool")

    def __init__(self, device: Device, pointer: int, nbytes: int, owner: Any = None) -> None:
        self.device = device
        self.pointer = pointer
        self.nbytes = nbytes
        self.owner = owner
        self.pool: MemoryPool | None = None
        self.block: Block | None = None

    @classmethod
    def of_pool(cls, device: Device, nbytes: int, pool: MemoryPool, stream: int) -> Memory:
        """Memory that goes back to `pool`."""
        block = pool.take(nbytes, stream)
        made = cls(device, block.pointer, nbytes)
        made.pool, made.block = pool, block
        return made

    def __del__(self) -> None:
        if self.pool is not None and self.block is not None:
            self.pool.give(self.block)


class Flags(NamedTuple):
    """The flags that are asked for of NumPy arrays too."""

    c_contiguous: bool
    writeable: bool
    owndata: bool
    aligned: bool


class DeviceArray:
    """An array on a device: `shape`, `strides` (bytes), `dtype`, and where in `memory` it starts (`offset`, bytes)."""

    __slots__ = ("__weakref__", "dtype", "memory", "offset", "shape", "strides", "writeable")

    __array_ufunc__ = None  # NumPy's functions raise TypeError

    def __init__(
        self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any], strides: Strides | None = None,
        offset: int = 0, writeable: bool = True,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.shape = shape
        self.dtype = DEVICE_DTYPES[dtype]
        self.strides = contiguous_strides(shape, dtype.itemsize) if strides is None else strides
        self.offset = offset
        self.writeable = writeable

    @property
    def device(self) -> Device:
        """The device."""
        return self.memory.device

    @property
    def pointer(self) -> int:
        """The address of the first element."""
        return self.memory.pointer + self.offset

    @property
    def base(self) -> Memory:
        """What arrays that share memory have in common."""
        return self.memory

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after another in row-major order."""
        step = self.dtype.itemsize
        if 0 in self.shape:
            return True
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1:
                if stride != step:
                    return False
                step *= n
        return True

    @property
    def flags(self) -> Flags:
        """As of a NumPy array."""
        return Flags(self.is_contiguous, self.writeable, False, True)

    def seen(self, shape: tuple[int, ...], strides: Strides, offset: int, dtype: np.dtype[Any]) -> DeviceArray:
        """The same memory in another way; `offset` counts from this array's start, in bytes."""
        return DeviceArray(self.memory, shape, dtype, strides, self.offset + offset, self.writeable)

    def view(self) -> DeviceArray:
        """The same, as another object."""
        return self.seen(self.shape, self.strides, 0, self.dtype)

    def extent(self) -> tuple[int, int]:
        """The addresses of the first byte and of the one behind the last."""
        if self.size == 0:
            return self.pointer, self.pointer
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides)]
        low = self.pointer + sum(r for r in reach if r < 0)
        return low, self.pointer + sum(r for r in reach if r > 0) + self.itemsize

    def shares_memory(self, other: DeviceArray) -> bool:
        """Whether some byte may belong to both."""
        if self.memory is not other.memory and self.memory.owner is None and other.memory.owner is None:
            return False
        (a, b), (c, d) = self.extent(), other.extent()
        return a < d and c < b

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ArgumentTypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )

    def __repr__(self) -> str:
        return f"<{dtypes.FROM_NUMPY[self.dtype].short}{list(self.shape)} on {self.device} at {self.pointer:#x}>"


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> Strides:
    """Row-major strides in bytes.

    >>> contiguous_strides((2, 3), 4)
    (12, 4)
    """
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
