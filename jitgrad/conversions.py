"""Out of tensors and between them: Python numbers and lists, NumPy arrays, other dtypes, copies, pickles."""

from __future__ import annotations

import copy as _copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, AutogradError, DTypeError, ShapeError
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.types import Device

from .aliasing import alias, copy
from .arrays import on_device, owned
from .backend import DeviceArray
from .device import as_device
from .dispatch import apply
from .errors import located
from .functions.joining import unbind
from .functions.memory import in_format
from .functions.registry import public
from .functions.repeating import flip
from .hot_path import hot
from .interchange import CUDA, from_dlpack_device, to_dlpack
from .mode import local
from .moving import move
from .rebinding import forget_history, replace_data
from .tensor import Tensor, end_trace, outermost, read_array, to_array, truth, wrap

__all__ = ["convert"]

_METHOD_DTYPES = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}  # fmt: skip


def convert(t: Tensor, dtype: DType) -> Tensor:
    """`t` in another dtype; `t` itself if it has that dtype."""
    return t if t.dtype is dtype else _converted(t, dtype)  # type: ignore[no-any-return]


@hot
def _converted(t: Tensor, dtype: DType) -> Tensor:
    return apply(Convert(dtype), t)


def _dtype_method(name: str, dtype: DType) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        made = convert(self, dtype)
        return made if memory_format is None else in_format(made, memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`self` as {dtype.name}; `self` itself if it is that already."
    return method


for _name, _dtype in _METHOD_DTYPES.items():
    setattr(Tensor, _name, _dtype_method(_name, _dtype))


@public(function=False, moves=True)
def to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
       copy: bool = False, memory_format: Any = None) -> Tensor:  # fmt: skip
    """`self` in another dtype or on another device, named directly or by another tensor's.

    >>> import jitgrad as jg
    >>> jg.tensor([1, 2]).to(jg.float32)
    tensor([1., 2.])
    """
    if len(args) == 1 and args[0].__class__ is DType and dtype is device is memory_format is None and not copy:
        return convert(self, args[0])
    for arg in args:
        if isinstance(arg, DType):
            dtype = arg
        elif isinstance(arg, (str, Device)) or type(arg) is int:
            device = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif arg is not None and not isinstance(arg, bool):
            raise located(ArgumentTypeError(f"to() received an invalid argument of type {type(arg).__name__}"))
    flags = [arg for arg in args if isinstance(arg, bool)]
    non_blocking, copy = [*flags, *(non_blocking, copy)[len(flags) :]][:2]
    if dtype is not None and not isinstance(dtype, DType):
        raise located(ArgumentTypeError(f"to(): dtype must be a jitgrad dtype, not {dtype!r}"))
    made = self if dtype is None else convert(self, dtype)
    if device is not None:
        made = move(made, as_device(device), non_blocking)
    return in_format(clone(made) if copy and made is self else made, memory_format)


