"""Device memory shared with other libraries: DLPack and the CUDA array interface, both ways.

DLPack (dmlc/dlpack, version 0.8 of the protocol) hands over a C structure in a capsule; the CUDA array interface
(version 3) is a dict of the address, shape, strides and type.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, DTypeError
from jitgrad.ir.types import Device

from .backend import DeviceArray, Memory, gpus
from .errors import located
from .tensor import Tensor, end_trace, wrap

CUDA = 2  # DLPack's number for the kind of device
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}


class _DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _DLDevice), ("ndim", ctypes.c_int32), ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _DLManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("dl_tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _Deleter)]

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_FRESH, _USED = b"dltensor", b"used_dltensor"  # a capsule keeps the pointer to its name, and so must we


class _Lent:
    """Structures that other libraries hold, each with the array whose memory it shows, by address."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[Any, ...]] = {}
        self.deleter = _Deleter(self._delete)
        self.destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._destroy)

    def _delete(self, managed: Any) -> None:
        self.held.pop(ctypes.addressof(managed.contents), None)

    def _destroy(self, capsule: int) -> None:
        """A capsule that nobody took is gone."""
        valid = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
        pointer = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
        if valid(capsule, _FRESH):
            self.held.pop(pointer(capsule, _FRESH), None)


_lent = _Lent()


def to_dlpack(t: Tensor, stream: Any = None) -> Any:
    """A capsule of a device tensor's memory, ready for work on the consumer's stream."""
    data: DeviceArray = t._data
    if stream != -1:
        g = gpus().gpu(data.device.index)
        g.runtime.synchronize_stream(g.stream)
    dtype = dtypes.FROM_NUMPY[data.dtype]
    shape = (ctypes.c_int64 * max(data.ndim, 1))(*data.shape)
    strides = (ctypes.c_int64 * max(data.ndim, 1))(*[s // data.itemsize for s in data.strides])
    managed = _DLManagedTensor(
        _DLTensor(data.pointer, _DLDevice(CUDA, data.device.index), data.ndim, _code_of(dtype), shape, strides, 0),
        None, _lent.deleter,
    )  # fmt: skip
    address = ctypes.addressof(managed)
    _lent.held[address] = (managed, shape, strides, data)
    return _api.PyCapsule_New(address, _FRESH, ctypes.cast(_lent.destructor, ctypes.c_void_p))


def _code_of(dtype: dtypes.DType) -> _DLDataType:
    kind = (
        "bfloat" if dtype is dtypes.bfloat16 else "uint" if dtype.kind == "int" and not dtype.is_signed else dtype.kind
    )
    return _DLDataType(_CODES[kind], 8 * dtype.itemsize, 1)


def _dtype_of(code: _DLDataType) -> dtypes.DType:
    for dtype in dtypes.ALL:
        own = _code_of(dtype)
        if (own.code, own.bits, 1) == (code.code, code.bits, code.lanes):
            return dtype
    raise located(DTypeError(f"from_dlpack: no tensor type for code {code.code} with {code.bits} bits"))


class _Borrowed:
    """A structure taken from a capsule; its owner is told when the last array on it is gone."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def from_dlpack_device(ext_tensor: Any) -> Tensor:
    """A tensor of the device memory of any object that speaks DLPack."""
    index = int(ext_tensor.__dlpack_device__()[1])
    capsule = ext_tensor.__dlpack__(stream=gpus().gpu(index).stream)
    if not _api.PyCapsule_IsValid(capsule, _FRESH):
        raise located(ArgumentError("from_dlpack: the object gave no capsule that is still to be taken"))
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, _FRESH), ctypes.POINTER(_DLManagedTensor))
    _api.PyCapsule_SetName(capsule, _USED)
    owner, tensor = _Borrowed(managed), managed.contents.dl_tensor
    dtype = _dtype_of(tensor.dtype)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple([s * dtype.itemsize for s in tensor.strides[: tensor.ndim]]) if tensor.strides else None
    return _borrowed((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, index, owner)


def _borrowed(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: dtypes.DType, index: int, owner: Any,
    writeable: bool = True,
) -> Tensor:  # fmt: skip
    """A tensor on memory that `owner` keeps alive."""
    steps = strides if strides is not None else (0,) * len(shape)
    nbytes = sum(s * (n - 1) for n, s in zip(shape, steps, strict=True)) + dtype.itemsize if 0 not in shape else 0
    memory = Memory(Device("cuda", index), pointer, nbytes, owner)
    return wrap(DeviceArray(memory, shape, dtype.np, strides, 0, writeable))


def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """The memory of a device tensor, as other libraries read it; the CPU's have none."""
    end_trace()
    data = self._data
    if data.__class__ is not DeviceArray:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on a tensor on {self.device}; copy it there with tensor.cuda()"
        )
    dtype = self.dtype
    if dtype is dtypes.bfloat16:
        raise located(DTypeError("__cuda_array_interface__ has no name for bfloat16; use DLPack"))
    return {
        "shape": data.shape,
        "typestr": dtype.np.str,
        "data": (data.pointer if data.size else 0, not data.writeable),
        "strides": None if data.is_contiguous else data.strides,
        "version": 3,
        "stream": gpus().gpu(data.device.index).stream,
    }


def from_cuda_array_interface(obj: Any) -> Tensor:
    """A tensor of the device memory of any object with `__cuda_array_interface__`."""
    facts = obj.__cuda_array_interface__
    found = np.dtype(facts["typestr"])
    if found not in dtypes.FROM_NUMPY:
        raise located(DTypeError(f"__cuda_array_interface__: no tensor type for {facts['typestr']}"))
    if facts.get("mask") is not None:
        raise located(ArgumentError("__cuda_array_interface__: masked arrays are not taken"))
    g = gpus().gpu(_device_of(obj))
    stream = facts.get("stream")
    if stream is not None and stream != g.stream:
        g.synchronize()
    pointer, read_only = facts["data"]
    strides = facts.get("strides")
    return _borrowed(
        int(pointer), tuple(facts["shape"]), None if strides is None else tuple(strides), dtypes.FROM_NUMPY[found],
        g.index, obj, not read_only,
    )  # fmt: skip


def _device_of(obj: Any) -> int | None:
    """The device that an object names, which the interface has no place for; else the current one."""
    device = getattr(obj, "device", None)
    index = getattr(device, "id", getattr(device, "index", None))
    return index if isinstance(index, int) else None


Tensor.__cuda_array_interface__ = property(cuda_array_interface)  # type: ignore[attr-defined]
