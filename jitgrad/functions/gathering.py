"""Reading and writing at indices along a dim: `gather`, `scatter`, `index_select`, `take`, masks, and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DimError, DTypeError, OperationError, ShapeError, operand_lines
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.indexing import Gather, IndexAdd, IndexPut, IndexSelect, Scatter, ScatterAdd, TakeNd
from jitgrad.ir.ops.scatter_product import ScatterProduct
from jitgrad.ir.ops.shape import Reshape

from ..aliasing import view
from ..dispatch import apply, beside
from ..errors import located
from ..indexing import chosen_by, coordinates, fitted, read_at
from ..levels import innermost
from ..mode import local
from ..tensor import Tensor
from .dims import normalize_dim
from .pointwise import convert
from .registry import FUNCTIONS, numpy_names, public

Number = bool | int | float | complex


def integers(index: Tensor, name: str) -> Tensor:
    """`index`, if it is of an integer dtype that indexes; one without elements may be of any dtype."""
    if index.dtype not in (dtypes.int64, dtypes.int32):
        if index.type_.numel == 0:
            return convert(index, dtypes.int64)
        raise located(DTypeError(f"{name}(): Expected dtype int64 for index, got {index.dtype.name}"))
    return index


def rows(t: Tensor) -> Tensor:
    """0-d tensors as 1-d ones."""
    return t if t.ndim else view(Reshape((1,)), t)


def shaped_like(result: Tensor, input: Tensor) -> Tensor:
    """A result computed 1-d for a 0-d input, 0-d again."""
    return result if result.ndim == input.ndim else view(Reshape(tuple(input.shape)), result)


def same_dtype(name: str, input: Tensor, source: Tensor) -> None:
    """Raise unless the dtypes are equal."""
    if input.dtype is not source.dtype:
        raise located(
            DTypeError(
                f"{name}(): Expected self.dtype to be equal to src.dtype{operand_lines((input.type_, source.type_))}"
            )
        )


@public(out="exact")
@numpy_names
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The elements named by `index` along `dim`: for dim 0, `out[i][j] = input[index[i][j]][j]`.

    >>> import jitgrad as jg
    >>> jg.gather(jg.tensor([[1, 2], [3, 4]]), 1, jg.tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    axis = normalize_dim(dim, input.ndim)
    at = integers(index, "gather")
    if at.type_.numel == 0:  # of any shape
        return input.reshape(-1)[:0].reshape(index.shape)  # type: ignore[attr-defined, no-any-return]
    return shaped_like(apply(Gather(axis), rows(input), rows(at)), index)


def part_of(source: Tensor, index: Tensor, name: str, axis: int, input: Tensor) -> Tensor:
    """The part of `source` that has the shape of `index`."""
    if source.ndim != index.ndim or any(n > m for n, m in zip(index.shape, source.shape, strict=False)):
        raise located(
            ShapeError(
                f"{name}: Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from "
                f"dimension {axis} and to be no larger than src {list(source.shape)}"
            )
        )
    return source if source.shape == index.shape else source[tuple(slice(n) for n in index.shape)]  # type: ignore[index, no-any-return]


@public(inplace=True, out="exact")
@numpy_names
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """`input` with the elements named by `index` along `dim` set to those of `src`, or to the number `value`.

    With `reduce="add"` or `"multiply"` they are combined with what is there. Of several elements set to one
    place the last stays.

        >>> import jitgrad as jg
        >>> jg.zeros(2, 2).scatter(1, jg.tensor([[0], [1]]), 5.0)
        tensor([[5., 0.],
                [0., 5.]])
    """
    axis = normalize_dim(dim, input.ndim)
    base, at = rows(input), rows(integers(index, "scatter"))
    given = value if src is None else src
    if isinstance(given, Tensor) and src is not None:
        same_dtype("scatter", input, given)
        source = part_of(rows(given), at, "scatter", axis, input)
    else:
        source = fitted(given, tuple(at.shape), input.dtype)
    if reduce is None:
        out = apply(Scatter(axis), base, at, source)
    elif reduce == "add":
        out = apply(ScatterAdd(axis), base, at, source)
    elif reduce == "multiply":
        out = apply(ScatterProduct(axis), base, at, source)
    else:
        raise located(OperationError(f"scatter: reduce must be either add or multiply, not {reduce!r}"))
    return shaped_like(out, input)


@public(inplace=True, out="exact")
@numpy_names
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with `src` added at the elements named by `index` along `dim`; repeated ones add up.

    >>> import jitgrad as jg
    >>> jg.zeros(3).scatter_add(0, jg.tensor([0, 0, 2]), jg.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    axis = normalize_dim(dim, input.ndim)
    same_dtype("scatter", input, src)
    at = rows(integers(index, "scatter_add"))
    out = apply(ScatterAdd(axis), rows(input), at, part_of(rows(src), at, "scatter_add", axis, input))
    return shaped_like(out, input)


def vector(index: Tensor, name: str) -> Tensor:
    """`index` as a vector of indices."""
    if index.ndim > 1:
        raise located(DimError(f"{name}(): Index is supposed to be a vector, not {index.ndim}-D"))
    return rows(integers(index, name))


@public(out="exact")
@numpy_names
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The places along `dim` named by a vector of indices.

    >>> import jitgrad as jg
    >>> jg.index_select(jg.tensor([[1, 2], [3, 4]]), 1, jg.tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """
    axis = normalize_dim(dim, input.ndim)
    return shaped_like(apply(IndexSelect(axis), rows(input), vector(index, "index_select")), input)


