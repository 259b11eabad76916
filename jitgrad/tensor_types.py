"""Tensors made and told apart by their type: `Tensor(2, 3)`, `LongTensor([1])`, `x.type("FloatTensor")`, subclasses."""

from __future__ import annotations

from typing import Any, Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError

from .aliasing import alias
from .conversions import convert
from .creation import empty, tensor
from .errors import located
from .functions.registry import public
from .mode import local
from .promotion import get_default_dtype
from .tensor import Size, Tensor

_DTYPES: Final = {
    "BoolTensor": dtypes.bool_, "ByteTensor": dtypes.uint8, "CharTensor": dtypes.int8, "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32, "LongTensor": dtypes.int64, "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16, "FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64,
    "ComplexFloatTensor": dtypes.complex64, "ComplexDoubleTensor": dtypes.complex128,
}  # fmt: skip


def _made(args: tuple[Any, ...], dtype: DType, device: Any) -> Tensor:
    """Of data or of another tensor, or of a size given as numbers or a `Size`, whose values are not specified."""
    first = args[0] if len(args) == 1 else None
    if isinstance(first, Tensor):
        return convert(first, dtype)
    if first is None or isinstance(first, (int, Size)):
        return empty(*(args or (0,)), dtype=dtype, device=device)
    if isinstance(first, (str, float, complex)):
        raise located(ArgumentTypeError(f"new(): data must be a sequence (got {type(first).__name__})"))
    return tensor(first, dtype=dtype, device=device)


class _TensorType(type):
    """A class of tensors of one dtype and kind of device; calling it makes one, which is a `Tensor`."""

    dtype: DType
    where: str

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return _made(args, cls.dtype, device or cls.where)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.device.type == cls.where


def _tensor_types(module: str, where: str) -> dict[str, type]:
    return {
        name: _TensorType(
            name, (), {
                "dtype": dtype, "where": where, "__module__": module,
                "__doc__": f"Tensors of {dtype.name} on {where}, as PyTorch's older scripts name them.",
            },
        )
        for name, dtype in _DTYPES.items()
    }  # fmt: skip


TYPES: Final = _tensor_types("jitgrad", "cpu")
CUDA_TYPES: Final = _tensor_types("jitgrad.cuda", "cuda")


def dtype_of_type_name(name: str) -> DType | None:
    """The dtype of a tensor type such as "jitgrad.FloatTensor", or None."""
    return _DTYPES.get(name.rpartition(".")[2])


@public("type", function=False)
def type_method(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or `self` in another dtype, given as such, by a type or by a type's name.

    >>> import jitgrad as jg
    >>> jg.ones(2).type(), jg.ones(2).type(jg.LongTensor)
    ('jitgrad.FloatTensor', tensor([1, 1]))
    """
    if dtype is None:
        where = "jitgrad.cuda" if self.device.type == "cuda" else "jitgrad"
        return next(f"{where}.{name}" for name, d in _DTYPES.items() if d is self.dtype)
    if isinstance(dtype, _TensorType):
        dtype = dtype.dtype
    elif isinstance(dtype, str):
        named = dtype_of_type_name(dtype)
        if named is None:
            raise located(ArgumentTypeError(f"invalid type: {dtype!r}"))
        dtype = named
    return convert(self, dtype)


@public(function=False)
def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of this one's dtype: of data, or of a size given as numbers (its values are not specified).

    >>> import jitgrad as jg
    >>> jg.zeros(1).new([1, 2])
    tensor([1., 2.])
    """
    return _made(args, self.dtype, device or self.device)


@public(function=False)
def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """This tensor's memory as an instance of a subclass of `Tensor`, with the same history."""
    if self._requires_grad and self._node is None and local.mode.grad:
        made = self.view_as(self)  # type: ignore[attr-defined]  # gradients reach the leaf
        made.__class__ = cls
        return made  # type: ignore[no-any-return]
    made = alias(self)
    made.__class__ = cls
    made._node, made._index, made._requires_grad = self._node, self._index, self._requires_grad
    return made


def _construct(cls: type[Tensor], *args: Any, device: Any = None, **given_to_init: Any) -> Tensor:
    """`Tensor(2, 3)` or `Tensor([1.0, 2.0])` of the default dtype; of another tensor, the same memory and history."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return as_subclass(args[0], cls)
    made = _made(args, get_default_dtype(), device)
    made.__class__ = cls
    return made


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Tensor:
    """A leaf of class `cls` with the memory of `data`."""
    return as_subclass(data.detach(), cls).requires_grad_(require_grad)  # type: ignore[attr-defined]


Tensor.__new__ = staticmethod(_construct)  # type: ignore[method-assign, assignment]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