@public(function=False)
def to_dense(self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """`self`, which is dense, as `dtype`."""
    return self if dtype is None else convert(self, dtype)


@public(function=False)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """`self` in the dtype of `other`."""
    return convert(self, other.dtype)


@public(function=False)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """`self` on the CPU; itself if it is there."""
    return in_format(move(self, as_device("cpu")), memory_format)


@public(function=False, moves=True)
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """`self` on a CUDA device, by default the current one; itself if it is there."""
    return in_format(move(self, as_device("cuda" if device is None else device), non_blocking), memory_format)


@public()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy in memory of its own; gradients flow through it.

    >>> import jitgrad as jg
    >>> x = jg.tensor([1, 2])
    >>> y = x.clone()
    >>> y[0] = 5
    >>> x
    tensor([1, 2])
    """
    return in_format(copy(input), memory_format)


@public()
def detach(input: Tensor) -> Tensor:
    """A tensor of the same memory that is not part of the history of `input`."""
    return alias(input)


def _detach_(self: Tensor) -> Tensor:
    """Cut `self` off from its history, in place."""
    if self._view is not None and self._view.origin is not None:
        raise located(AutogradError("Can't detach views in-place; use detach() instead"))
    forget_history(self)
    return self


@public(function=False)
def item(self: Tensor) -> Any:
    """The only element as a Python number.

    >>> import jitgrad as jg
    >>> jg.tensor([2.5]).item()
    2.5
    """
    data, tracer = self._data, local.mode.tracer
    if tracer is None and data.__class__ is np.ndarray and data.size == 1 and data.dtype.kind != "V":
        return data.item()
    if self.type_.numel != 1:
        raise located(ShapeError(f"a Tensor with {self.type_.numel} elements cannot be converted to Scalar"))
    later = None if tracer is None else tracer.defer(outermost(self), _number)
    return _number(read_array(self)) if later is None else later


def _number(array: np.ndarray[Any, Any]) -> Any:
    return _as_numpy_kind(array).item()


def _as_numpy_kind(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bfloat16 as float32, whose elements Python knows."""
    return array.astype(np.float32) if array.dtype == dtypes.bfloat16.np else array


@public(function=False)
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers."""
    tracer = local.mode.tracer
    later = None if tracer is None else tracer.defer(outermost(self), _list)
    return _list(read_array(self)) if later is None else later


def _list(array: np.ndarray[Any, Any]) -> Any:
    return _as_numpy_kind(array).tolist()


@public(function=False)
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray[Any, Any]:
    """The data as a NumPy array that shares memory.

    A tensor that requires gradients raises, unless nothing is recorded (`no_grad`) or `force` is given.

    >>> import jitgrad as jg
    >>> jg.tensor([1, 2]).numpy()
    array([1, 2])
    """
    if self.requires_grad and local.mode.grad and not force:
        raise located(
            AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        )
    if self._data.__class__ is DeviceArray:
        if not force:
            self._data.__array__()
        return to_array(self)
    return to_array(self).view()


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    array = numpy(self)
    if dtype is not None and array.dtype != np.dtype(dtype):
        if copy is False:
            raise located(ArgumentError(f"__array__: copy=False, but {array.dtype} as {np.dtype(dtype)} is a copy"))
        return array.astype(dtype)
    return array.copy() if copy else array


def _buffer(self: Tensor, flags: int = 0) -> memoryview:
    """The memory, for Python's buffer protocol (from Python 3.12 on)."""
    return memoryview(numpy(self))


def _array_wrap(self: Tensor, array: np.ndarray[Any, Any], context: Any = None, return_scalar: bool = False) -> Tensor:
    return wrap(np.asarray(array))


def _to_bool(self: Tensor) -> bool:
    if self.ndim == 0 or self.type_.numel == 1:
        return truth(self)
    if self.type_.numel == 0:
        raise located(ShapeError("Boolean value of Tensor with no values is ambiguous"))
    raise located(ShapeError("Boolean value of Tensor with more than one value is ambiguous"))


def _only_element(self: Tensor) -> Any:
    if self.type_.numel != 1:
        raise located(ArgumentError("only one element tensors can be converted to Python scalars"))
    return item(self)


def _to_float(self: Tensor) -> float:
    data, tracer = self._data, local.mode.tracer
    if tracer is None and data.__class__ is np.ndarray and data.size == 1 and data.dtype.kind in "fiub":
        return float(data.item())
    if tracer is not None and self.type_.numel == 1 and not self.dtype.is_complex:
        later = tracer.defer(outermost(self), _float, is_float=True)
        if later is not None:
            return later  # type: ignore[no-any-return]
    return float(_only_element(self))


def _float(array: np.ndarray[Any, Any]) -> float:
    return float(_number(array))


def _to_int(self: Tensor) -> int:
    return int(_only_element(self))


def _to_complex(self: Tensor) -> complex:
    return complex(_only_element(self))


def _to_index(self: Tensor) -> int:
    if self.dtype.kind not in ("int", "bool") or self.type_.numel != 1:
        raise located(ArgumentTypeError("only integer tensors of a single element can be converted to an index"))
    return int(item(self))


def _len(self: Tensor) -> int:
    if self.ndim == 0:
        raise located(ArgumentTypeError("len() of a 0-d tensor"))
    return self.shape[0]


def _iter(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise located(ArgumentTypeError("iteration over a 0-d tensor"))
    return iter(unbind(self, 0))


def _reversed(self: Tensor) -> Tensor:
    return flip(self, 0) if self.ndim else self


def _contains(self: Tensor, element: Any) -> bool:
    if not isinstance(element, (Tensor, bool, int, float, complex, np.generic)):
        raise located(
            DTypeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
        )
    return bool((self == element).any().item())


def _get_data(self: Tensor) -> Tensor:
    return alias(self)


def _set_data(self: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise located(ArgumentTypeError(f"Variable data has to be a tensor, but got {type(value).__name__}"))
    replace_data(self, value)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    if not self.is_leaf:
        raise located(
            AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment; detach() it first"
            )
        )
    end_trace()
    out = memo[id(self)] = wrap(owned(self._data), type(self))
    out._requires_grad = self._requires_grad
    if self.grad is not None:
        out.grad = _copy.deepcopy(self.grad, memo)
    for key, value in self.__dict__.items():
        setattr(out, key, _copy.deepcopy(value, memo))
    return out


def _rebuild(
    cls: type[Tensor], array: np.ndarray[Any, Any], dtype: DType, requires_grad: bool, state: Any, where: str = "cpu"
) -> Tensor:
    data = array.view(dtype.np) if array.dtype != dtype.np else array
    out = wrap(on_device(data, as_device(where)), cls)
    out._requires_grad = requires_grad
    out.__dict__.update(state)
    return out


def _reduce(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    array = np.ascontiguousarray(to_array(self)).reshape(self._data.shape)
    if protocol < 5:  # `copy.copy` asks for 4, and must get memory of its own
        array = array.copy()
    if self.dtype is dtypes.bfloat16:
        array = array.view(np.uint16)
    return _rebuild, (type(self), array, self.dtype, self._requires_grad, dict(self.__dict__), str(self.device))


@public(function=False)
def __dlpack__(self: Tensor, **options: Any) -> Any:
    """The DLPack capsule of the memory, shared."""
    if self.requires_grad:
        raise located(ArgumentError("Can't export tensors that require gradient, use tensor.detach()"))
    if self._data.__class__ is DeviceArray:
        return to_dlpack(self, options.get("stream"))
    return numpy(self).__dlpack__(**{k: v for k, v in options.items() if k != "stream"})


@public(function=False)
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """The DLPack device: kind (1 for the CPU, 2 for CUDA) and number."""
    where = self.device
    return (1, 0) if where.type == "cpu" else (CUDA, where.index or 0)


@public(method=False)
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor sharing memory with any object that speaks DLPack.

    >>> import jitgrad as jg, numpy as np
    >>> jg.from_dlpack(np.array([1.0, 2.0], np.float32))
    tensor([1., 2.])
    """
    if hasattr(ext_tensor, "__dlpack_device__") and ext_tensor.__dlpack_device__()[0] == CUDA:
        return from_dlpack_device(ext_tensor)
    array = np.from_dlpack(ext_tensor)
    if array.dtype not in dtypes.FROM_NUMPY:
        raise located(DTypeError(f"from_dlpack: no tensor type for {array.dtype}"))
    return wrap(array)


@public(function=False)
def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The namespace of the Python array API standard that tensors belong to: `jitgrad.array_api`."""
    from . import array_api

    return array_api.namespace_of_version(api_version)


@public(function=False)
def to_device(self: Tensor, where: Any, /, *, stream: Any = None) -> Tensor:
    """This tensor on the device `where`; the array API standard's name for `to`."""
    return to(self, device=where)


@public("to_dlpack", method=False)
def _to_dlpack(tensor: Tensor) -> Any:
    """The DLPack capsule of a tensor's memory."""
    return tensor.__dlpack__()  # type: ignore[attr-defined]


@public(method=False)
def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector of the memory of an object with Python's buffer protocol, shared; `offset` is in bytes.

    >>> import jitgrad as jg
    >>> jg.frombuffer(bytearray([1, 0, 2, 0]), dtype=jg.int16)
    tensor([1, 2], dtype=jitgrad.int16)
    """
    room, size = memoryview(buffer).nbytes, dtype.itemsize
    rest = room - offset
    if room == 0 or count == 0:
        rule = f"both buffer length ({room}) and count ({count}) must not be 0"
    elif not 0 <= offset < room:
        rule = f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({room} bytes) minus 1"
    elif count < 0 and rest % size:
        rule = f"buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
    elif count > 0 and count * size > rest:
        rule = f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater "
        rule += f"than actual buffer length ({room} bytes)"
    else:
        rule = ""
    if rule:
        raise located(ArgumentError(f"frombuffer: {rule}"))
    made = wrap(np.frombuffer(buffer, dtype.np, count, offset))
    return made.requires_grad_() if requires_grad else made


_METHODS = {
    "__array__": _array, "__array_wrap__": _array_wrap, "__buffer__": _buffer, "__bool__": _to_bool,
    "__float__": _to_float,
    "__int__": _to_int, "__complex__": _to_complex, "__index__": _to_index, "__len__": _len, "__iter__": _iter,
    "__reversed__": _reversed, "__contains__": _contains, "__deepcopy__": _deepcopy, "__reduce_ex__": _reduce,
    "detach_": _detach_, "data": property(_get_data, _set_data), "__array_priority__": 1000,
}  # fmt: skip
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
