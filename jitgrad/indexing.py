"""`x[index]` and `x[index] = value`.

An index is read once into a plan: view ops for its integers, slices, `None` and `...`, and index tensors for the
axes indexed by lists, arrays and tensors. Without index tensors the result is a view; with them it is a copy.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DimError, DTypeError, ShapeError
from jitgrad.ir.op import View
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.indexing import IndexPut, IndexSelect, TakeNd
from jitgrad.ir.ops.select import Convert, Where
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Slice

from .aliasing import check_writable, put, put_plainly, views, write
from .dispatch import apply, beside, constant, shared
from .errors import located
from .functions.pointwise import filled
from .functions.positions import places
from .hot_path import hot
from .known_views import KnownView
from .levels import has_samples
from .memo import Memo
from .mode import local
from .tensor import Tensor, made_by_host, read_array, wrap

_known_views: Memo[tuple[KnownView, bool]] = Memo(limit=10_000)
_INDEX_DTYPES = (dtypes.int64, dtypes.int32)


class _Plan:
    """What an index means for a tensor of a given shape."""

    __slots__ = ("indices", "mask", "shape", "sizes", "source", "starts", "steps")

    def __init__(self, shape: Sequence[int]) -> None:
        self.source = tuple(shape)
        self.starts = [0] * len(shape)
        self.sizes = list(shape)
        self.steps = [1] * len(shape)
        self.shape: list[int] = []  # of the view, before index tensors
        self.indices: dict[int, Any] = {}  # index tensors by axis of the view
        self.mask: tuple[int, Tensor] | None = None  # the only index tensor, if it is a mask

    def views(self) -> tuple[View, ...]:
        """The view ops of the basic part."""
        ops: list[View] = []
        if (
            self.starts != [0] * len(self.source)
            or tuple(self.sizes) != self.source
            or self.steps != [1] * len(self.steps)
        ):
            ops.append(Slice(tuple(self.starts), tuple(self.sizes), tuple(self.steps)))
        if self.shape != self.sizes:
            ops.append(Reshape(tuple(self.shape)))
        return tuple(ops)

    def take(self, axis: int, index: int) -> None:
        """One place along a source axis, which is dropped."""
        length = self.source[axis]
        if not -length <= index < length:
            raise located(DimError(f"index {index} is out of bounds for dimension {axis} with size {length}"))
        self.starts[axis] = index + length if index < 0 else index
        self.sizes[axis] = 1

    def slice(self, axis: int, item: slice) -> None:
        """A stretch along a source axis."""
        length = self.source[axis]
        start, stop, step = slice(_bound(item.start), _bound(item.stop), _step(item.step)).indices(length)
        size = len(range(start, stop, step))
        self.starts[axis], self.sizes[axis], self.steps[axis] = (start, size, step) if size else (0, 0, 1)
        self.shape.append(size)

    def keep(self, axis: int) -> None:
        """A whole source axis."""
        self.shape.append(self.source[axis])


def _bound(value: Any) -> int | None:
    if value is None or value.__class__ is int:
        return value  # type: ignore[no-any-return]
    try:
        return operator.index(value)
    except TypeError:
        raise located(ArgumentTypeError("slice indices must be integers or None or have an __index__ method")) from None


def _step(value: Any) -> int:
    step = _bound(value)
    if step == 0:
        raise located(ArgumentError("slice step must not be zero"))
    return 1 if step is None else step


def _index_tensor(item: Any) -> Tensor:
    """Lists and arrays as tensors; checked to be of a dtype that can index."""
    if not isinstance(item, Tensor):
        if not isinstance(item, np.ndarray):
            array = np.asarray(_nested(item))
        else:
            array = item
        if array.size == 0 and array.dtype.kind == "f":
            array = array.astype(np.int64)
        if array.dtype not in dtypes.FROM_NUMPY:
            raise located(
                DimError(f"tensors used as indices must be long, int, byte or bool tensors, not {array.dtype}")
            )
        item = shared(array) if array is item else constant(array)
    if item.dtype not in _INDEX_DTYPES and item.dtype not in (dtypes.bool_, dtypes.uint8):
        raise located(
            DimError(f"tensors used as indices must be long, int, byte or bool tensors, not {item.dtype.name}")
        )
    return item  # type: ignore[no-any-return]


def _nested(item: Any) -> Any:
    if isinstance(item, Tensor):
        return read_array(item)
    if isinstance(item, (list, tuple, range)):
        return [_nested(x) for x in item]
    return item


def _consumed(item: Any) -> int:
    """How many axes an index item takes."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Tensor) and item.dtype in (dtypes.bool_, dtypes.uint8):
        return item.ndim
    return 1


