"""Taking tensors apart and putting them together: concatenation, splitting, parts of an axis."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DimError, ShapeError, operand_lines
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Concat, Slice

from ..aliasing import view
from ..dispatch import apply
from ..errors import located
from ..known_views import known
from ..promotion import result_dtype
from ..tensor import Tensor
from .dims import normalize_dim
from .registry import numpy_names, public


def stretch(input: Tensor, axis: int, start: int, length: int) -> Tensor:
    """`length` places along `axis` from `start` on, as a view; the bounds are the caller's."""
    starts = tuple(start if a == axis else 0 for a in range(input.ndim))
    shape = (*input.shape[:axis], length, *input.shape[axis + 1 :])
    return view(Slice(starts, shape, (1,) * input.ndim), input)


def _start(start: Any) -> int:
    if isinstance(start, Tensor) and (start.ndim or start.dtype.kind != "int"):
        raise located(ShapeError("start must be an 0-dim integral Tensor."))
    return int(start)


@public()
@known
@numpy_names
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` places along `dim` from `start` on, as a view.

    >>> import jitgrad as jg
    >>> jg.arange(5).narrow(0, 1, 3)
    tensor([1, 2, 3])
    """
    if input.ndim == 0:
        raise located(ShapeError("narrow() cannot be applied to a 0-dim tensor."))
    axis = normalize_dim(dim, input.ndim)
    size, first = input.shape[axis], _start(start)
    if length < 0:
        raise located(ShapeError("narrow(): length must be non-negative."))
    if not -size <= first <= size:
        raise located(DimError(f"start out of range (expected to be in range of [{-size}, {size}], but got {first})"))
    first = first + size if first < 0 else first
    if first + length > size:
        raise located(ShapeError(f"start ({first}) + length ({length}) exceeds dimension size ({size})."))
    return stretch(input, axis, first, length)


@public()
@known
@numpy_names
def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """The place `index` along `dim`, which is dropped, as a view.

    >>> import jitgrad as jg
    >>> jg.tensor([[1, 2], [3, 4]]).select(1, 0)
    tensor([1, 3])
    """
    if input.ndim == 0:
        raise located(DimError("select() cannot be applied to a 0-dim tensor."))
    axis = normalize_dim(dim, input.ndim)
    size, at = input.shape[axis], int(index)
    if not -size <= at < size:
        raise located(
            DimError(f"select(): index {at} out of range for tensor of size {list(input.shape)} at dimension {axis}")
        )
    part = stretch(input, axis, at % size, 1)
    return view(Reshape((*input.shape[:axis], *input.shape[axis + 1 :])), part)


@public()
@known
@numpy_names
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All places along `dim`, as a tuple of views.

    >>> import jitgrad as jg
    >>> jg.tensor([[1, 2], [3, 4]]).unbind()
    (tensor([1, 2]), tensor([3, 4]))
    """
    if input.ndim == 0:
        raise located(DimError("Dimension specified as 0 but tensor has no dimensions"))
    axis = normalize_dim(dim, input.ndim)
    return tuple([select(input, axis, i) for i in range(input.shape[axis])])


@public()
@known
@numpy_names
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of stretches along `dim`: of one length (the last may be shorter), or of the lengths given.

    >>> import jitgrad as jg
    >>> jg.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    axis = normalize_dim(dim, tensor.ndim)
    if tensor.ndim == 0:
        raise located(ShapeError("split expects at least a 1-dimensional tensor"))
    size = tensor.shape[axis]
    if isinstance(split_size_or_sections, (tuple, list)):
        lengths = [_integer(n) for n in split_size_or_sections]
        if sum(lengths) != size or any(n < 0 for n in lengths):
            raise located(
                ShapeError(
                    f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at "
                    f"dimension {axis}), but got split_sizes={lengths}"
                )
            )
    else:
        step = _integer(split_size_or_sections)
        if step < 0 or (step == 0 and size):
            raise located(ShapeError(f"split expects split_size be non-negative, but got split_size={step}"))
        full = len(range(0, size, step)) - 1 if size else 0
        lengths = [step] * full + [size - step * full]
    return _stretches(tensor, axis, lengths)


def _integer(n: Any) -> int:
    """An integer as it is, for it may be one that export tracks."""
    return n if isinstance(n, int) else int(n)


def _stretches(input: Tensor, axis: int, lengths: Sequence[int]) -> tuple[Tensor, ...]:
    parts, start = [], 0
    for length in lengths:
        parts.append(stretch(input, axis, start if length else 0, length))
        start += length
    return tuple(parts)


@public()
@known
@numpy_names
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal length along `dim`; the last may be shorter.

    >>> import jitgrad as jg
    >>> jg.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    axis = normalize_dim(dim, input.ndim)
    if input.ndim == 0:
        raise located(ShapeError("chunk expects at least a 1-dimensional tensor"))
    if chunks <= 0:
        raise located(ShapeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}"))
    size = input.shape[axis]
    if size == 0:
        return tuple([stretch(input, axis, 0, 0) for _ in range(chunks)])
    return split(input, -(-size // chunks), axis)


def _tensors(tensors: Any, name: str) -> tuple[Tensor, ...]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise located(
            ArgumentTypeError(f"{name}(): argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}")
        )
    if not tensors:
        error = ArgumentError if name == "cat" else ShapeError
        raise located(error(f"{name}(): expected a non-empty list of Tensors"))
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise located(
                ArgumentTypeError(f"{name}(): element {i} of the tensors is not a Tensor but {type(t).__name__}")
            )
    return tuple(tensors)


def _common(tensors: Sequence[Tensor]) -> list[Tensor]:
    """All in their common dtype."""
    dtype = result_dtype(*tensors)
    return [t if t.dtype is dtype else apply(Convert(dtype), t) for t in tensors]


@public("cat", "concat", "concatenate", method=False, out=True)
@numpy_names
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along `dim`, in their common dtype.

    >>> import jitgrad as jg
    >>> jg.cat([jg.tensor([1, 2]), jg.tensor([3.0])])
    tensor([1., 2., 3.])
    """
    given = _common(_tensors(tensors, "cat"))
    shapes = [t._data.shape for t in given]
    if () in shapes:
        at = next(i for i, t in enumerate(given) if t.ndim == 0)
        raise located(ShapeError(f"zero-dimensional tensor (at position {at}) cannot be concatenated"))
    kept = given if (0,) not in shapes else [t for t in given if t.shape != (0,)] or given[:1]
    axis = normalize_dim(dim, kept[0].ndim)
    if shapes.count(shapes[0]) == len(shapes):
        return apply(Concat(axis), *kept)
    first = kept[0]
    for i, t in enumerate(kept):
        rest = [n for a, n in enumerate(t.shape) if a != axis]
        if t.ndim != first.ndim or rest != [n for a, n in enumerate(first.shape) if a != axis]:
            raise located(
                ShapeError(
                    f"cat: sizes of tensors must match except in dimension {axis}: tensor {i} does not fit the first"
                    f"{operand_lines((first.type_, t.type_))}"
                )
            )
    return apply(Concat(axis), *kept)


@public(method=False, out=True)
@numpy_names
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis `dim`.

    >>> import jitgrad as jg
    >>> jg.stack([jg.tensor([1, 2]), jg.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    given = _common(_tensors(tensors, "stack"))
    shape = tuple(given[0].shape)
    axis = normalize_dim(dim, len(shape) + 1)
    for i, t in enumerate(given):
        if t.shape != shape:
            raise located(
                ShapeError(
                    f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                    f"{list(t.shape)} at entry {i}"
                )
            )
    new = Reshape((*shape[:axis], 1, *shape[axis:]))
    return apply(Concat(axis), *[view(new, t) for t in given])


@known
def _at_least(input: Any, ndim: int) -> Any:
    """A tensor with at least `ndim` dims, as the `atleast_nd` functions make it; sequences one by one."""
    if isinstance(input, (tuple, list)):
        return tuple([_at_least(t, ndim) for t in input])
    shape = tuple(input.shape)
    if len(shape) >= ndim:
        return input
    if ndim == 3:
        shape = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[len(shape)]
    else:
        shape = (1,) * (ndim - len(shape)) + shape
    return view(Reshape(shape), input)


@public(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """0-d tensors as vectors; others as they are."""
    return _at_least(tensors[0] if len(tensors) == 1 else tensors, 1)


@public(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors of fewer than two dims with new ones in front."""
    return _at_least(tensors[0] if len(tensors) == 1 else tensors, 2)


@public(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors of fewer than three dims with new ones: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    return _at_least(tensors[0] if len(tensors) == 1 else tensors, 3)


@public(method=False, out=True)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side: along dim 1, vectors along dim 0.

    >>> import jitgrad as jg
    >>> jg.hstack([jg.tensor([1, 2]), jg.tensor([3])])
    tensor([1, 2, 3])
    """
    given = _at_least(_tensors(tensors, "hstack"), 1)
    return cat(given, 0 if given[0].ndim == 1 else 1)


@public("vstack", "row_stack", method=False, out=True)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors on top of each other: along dim 0, vectors as rows."""
    return cat(_at_least(_tensors(tensors, "vstack"), 2), 0)


@public(method=False, out=True)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors behind each other: along dim 2, with new dims where there are fewer."""
    return cat(_at_least(_tensors(tensors, "dstack"), 3), 2)


@public(method=False, out=True)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side, vectors as columns."""
    given = _tensors(tensors, "column_stack")
    return hstack([view(Reshape((t.type_.numel, 1)), t) if t.ndim <= 1 else t for t in given])


@public()
@known
@numpy_names
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Views of stretches along `dim`: so many of nearly equal length, or cut at the given places.

    >>> import jitgrad as jg
    >>> jg.tensor_split(jg.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    given = next((x for x in (indices_or_sections, indices, sections) if x is not None), None)
    if input.ndim == 0:
        raise located(ShapeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"))
    axis = normalize_dim(dim, input.ndim)
    size = input.shape[axis]
    if isinstance(given, Tensor):
        given = _split_tensor(given)
    if isinstance(given, (tuple, list)):
        cuts = [slice(int(i)).indices(size)[1] for i in given]
    else:
        count = _whole("tensor_split", given)
        if count <= 0:
            raise located(ShapeError(f"number of sections must be larger than 0, got {count}"))
        cuts = [size // count * i + min(i, size % count) for i in range(1, count)]
    bounds = [0, *cuts, size]
    return tuple([stretch(input, axis, a if b > a else 0, max(b - a, 0)) for a, b in itertools.pairwise(bounds)])


def _split_tensor(given: Tensor) -> Any:
    """Places or a number of parts that a tensor holds."""
    if given.dtype.name != "int64":
        raise located(
            ShapeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got " + given.dtype.name
            )
        )
    if given.ndim > 1:
        raise located(
            ShapeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                f"but got a tensor with {given.ndim} dims"
            )
        )
    return given.tolist()  # type: ignore[attr-defined]


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise located(
            ArgumentTypeError(f"{name}(): sections must be an int or a sequence of ints, not {type(value).__name__}")
        ) from None


def _split_along(name: str, input: Tensor, given: Any, axis: int, least: int) -> tuple[Tensor, ...]:
    """`tensor_split` along `axis`; so many parts must divide it."""
    if input.ndim < least:
        raise located(
            ShapeError(
                f"jitgrad.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
                "dimensions!"
            )
        )
    if not isinstance(given, (tuple, list)):
        count = _whole(name, given)
        if count == 0 or input.shape[axis] % count:
            raise located(
                ShapeError(
                    f"jitgrad.{name} attempted to split along dimension {axis}, but the size of the dimension "
                    f"{input.shape[axis]} is not divisible by the split_size {count}!"
                )
            )
    return tensor_split(input, given, axis)


@public()
@known
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 1, of vectors along dim 0.

    >>> import jitgrad as jg
    >>> [part.shape for part in jg.hsplit(jg.zeros(2, 4), 2)]
    [jitgrad.Size([2, 2]), jitgrad.Size([2, 2])]
    """
    return _split_along("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@public()
@known
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 0."""
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


@public()
@known
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 2."""
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


@public("slice", function=False)
@known
def slice_method(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A view of every `step`-th place along `dim` from `start` up to `end`: `input[start:end:step]` of that dim."""
    axis = normalize_dim(dim, input.ndim)
    if step <= 0:
        raise located(ShapeError("slice step must be positive"))
    return input[(*(slice(None),) * axis, slice(start, end, step))]  # type: ignore[index, no-any-return]


@public("split_with_sizes")
@known
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of stretches of the given lengths along `dim`."""
    return split(input, list(split_sizes), dim)


public("unsafe_split")(split)
public("unsafe_chunk")(chunk)
public("unsafe_split_with_sizes")(split_with_sizes)
