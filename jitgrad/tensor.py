"""`Tensor`: data with a dtype, a place on the tape and PyTorch's meaning.

`_data` is a NumPy array, or an IR value while a function is being traced; nothing outside `dispatch`,
`aliasing` and the compiler looks at it. Reading numbers goes through `to_array`, which ends a trace first.
Methods that are also functions are attached by the modules in `functions/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import AutogradError
from jitgrad.ir.types import CPU, Device, TensorType

from .arrays import on_device, on_host
from .backend import DeviceArray
from .levels import LevelData
from .memo import Memo
from .mode import local
from .tape import Storage, TapeNode

_ndarray = np.ndarray


class Size(tuple[int, ...]):
    """A shape, printed as PyTorch does: `jitgrad.Size([2, 3])`."""

    __slots__ = ()

    def numel(self) -> int:
        """Number of elements."""
        total = 1
        for n in self:
            total *= n
        return total

    def __add__(self, other: Any) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, other))

    def __repr__(self) -> str:
        return f"jitgrad.Size([{', '.join(map(str, self))}])"


_sizes: Memo[Size] = Memo(limit=4096)


class ViewInfo:
    """How a view is derived: the view ops `ops` applied to `base`, which owns the memory.

    Gradients flow to it from `origin` through `origin_ops`; a detached alias has no origin and is one for its
    own views.
    """

    __slots__ = ("base", "ops", "origin", "origin_ops")

    def __init__(self, base: Tensor, ops: tuple[Any, ...], origin: Tensor | None, origin_ops: tuple[Any, ...]) -> None:
        self.base = base
        self.ops = ops
        self.origin = origin
        self.origin_ops = origin_ops


class Tensor:
    """A multi-dimensional array of one element type.

    Make one with `jitgrad.tensor`, `jitgrad.zeros` and the like.

        >>> import jitgrad as jg
        >>> x = jg.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    __slots__ = (
        "__dict__", "__weakref__", "_data", "_grad", "_hooks", "_index", "_node", "_requires_grad",
        "_storage", "_view",
    )  # fmt: skip

    _data: Any
    _node: TapeNode | None
    _index: int
    _requires_grad: bool
    _storage: Storage | None
    _view: ViewInfo | None

    @property
    def shape(self) -> Size:
        """Lengths of the axes."""
        data = self._data
        shape = data.shape
        if data.__class__ is not _ndarray:
            return Size(shape)
        found = _sizes.get(shape)
        return _sizes.add(shape, Size(shape)) if found is None else found

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtypes.FROM_NUMPY[self._data.dtype]

    @property
    def device(self) -> Device:
        """Where the data lives."""
        data = self._data
        if data.__class__ is _ndarray:
            return CPU
        if data.__class__ is DeviceArray:
            return data.device  # type: ignore[no-any-return]
        if isinstance(data, LevelData):
            return data.device
        tracer = local.mode.tracer
        return CPU if tracer is None else tracer.placement.where

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self._data.ndim)

    @property
    def type_(self) -> TensorType:
        """The IR type."""
        return tensor_type(self._data.shape, self._data.dtype)

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded for gradients."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Switch recording on or off, in place; only leaves may be switched off."""
        if requires_grad and not self.dtype.is_differentiable:
            raise AutogradError(
                f"only Tensors of floating point and complex dtype can require gradients, not {self.dtype.name}"
            )
        if requires_grad and local.mode.transforms:
            raise AutogradError(
                "You are attempting to call Tensor.requires_grad_() "
                "inside of a function being transformed by a functional transform. This is unsupported, please use the "
                "functional transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a "
                "function being transformed instead."
            )
        if not requires_grad and self._node is not None:
            raise AutogradError(
                "you can only change requires_grad flags of leaf variables; use detach() to get one without history"
            )
        if requires_grad != self._requires_grad:
            self._requires_grad = requires_grad
            note_rebinding()
            tracer = local.mode.tracer
            if tracer is not None and isinstance(self._data, (np.ndarray, DeviceArray)):
                tracer.lost = "the call changed requires_grad of a tensor made outside it"
        return self

    @property
    def is_leaf(self) -> bool:
        """True for tensors the user made, and for all that do not require gradients."""
        return self._node is None

    @property
    def grad_fn(self) -> TapeNode | None:
        """The tape node that made this tensor."""
        return self._node

    @property
    def _version(self) -> int:
        """How often this tensor's memory has been written in place."""
        return 0 if self._storage is None else self._storage._version

    @property
    def _base(self) -> Tensor | None:
        """The tensor this one is a view of."""
        view = self._view
        return None if view is None else view.origin

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None."""
        tracer = local.mode.tracer
        return self._grad if tracer is None else tracer.read_grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        check_grad(self, value)
        tracer = local.mode.tracer
        if tracer is None:
            self._grad = value
        else:
            tracer.write_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

    def __hash__(self) -> int:
        return id(self)


@functools.lru_cache(65536)
def tensor_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> TensorType:
    """The IR type of an array of that shape and NumPy dtype."""
    return TensorType(shape, dtypes.FROM_NUMPY[dtype])


class _Rebinding:
    """Counts events that may invalidate what a compiled function knows of captured tensors."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