def _items(index: Any) -> list[Any]:
    """The index as a list of ints, slices, None, `...`, bools and tensors."""
    out: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if item is None or item is Ellipsis or isinstance(item, (bool, int, slice)):
            out.append(item)
        elif isinstance(item, np.bool_):
            out.append(bool(item))
        elif isinstance(item, Tensor):
            scalar = item.ndim == 0 and item.dtype.kind == "int" and item.dtype is not dtypes.uint8
            known = scalar and not (local.mode.levels and has_samples(item))
            out.append(int(read_array(item)) if known else _index_tensor(item))
        elif isinstance(item, (list, tuple, range, np.ndarray)):
            array = _index_tensor(item)
            out.append(int(read_array(array)) if array.ndim == 0 and array.dtype.kind == "int" else array)
        elif isinstance(item, numbers.Integral) or hasattr(item, "__index__"):
            out.append(operator.index(item))
        else:
            raise located(
                DimError(
                    "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
                    f"indices (got {type(item).__name__})"
                )
            )
    return out


def _plan(shape: Sequence[int], index: Any) -> _Plan:
    """What `index` means for a tensor of this shape."""
    items = _items(index)
    missing = len(shape) - sum(map(_consumed, items))
    if missing < 0:
        if len(shape) == 0 and len(items) == 1 and isinstance(items[0], int):
            raise located(
                DimError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number")
            )
        raise located(DimError(f"too many indices for tensor of dimension {len(shape)}"))
    plan = _Plan(shape)
    axis = 0
    for item in (*items, Ellipsis):
        axis = _placed(plan, axis, item, missing)
        if item is Ellipsis:
            missing = 0
    return plan


def _placed(plan: _Plan, axis: int, item: Any, missing: int) -> int:
    """Apply one item to source axis `axis`; the next source axis."""
    if item is None:
        plan.shape.append(1)
        return axis
    if item is Ellipsis:
        for a in range(axis, axis + missing):
            plan.keep(a)
        return axis + missing
    if isinstance(item, bool):
        plan.indices[len(plan.shape)] = constant(np.zeros(1 if item else 0, np.int64))
        plan.shape.append(1)
        return axis
    if isinstance(item, slice):
        plan.slice(axis, item)
        return axis + 1
    if isinstance(item, int):
        plan.take(axis, item)
        return axis + 1
    return _place_tensor(plan, axis, item)


def _place_tensor(plan: _Plan, axis: int, item: Tensor) -> int:
    if item.dtype in _INDEX_DTYPES:
        plan.indices[len(plan.shape)] = item
        plan.keep(axis)
        return axis + 1
    for k, n in enumerate(item.shape):
        if n != plan.source[axis + k]:
            raise located(
                DimError(
                    f"The shape of the mask {list(item.shape)} at index {k} does not match the shape of the "
                    f"indexed tensor {list(plan.source)} at index {axis + k}"
                )
            )
    at = len(plan.shape)
    if item.ndim == 0:
        plan.shape.append(1)
        item = apply(Reshape((1,)), item)
        taken = 0
    else:
        taken = item.ndim
        for k in range(taken):
            plan.keep(axis + k)
    plan.mask = None if plan.indices else (at, item)
    plan.indices[at] = item
    return axis + taken