def places(input: Tensor, axis: int, index: Tensor, source: Tensor, name: str) -> Tensor:
    """`source` if it fits the places of `input` named by `index`, broadcast along no axis."""
    shape = [*rows(input).shape]
    shape[axis] = index.shape[0]
    source = rows(source)
    if list(source.shape) != shape:
        raise located(
            ShapeError(f"{name}(): source has shape {list(source.shape)}, but the indexed places have {shape}")
        )
    return source


@public(inplace=True, out="exact")
@numpy_names
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """`input` with `alpha * source` added to the places along `dim` named by a vector; repeated ones add up.

    >>> import jitgrad as jg
    >>> jg.zeros(3).index_add(0, jg.tensor([1, 1]), jg.tensor([1.0, 2.0]))
    tensor([0., 3., 0.])
    """
    axis = normalize_dim(dim, input.ndim)
    same_dtype("index_add", input, source)
    at = vector(index, "index_add")
    source = places(input, axis, at, source, "index_add")
    if alpha != 1:
        source = apply(Mul(), source, fitted(alpha, tuple(source.shape), source.dtype))
    return shaped_like(apply(IndexAdd(axis), rows(input), at, source), input)


@public(inplace=True, out="exact")
@numpy_names
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the places along `dim` named by a vector set to those of `source`.

    >>> import jitgrad as jg
    >>> jg.zeros(3).index_copy(0, jg.tensor([2, 0]), jg.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    axis = normalize_dim(dim, input.ndim)
    same_dtype("index_copy", input, source)
    at = vector(index, "index_copy")
    out = apply(IndexPut((axis,)), rows(input), at, places(input, axis, at, source, "index_copy"))
    return shaped_like(out, input)


@public(inplace=True)
@numpy_names
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """`input` with the places along `dim` named by a vector set to one number.

    >>> import jitgrad as jg
    >>> jg.zeros(3).index_fill(0, jg.tensor([0, 2]), 1)
    tensor([1., 0., 1.])
    """
    axis = normalize_dim(dim, input.ndim)
    base, at = rows(input), vector(index, "index_fill")
    shape = tuple(at.shape[0] if a == axis else n for a, n in enumerate(base.shape))
    return shaped_like(apply(IndexPut((axis,)), base, at, fitted(value, shape, input.dtype)), input)


@public(inplace=True)
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with `input[indices]` set to `values`, or with `values` added there.

    >>> import jitgrad as jg
    >>> jg.zeros(3).index_put((jg.tensor([0, 0]),), jg.tensor(1.0), accumulate=True)
    tensor([2., 0., 0.])
    """
    same_dtype("index_put", input, values)
    found = coordinates(tuple(input.shape), tuple(slice(None) if i is None else i for i in indices))
    axes = tuple(sorted(found))
    at = [beside(found[a], input) for a in axes]
    region = TakeNd(axes).infer(input.type_, *[i.type_ for i in at])[0].shape
    return apply(IndexPut(axes, accumulate), input, *at, fitted(values, region, input.dtype, indexed=True))


@public(out="exact")
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at row-major positions, in the shape of `index`.

    >>> import jitgrad as jg
    >>> jg.take(jg.tensor([[1, 2], [3, 4]]), jg.tensor([0, -1]))
    tensor([1, 4])
    """
    return apply(TakeNd((0,)), view(Reshape((input.type_.numel,)), input), integers(index, "take"))


@public(inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with the elements at row-major positions set to those of `source`, or with them added there."""
    same_dtype("put", input, source)
    flat = view(Reshape((input.type_.numel,)), input)
    at, values = integers(index, "put").reshape(-1), source.reshape(-1)  # type: ignore[attr-defined]
    return view(Reshape(tuple(input.shape)), apply(IndexPut((0,), accumulate), flat, at, values))


@public(out="exact")
@numpy_names
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements named by `indices` along `dim`, the other dims broadcast; of the flat tensor without `dim`.

    >>> import jitgrad as jg
    >>> x = jg.tensor([[3, 1], [2, 4]])
    >>> jg.take_along_dim(x, jg.tensor([[1, 0]]), 1)
    tensor([[1, 3],
            [4, 2]])
    """
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))  # type: ignore[attr-defined]
    if input.ndim != indices.ndim:
        raise located(
            ShapeError(
                "jitgrad.take_along_dim(): input and indices should have the same number of dimensions, but got "
                f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
            )
        )
    axis = normalize_dim(dim, input.ndim)
    common = [1 if a == axis else n for a, n in enumerate(input.shape)]
    theirs = [1 if a == axis else n for a, n in enumerate(indices.shape)]
    shape = np.broadcast_shapes(tuple(common), tuple(theirs))

    def spread(t: Tensor) -> Tensor:
        wanted = tuple(t.shape[a] if a == axis else n for a, n in enumerate(shape))
        return t if t.shape == wanted else view(BroadcastTo(wanted), t)

    return gather(spread(input), axis, spread(indices))