rebinding = _Rebinding()


def note_rebinding() -> None:
    """A tensor got other memory, shape or `requires_grad`: compiled functions look again."""
    rebinding.count += 1


def check_grad(tensor: Tensor, value: Any) -> None:
    """`value` may become `tensor.grad`."""
    if value is None:
        return
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad must be a Tensor or None, not {type(value).__name__}")
    if value.device != tensor.device:
        raise AutogradError(
            f"assigned grad has data located on a different device: {value.device}, while the tensor is on "
            f"{tensor.device}"
        )
    if value.shape != tensor.shape or value.dtype is not tensor.dtype:
        raise AutogradError(
            f"assigned grad has type {value.type_}, but the tensor has type {tensor.type_}; they must be equal"
        )


_new = object.__new__


def wrap(data: Any, cls: type[Tensor] = Tensor) -> Tensor:
    """A leaf tensor around an array (0-d arrays included, not NumPy scalars) or an IR value."""
    t = _new(cls)
    t._data = data
    t._node = None
    t._index = 0
    t._requires_grad = False
    t._storage = None
    t._view = None
    t._grad = None
    t._hooks = None
    return t


def end_trace() -> None:
    """End the trace, if there is one, because data is about to be reached that others may write to."""
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.materialise("the value of a tensor was read")


def to_array(t: Tensor) -> np.ndarray[Any, Any]:
    """The data as a NumPy array sharing memory, or a copy from a device. While tracing, this ends the trace first."""
    t = outermost(t)
    end_trace()
    return on_host(t._data)


def outermost(t: Tensor) -> Tensor:
    """The tensor with the elements of `t` outside all transforms; raises where a transform has several samples."""
    while isinstance(t._data, LevelData):
        t = t._data.values()
    return t


def read_array(t: Tensor) -> np.ndarray[Any, Any]:
    """The data as a NumPy array that is only read. While tracing, what follows holds for these elements."""
    t = outermost(t)
    tracer = local.mode.tracer
    return on_host(t._data) if tracer is None else tracer.read(t)


def truth(t: Tensor) -> bool:
    """Whether the only element is not zero. While tracing, what follows holds for this answer."""
    t = outermost(t)
    tracer = local.mode.tracer
    return _is_true(on_host(t._data)) if tracer is None else tracer.outcome(t, _is_true)


def _is_true(array: np.ndarray[Any, Any]) -> bool:
    return bool(array.item())


def made_by_host(function: Callable[..., list[Any]], tensors: tuple[Tensor, ...], *fixed: Any) -> list[Tensor]:
    """Tensors of the arrays that a module's function makes of the elements, `function(*arrays, *fixed)`.

    Their shapes may depend on the elements: while tracing, what follows holds for these shapes.
    """
    tensors = tuple(map(outermost, tensors))
    tracer = local.mode.tracer
    if tracer is not None:
        return tracer.computed(function, tensors, fixed)
    arrays = function(*[on_host(t._data) for t in tensors], *fixed)
    place = tensors[0].device
    return [wrap(on_device(x, place)) for x in arrays]