def _coordinates(plan: _Plan) -> dict[int, Tensor]:
    """Integer index tensors of one shape, by axis: masks become the places where they are true."""
    found: dict[int, Tensor] = {}
    for axis, index in plan.indices.items():
        if index.dtype in _INDEX_DTYPES:
            found[axis] = index
        else:
            for k, vector in enumerate(made_by_host(places, (index,))):
                found[axis + k] = vector
    shapes = {tuple(i.shape) for i in found.values()}
    if len(shapes) > 1:
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            listed = ", ".join(str(list(i.shape)) for i in found.values())
            raise located(
                DimError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}")
            ) from None
        found = {a: i if i.shape == shape else apply(BroadcastTo(shape), i) for a, i in found.items()}
    return found


def coordinates(shape: tuple[int, ...], index: tuple[Any, ...]) -> dict[int, Tensor]:
    """Index tensors of one shape by axis, for an index of index tensors, masks and full slices only."""
    return _coordinates(_plan(shape, index))


def _basic_key(index: Any) -> Any:
    """A hashable form of an index of integers, slices, `None` and `...`; None if there is more to it."""
    if index.__class__ is int:
        return index
    if index.__class__ is not tuple:
        index = (index,)
    key = []
    for item in index:
        if item.__class__ is slice:
            for bound in (item.start, item.stop, item.step):
                if bound is not None and bound.__class__ is not int:
                    return None
            key.append((item.start, item.stop, item.step))
        elif item is None or item is Ellipsis or item.__class__ is int:
            key.append(item)
        else:
            return None
    return tuple(key)


def _basic(shape: tuple[int, ...], index: Any) -> tuple[KnownView, bool] | None:
    """The view of a basic index, and whether it shows all as it is, remembered; None for other indices."""
    key = index if index.__class__ is int else _basic_key(index)
    if key is None:
        return None
    found = _known_views.get((shape, key))
    if found is None:
        one = key.__class__ is int and len(shape) > 1 and 0 <= key < shape[0]
        ops = _one_of(shape, key) if one else _plan(shape, index).views()
        found = _known_views.add((shape, key), (KnownView(ops or (Reshape(shape),), shape), not ops))
    return found


