"""What a tensor's memory looks like: sizes, strides, offsets, contiguity."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ir.errors import DeviceError, InternalError, ShapeError
from jitgrad.ir.ops.shape import Permute

from ..aliasing import copy, layout, view
from ..arrays import is_page_locked, page_locked
from ..backend import DeviceArray
from ..errors import located
from ..layouts import as_memory_format, contiguous_format, memory_format, preserve_format, strided
from ..memo import Memo
from ..tensor import Tensor, end_trace, truth, wrap
from .dims import normalize_dim
from .registry import public

_steps: Memo[tuple[int, ...]] = Memo(limit=1024)  # strides in elements, by those in bytes and the size of an element


def _layout(t: Tensor) -> np.ndarray[Any, Any]:
    found = layout(t)
    if found is None:
        raise InternalError("a tensor without a layout")
    return found


@public(function=False)
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the length of one axis."""
    shape = self.shape
    return shape if dim is None else shape[normalize_dim(dim, len(shape))]


@public(function=False)
def dim(self: Tensor) -> int:
    """Number of axes."""
    return self.ndim


@public(function=False)
def ndimension(self: Tensor) -> int:
    """Number of axes."""
    return self.ndim


@public()
def numel(input: Tensor) -> int:
    """Number of elements."""
    data = input._data
    return data.size if data.__class__ is np.ndarray else input.type_.numel  # type: ignore[no-any-return]


@public(function=False)
def nelement(self: Tensor) -> int:
    """Number of elements."""
    return numel(self)


@public(function=False)
def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


