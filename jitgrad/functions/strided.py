"""Tensors with strides of one's own, and other shapes of the memory that a tensor has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import OperationError, ShapeError
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.strided import AsStrided
from jitgrad.ir.ops.write import WriteView

from ..aliasing import layout, view
from ..creation import check_dtype
from ..device import as_device
from ..dispatch import apply, infer
from ..errors import located
from ..levels import LevelData
from ..mode import local
from ..rebinding import resize, share_memory, view_in_place
from ..tensor import Tensor, wrap
from .dims import sizes
from .registry import public


def _rows_of_memory(t: Tensor) -> tuple[Permute, Reshape]:
    """The views that show a tensor without gaps in the order of its memory, as a vector."""
    array = layout(t)
    assert array is not None
    order = sorted(range(array.ndim), key=lambda a: (-array.strides[a], a))
    if not array.transpose(order).flags.c_contiguous:
        raise located(ShapeError("as_strided: the memory of the tensor has gaps, or shows an element twice"))
    return Permute(tuple(order)), Reshape((math.prod(array.shape),))


def _strided(t: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> tuple[Tensor, AsStrided]:
    """The base of `t`, and the op that shows its memory, as a vector, with these strides."""
    if len(size) != len(stride):
        raise located(ShapeError(f"mismatch in length of strides and shape: {list(stride)} and {list(size)}"))
    if any(s < 0 for s in stride):
        raise located(ShapeError(f"as_strided: Negative strides are not supported, got strides: {list(stride)}"))
    if isinstance(t._data, LevelData):  # the memory of one sample
        return t, AsStrided(tuple(size), tuple(stride), offset or 0)
    here = t.storage_offset()  # type: ignore[attr-defined]  # ends a trace, to which arguments are no views
    origin = None if t._view is None else t._view.origin
    base: Any = t if origin is None else origin
    start = here if offset is None else offset
    return base, AsStrided(tuple(size), tuple(stride), start - base.storage_offset())


@public()
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of the memory of `input` with a shape, strides and offset (in elements) of one's own.

    >>> import jitgrad as jg
    >>> jg.as_strided(jg.arange(6), (2, 2), (3, 1), 1)
    tensor([[1, 2],
            [4, 5]])
    """
    base, op = _strided(input, size, stride, storage_offset)
    order, flat = _rows_of_memory(base)
    memory = view(flat, view(order, base))
    infer(op, (memory.type_,))
    return view(op, memory)


@public(function=False)
def as_strided_(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """In-place form of `as_strided`: `self` becomes another view of its memory."""
    if self._view is not None:
        raise located(ShapeError("as_strided_: the tensor is a view of another"))
    _, op = _strided(self, size, stride, storage_offset)
    for step in (*_rows_of_memory(self), op):
        view_in_place(self, step, "as_strided_")
    return self


@public(out="exact")
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` where the elements that `as_strided` would show are those of `src`.

    >>> import jitgrad as jg
    >>> jg.as_strided_scatter(jg.zeros(4), jg.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    here = 0 if isinstance(input._data, LevelData) else input.storage_offset()  # type: ignore[attr-defined]
    start = 0 if storage_offset is None else storage_offset - here
    views = (*_rows_of_memory(input), AsStrided(tuple(size), tuple(stride), start))
    if tuple(src.shape) != tuple(size):
        raise located(
            ShapeError(
                "expected src to have a size equal to the slice of self. src size = "
                f"{list(src.shape)}, slice size = {list(size)}"
            )
        )
    return apply(WriteView(views), input, src.to(input.dtype))  # type: ignore[attr-defined]


@public(method=False)
def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of this shape and these strides, whose values are not specified (they are zero).

    >>> import jitgrad as jg
    >>> jg.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    as_device(device)
    want = check_dtype(dtype, local.mode.default_dtype)
    if len(size) != len(stride) or any(n < 0 for n in (*size, *stride)):
        raise located(ShapeError(f"empty_strided: size {list(size)} and stride {list(stride)} do not fit"))
    room = 1 + sum(s * (n - 1) for n, s in zip(size, stride, strict=True)) if math.prod(size) else 0
    op = AsStrided(tuple(size), tuple(stride))
    if local.mode.tracer is not None:
        made = view(op, apply(Full((room,), want, 0)))
    else:
        made = wrap(op.reference(np.zeros(room, want.np)))
    return made.requires_grad_() if requires_grad else made


@public(method=False)
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor without gaps whose dims lie in memory in the order `physical_layout`, outermost first.

    >>> import jitgrad as jg
    >>> jg.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
    """
    given = sizes((size,), "size")
    if sorted(physical_layout) != list(range(len(given))):
        raise located(
            OperationError(
                f"Number of dimensions in size and physical_layout do not match, or a dimension comes twice: "
                f"{list(given)} and {list(physical_layout)}"
            )
        )
    strides, step = [0] * len(given), 1
    for axis in reversed(physical_layout):
        strides[axis] = step
        step *= max(given[axis], 1)
    return empty_strided(given, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@public(function=False)
def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`empty_strided` in the dtype of this tensor."""
    return empty_strided(size, stride, dtype=check_dtype(dtype, self.dtype), device=device, requires_grad=requires_grad)


@public(function=False)
def resize_(self: Tensor, *sizes_: Any, memory_format: Any = None) -> Tensor:
    """Give `self` another shape: of the memory it has, if that is enough; new elements have no particular value.

    >>> import jitgrad as jg
    >>> jg.arange(4).resize_(3)
    tensor([0, 1, 2])
    """
    shape = sizes(sizes_, "resize_: size")
    if any(n < 0 for n in shape):
        raise located(ShapeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"))
    resize(self, shape)
    return self


@public("resize_as_")
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`input.resize_(the_template.shape)`."""
    return resize_(input, tuple(the_template.shape))


@public(function=False)
def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Let `self` be a tensor of the memory of `source`, with a shape and strides of its own if they are given.

    >>> import jitgrad as jg
    >>> jg.zeros(1).set_(jg.arange(4.0), 1, (2,), (2,))
    tensor([1., 3.])
    """
    if source is None:
        resize(self, (0,))
        return self
    if source.dtype is not self.dtype:
        raise located(OperationError(f"set_: the source is {source.dtype.name}, the tensor {self.dtype.name}"))
    shown = source.detach()
    if size is not None:
        shape = sizes((size,), "set_: size")
        steps = stride if stride is not None else empty_strides(shape)
        shown = as_strided(shown, shape, steps, storage_offset)
    share_memory(self, shown)
    return self


def empty_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    return tuple(math.prod(shape[a + 1 :]) for a in range(len(shape)))