def _one_of(shape: tuple[int, ...], index: int) -> tuple[View, ...]:
    """The view ops of one place along the first axis: what loops over data ask for, each time another."""
    rest = shape[1:]
    whole = Reshape(rest)
    return (whole,) if shape[0] == 1 else (Slice((index, *(0,) * len(rest)), (1, *rest), (1,) * len(shape)), whole)


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`: a view for integers, slices, `None` and `...`; a copy for lists, arrays and tensors."""
    data = self._data
    shape = data.shape
    basic = _basic(shape, index)
    if basic is not None:
        return basic[0].applied(self, data)
    if isinstance(index, Tensor) and index.ndim and shape:
        if index.dtype in _INDEX_DTYPES:
            return _taken(self, (0,), index)  # type: ignore[no-any-return]
        chosen = chosen_by(self, index)
        if chosen is not None:
            return chosen
    plan = _plan(shape, index)
    ops = plan.views()
    if plan.indices:
        return read_at(views(ops, self) if ops else self, _coordinates(plan))
    return views(ops or (Reshape(shape),), self)


def chosen_by(x: Tensor, mask: Tensor) -> Tensor | None:
    """The elements of `x` where `mask` is true, without a record; None where there is more to it."""
    data, where, mode = x._data, mask._data, local.mode
    if data.__class__ is not np.ndarray or where.__class__ is not np.ndarray or mode.tracer is not None:
        return None
    if where.dtype != np.bool_ or where.shape != data.shape[: where.ndim] or (x._requires_grad and mode.grad):
        return None
    return wrap(np.ascontiguousarray(data[where]))


def read_at(x: Tensor, coordinates: dict[int, Tensor]) -> Tensor:
    """The elements at index tensors of one shape, given by axis."""
    axes = tuple(sorted(coordinates))
    return _taken(x, axes, *[coordinates[a] for a in axes])  # type: ignore[no-any-return]


@hot
def _taken(x: Tensor, axes: tuple[int, ...], *coordinates: Tensor) -> Tensor:
    """The same, with the index tensors in the order of the axes."""
    indices = [beside(i, x) for i in coordinates]
    if len(axes) == 1 and indices[0].ndim == 1:
        return apply(IndexSelect(axes[0]), x, indices[0])
    return apply(TakeNd(axes), x, *indices)


def _numpy_index(index: Any) -> Any:
    """An index that NumPy takes as this module does: a basic one, or an index tensor or mask; None for others."""
    if isinstance(index, Tensor):
        data = index._data
        return data if data.__class__ is np.ndarray and data.ndim and data.dtype.char in "?li" else None
    return None if index.__class__ is not int and _basic_key(index) is None else index


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`: the value is broadcast and converted to the dtype of `self`."""
    at = _numpy_index(index)
    if at is not None and put_plainly(self, value, at):
        return
    check_writable(self, "__setitem__")
    shape = self._data.shape
    basic = _basic(shape, index)
    if basic is not None:
        target = self if basic[1] else basic[0].applied(self, self._data)
        write(target, fitted(value, target._data.shape, target.dtype), "__setitem__", assigned=True)
        return
    plan = _plan(shape, index)
    ops = plan.views()
    target = views(ops, self) if ops else self
    if not plan.indices:
        write(target, fitted(value, tuple(target.shape), target.dtype), "__setitem__", assigned=True)
        return
    if plan.mask is not None and len(plan.indices) == 1 and _is_single(value):
        write(target, _masked(target, *plan.mask, value), "__setitem__")
        return
    coordinates = _coordinates(plan)
    axes = tuple(sorted(coordinates))
    indices = [beside(coordinates[a], target) for a in axes]
    op = IndexPut(axes)
    region = TakeNd(axes).infer(target.type_, *[i.type_ for i in indices])[0].shape
    put(target, op, indices, fitted(value, region, target.dtype, indexed=True), "__setitem__")


def _is_single(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, np.generic)) or (isinstance(value, Tensor) and value.ndim == 0)


def _masked(target: Tensor, axis: int, mask: Tensor, value: Any) -> Tensor:
    """`target` with a single number where the mask, which lies along the axes from `axis` on, is true."""
    shape = tuple(target.shape)
    if mask.dtype is not dtypes.bool_:
        mask = apply(Convert(dtypes.bool_), mask)
    trailing = len(shape) - axis - mask.ndim
    mask = beside(mask, target)
    mask = apply(BroadcastTo(shape), apply(Reshape((*mask.shape, *(1,) * trailing)), mask))
    return apply(Where(), mask, fitted(value, shape, target.dtype), target)


def fitted(
    value: Any, shape: tuple[int, ...], dtype: dtypes.DType, indexed: bool = False, what: str = "__setitem__"
) -> Tensor:
    """`value`, a number, array or tensor, as a tensor of this shape and dtype."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float, complex)):
        if isinstance(value, complex) and not dtype.is_complex:
            raise located(DTypeError(f"value cannot be converted to type {dtype.name} without overflow"))
        return filled(shape, dtype, value)
    if not isinstance(value, Tensor):
        same = isinstance(value, np.ndarray) and value.dtype == dtype.np
        value = shared(value) if same else constant(np.asarray(value, dtype.np))
    if value.dtype is not dtype:
        value = apply(Convert(dtype), value)
    if value.shape == shape:
        return value
    extra = value.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in value.shape[:extra]):
        value = apply(Reshape(tuple(value.shape[extra:])), value)
    have = tuple(value.shape)
    fits = len(have) <= len(shape) and all(n in (1, m) for n, m in zip(have[::-1], shape[::-1], strict=False))
    if not fits:
        raise located(ShapeError(_mismatch(what, have, shape, indexed)))
    return value if have == shape else apply(BroadcastTo(shape), value)


def _mismatch(what: str, have: tuple[int, ...], shape: tuple[int, ...], indexed: bool) -> str:
    if indexed:
        return (
            f"shape mismatch: value tensor of shape {list(have)} cannot be broadcast to indexing result "
            f"of shape {list(shape)}"
        )
    return f"{what}: the value's shape {list(have)} does not broadcast to the written {list(shape)}"


Tensor.__getitem__ = getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = setitem  # type: ignore[attr-defined]