@public(function=False)
def stride(self: Tensor, dim: int | None = None) -> Any:
    """Elements to step over in memory from one place to the next, along every axis or one.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3).stride()
    (3, 1)
    """
    data = self._data
    array = data if data.__class__ is np.ndarray else _layout(self)
    key = array.strides, array.itemsize
    steps = _steps.get(key) or _steps.add(key, tuple([s // key[1] for s in key[0]]))
    return steps if dim is None else steps[normalize_dim(dim, self.ndim)]


@public(function=False)
def is_contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> bool:
    """Whether the elements lie in memory without gaps in row-major order, or in the order of a memory format."""
    data = self._data
    array = data if data.__class__ is np.ndarray else _layout(self)
    if memory_format is contiguous_format:
        return array.flags.c_contiguous
    order = as_memory_format(memory_format).order
    if order is not None:
        return array.ndim == len(order) and bool(array.transpose(order).flags.c_contiguous)
    return bool(array.flags.c_contiguous)


@public(function=False)
def contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """`self` if contiguous in that order of axes, else a contiguous copy."""
    data = self._data
    if memory_format is contiguous_format and data.__class__ is np.ndarray and data.flags.c_contiguous:
        return self
    memory_format = as_memory_format(memory_format)
    order = memory_format.order
    if memory_format is preserve_format:
        raise located(ShapeError("preserve memory format is unsupported by the contiguous operator"))
    if is_contiguous(self, memory_format):
        return self
    if order is None:
        return copy(self, "C")
    if self.ndim != len(order):
        raise located(ShapeError(f"required rank {len(order)} tensor to use {memory_format.name} format"))
    permuted = Permute(order)
    return view(permuted.inverse(), copy(view(permuted, self), "C"))


def in_format(t: Tensor, memory_format: memory_format | None) -> Tensor:
    """`t` in a memory format, if one is asked for."""
    wanted = preserve_format if memory_format is None else as_memory_format(memory_format)
    return t if wanted is preserve_format else contiguous(t, wanted)


@public(function=False)
def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    end_trace()
    data = self._data
    return data.pointer if data.__class__ is DeviceArray else int(data.__array_interface__["data"][0])


@public(function=False)
def storage_offset(self: Tensor) -> int:
    """Elements between the start of the memory that views share and the first element of this one."""
    end_trace()
    owner: Any = self._data
    if owner.__class__ is DeviceArray:
        return owner.offset // owner.itemsize  # type: ignore[no-any-return]
    if owner.base is None:
        return 0
    while owner.base is not None and hasattr(owner.base, "__array_interface__"):
        owner = owner.base
    return (data_ptr(self) - int(owner.__array_interface__["data"][0])) // self.dtype.itemsize


@public()
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is float16, bfloat16, float32 or float64."""
    return input.dtype.is_floating_point


@public()
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex64 or complex128."""
    return input.dtype.is_complex


@public()
def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return self.dtype.is_signed


@public(method=False)
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


@public()
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return self.shape == other.shape


Tensor.itemsize = property(element_size)  # type: ignore[attr-defined]
Tensor.nbytes = property(lambda self: self.type_.nbytes)  # type: ignore[attr-defined]


@public()
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero."""
    if input.type_.numel != 1:
        word = "no values" if input.type_.numel == 0 else "more than one value"
        raise located(ShapeError(f"Boolean value of Tensor with {word} is ambiguous"))
    return truth(input)


@public()
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode and cannot take part in gradients; none here are marked so."""
    return False


@public(function=False, moves=True)
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is page-locked, so that copies to a GPU can run beside other work."""
    return is_page_locked(self._data)


@public(function=False, moves=True)
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in page-locked memory; `self` if it lies there, or where there is no CUDA device to copy to."""
    end_trace()
    if self._data.__class__ is DeviceArray:
        raise located(DeviceError(f"cannot pin a tensor on {self.device}, only dense CPU tensors can be pinned"))
    pinned = page_locked(self._data)
    return self if pinned is self._data else wrap(pinned)


@public(function=False)
def record_stream(self: Tensor, stream: Any) -> None:
    """Keep the memory from being used again before `stream`, which is not the one it was made on, is done with it."""
    end_trace()
    if self._data.__class__ is not DeviceArray:
        raise located(DeviceError(f"record_stream: the tensor is on {self.device}, not on a CUDA device"))
    block = self._data.memory.block
    if block is not None and block.stream != stream.cuda_stream:
        block.streams.add(stream.cuda_stream)


@public(function=False)
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors show the same memory in the same way."""
    return data_ptr(self) == data_ptr(tensor) and self.shape == tensor.shape and stride(self) == stride(tensor)


@public()
def get_device(self: Tensor) -> int:
    """The number of the device; -1 for the CPU."""
    where = self.device
    return -1 if where.type == "cpu" else where.index or 0


@public("is_conj", "is_neg")
def is_put_off(input: Tensor) -> bool:
    """False: conjugation and negation are never put off."""
    return False


@public(function=False)
def share_memory_(self: Tensor) -> Tensor:
    """`self`: processes that are forked see its memory anyway, and others get copies."""
    return self


@public(function=False)
def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes: never."""
    return False


@public(function=False)
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for reading."""
    return data_ptr(self)


@public(function=False)
def dim_order(self: Tensor, *, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dims in the order in which they lie in memory, outermost first.

    >>> import jitgrad as jg
    >>> jg.zeros(2, 3, 5).transpose(1, 2).dim_order()
    (0, 2, 1)
    """
    steps = _layout(self).strides
    return tuple(sorted(range(self.ndim), key=lambda a: (-steps[a], a)))


@public(method=False)
def typename(obj: Any) -> str:
    """The name of a tensor's type, or of another object's class.

    >>> import jitgrad as jg
    >>> jg.typename(jg.zeros(1))
    'jitgrad.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())  # type: ignore[attr-defined]
    cls = obj.__class__
    return cls.__qualname__ if cls.__module__ in ("builtins", "") else f"{cls.__module__}.{cls.__qualname__}"


@public("resolve_conj", "resolve_neg")
def resolve(input: Tensor) -> Tensor:
    """`input`: conjugation and negation are never put off."""
    return input


def _on(kind: str) -> property:
    return property(lambda self: self.device.type == kind, doc=f"Whether the tensor is on a {kind} device.")


def _flag(name: str, value: bool) -> property:
    return property(lambda self: value, doc=f"Whether this is a {name} tensor: {value}.")


for _name in ("cpu", "cuda"):
    setattr(Tensor, f"is_{_name}", _on(_name))
for _name in ("maia", "meta", "mkldnn", "mps", "mtia", "nested", "quantized", "sparse", "sparse_csr", "vulkan", "xla",
              "xpu"):  # fmt: skip
    setattr(Tensor, f"is_{_name}", _flag(_name, False))
Tensor.name = None  # type: ignore[attr-defined]
Tensor.output_nr = property(lambda self: self._index, doc="Which result of its `grad_fn` this is.")  # type: ignore[attr-defined]
Tensor.layout = property(lambda self: strided, doc="How the elements are stored.")  # type: ignore[attr-defined]