def _mask_and_input(input: Tensor, mask: Tensor, name: str) -> tuple[Tensor, Tensor]:
    if mask.dtype is not dtypes.bool_:
        raise located(DTypeError(f"{name}: expected BoolTensor for mask, not {mask.dtype.name}"))
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    wide, chosen = (t if t.shape == shape else view(BroadcastTo(shape), t) for t in (input, mask))
    return wide, chosen


@public(out=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` is true, as a vector.

    >>> import jitgrad as jg
    >>> jg.masked_select(jg.tensor([1, 2, 3]), jg.tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask._data.shape == input._data.shape and (short := chosen_by(input, mask)) is not None:
        return short
    wide, chosen = _mask_and_input(input, mask, "masked_select")
    return read_at(rows(wide), coordinates(tuple(rows(wide).shape), (rows(chosen),)))


def _chosen_in_order(wide: Any, chosen: Any, source: Any) -> Tensor:
    """`masked_scatter` by counting, for masks whose values are not known; too short a source repeats its last one."""
    flat = source.reshape(-1)
    count = flat.shape[0]
    places = (chosen.reshape(-1).cumsum(0) - 1).clamp(0, max(count - 1, 0)).reshape(chosen.shape)
    values = flat[places] if count else wide
    return FUNCTIONS["where"](chosen, values, wide)


@public(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements where `mask` is true set to the first ones of `source`, in order.

    >>> import jitgrad as jg
    >>> jg.zeros(3).masked_scatter(jg.tensor([True, False, True]), jg.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    same_dtype("masked_scatter", input, source)
    wide, chosen = _mask_and_input(input, mask, "masked_scatter")
    if local.mode.levels and innermost((chosen._data,)) is not None:
        return _chosen_in_order(wide, chosen, source)
    found = coordinates(tuple(rows(wide).shape), (rows(chosen),))
    count = found[0].shape[0]
    if source.type_.numel < count:
        raise located(
            ShapeError(f"masked_scatter: the source has {source.type_.numel} elements, but {count} elements are masked")
        )
    values = source.reshape(-1)[:count]  # type: ignore[attr-defined]
    out = apply(IndexPut(tuple(sorted(found))), rows(wide), *[beside(found[a], wide) for a in sorted(found)], values)
    return shaped_like(out, wide)
