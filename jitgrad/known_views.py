"""Views that come again: found by shape and arguments, shown by NumPy calls that are made ready once.

`known(f)` is `f`, a function of a tensor and numbers whose results are views of the tensor (or the tensor itself), with
a short way for tensors in host memory: which view ops a call comes to is learnt from its results, and from then on they
are applied without reading the arguments anew. What is shared and recorded is what `aliasing.view` does.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType, float32
from jitgrad.ir.op import View
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.types import TensorType

from .aliasing import views
from .memo import Memo
from .mode import Mode, local
from .tape import Storage, TapeNode, next_seq, watch
from .tensor import Tensor, ViewInfo

F = TypeVar("F", bound=Callable[..., Any])
Show = Callable[[Any], Any]

_KEPT = 4096  # calls of one function
_NOTHING = (None, None)
_UNSAVED = (False, False)
_new = object.__new__
_ndarray = np.ndarray
_ref = weakref.ref


class KnownView:
    """View ops, and the NumPy calls that show an array of a certain shape through them, one after the other."""

    __slots__ = ("keeps_dtype", "ops", "rest", "show")

    def __init__(self, ops: tuple[View, ...], shape: tuple[int, ...], dtype: DType = float32) -> None:
        self.ops = ops
        index = _one_index(ops)
        shows: list[Show] = [] if index is None else [index]
        type_ = TensorType(shape, dtype)
        for op in ops if index is None else ():
            shows.append(op.prepared(type_.shape))
            (type_,) = op.infer(type_)
        self.keeps_dtype = type_.dtype is dtype
        self.show, *self.rest = shows

    def of(self, mode: Mode, t: Tensor, data: Any) -> Tensor | None:
        """The view of `t`, whose data is `data`, outside of traces; None where it would be a copy."""
        shown = self.show(data)
        for show in self.rest:
            shown = show(shown)
        owner = shown.base
        recorded = t._requires_grad and mode.grad
        if (owner is not data and (owner is None or owner is not data.base)) or (recorded and not self.keeps_dtype):
            return None
        out = _new(Tensor)
        out._data = shown
        out._node = out._grad = out._hooks = None  # type: ignore[attr-defined]
        out._index, out._requires_grad = 0, False
        share(out, t, self.ops)
        if recorded:
            _record(mode, t, self.ops, out)
        return out

    def applied(self, t: Tensor, data: Any) -> Tensor:
        """The view of `t`, whose data is `data`, wherever that is; none of its ops may be one that would copy."""
        mode = local.mode
        if data.__class__ is _ndarray and mode.tracer is None and (made := self.of(mode, t, data)) is not None:
            return made
        return views(self.ops, t)


def _one_index(ops: Sequence[View]) -> Show | None:
    """A slice and the loss of some axes of length 1 as one index; None for other views."""
    if len(ops) != 2 or not isinstance(ops[0], Slice) or not isinstance(ops[1], Reshape):
        return None
    index: list[Any] = []
    rest = list(ops[1].shape)
    for size, start, part in zip(ops[0].sizes[::-1], ops[0].starts[::-1], ops[0].index[::-1], strict=True):
        if rest and rest[-1] == size:
            rest.pop()
            index.append(part)
        elif size == 1:
            index.append(start)
        else:
            return None
    return None if rest else itemgetter((*index[::-1], ...))


def share(out: Tensor, t: Tensor, ops: tuple[View, ...]) -> None:
    """Make `out` known, outside of traces, as the view `ops` of `t`, whose memory it has."""
    info, made = t._view, _new(ViewInfo)
    if info is None:
        base = made.base = made.origin = t
        made.ops = made.origin_ops = ops
    else:
        base = made.base = info.base
        made.ops = info.ops + ops
        if info.origin is None:
            made.origin, made.origin_ops = t, ops
        else:
            made.origin, made.origin_ops = info.origin, info.origin_ops + ops
    storage = base._storage
    if storage is None:
        storage = base._storage = Storage()
    out._view = made
    out._storage = t._storage = storage
    views = storage.views
    count = len(views)
    if count > 7 and count & (count - 1) == 0:  # now and then, so that keeping the list costs constant time
        views = storage.views = [v for v in views if v() is not None]
    views.append(_ref(out))


def _keep(storage: Storage, refs: list[Any]) -> None:
    """Several views more."""
    count = len(storage.views)
    if count > 7 and count.bit_length() < (count + len(refs)).bit_length():
        storage.views = [v for v in storage.views if v() is not None]
    storage.views += refs


def _record(mode: Mode, t: Tensor, ops: Sequence[View], out: Tensor) -> None:
    """What `dispatch.record` does for view ops, whose gradients use neither operand nor result."""
    source: Any = t._node
    edge: Any = t if source is None else source if t._index == 0 else (source, t._index)
    for op in ops:
        node = _new(TapeNode)
        node.op, node.edges, node.types, node.kept = op, (edge,), None, _UNSAVED
        node.saved = node.owners = _NOTHING
        node.versions = node.hooks = node.location = None
        node.seq = next_seq()
        if mode.watches:
            watch(mode, node)
        edge = node
    out._node, out._requires_grad = edge, True


class _Several:
    """The views that a function gives as a tuple or list."""

    __slots__ = ("kind", "views")

    def __init__(self, kind: Any, views: Sequence[KnownView]) -> None:
        self.kind = kind
        self.views = tuple(views)

    def of(self, mode: Mode, t: Tensor, data: Any) -> Any:
        """What `KnownView.of` gives of each, with what is asked of `t` asked once."""
        recorded = t._requires_grad and mode.grad
        info, of_base, made, refs = t._view, data.base, [], []
        base, chain = (t, ()) if info is None else (info.base, info.ops)
        origin, origin_chain = (t, ()) if info is None or info.origin is None else (info.origin, info.origin_ops)
        storage = base._storage
        if storage is None:
            storage = base._storage = Storage()
        for view in self.views:
            shown = view.show(data)
            for show in view.rest:
                shown = show(shown)
            owner = shown.base
            if (owner is not data and (owner is None or owner is not of_base)) or (recorded and not view.keeps_dtype):
                return None
            out, about = _new(Tensor), _new(ViewInfo)
            about.base, about.ops = base, chain + view.ops
            about.origin, about.origin_ops = origin, origin_chain + view.ops
            out._data, out._view, out._storage = shown, about, storage
            out._node = out._grad = out._hooks = None  # type: ignore[attr-defined]
            out._index, out._requires_grad = 0, False
            if recorded:
                _record(mode, t, view.ops, out)
            made.append(out)
            refs.append(_ref(out))
        t._storage = storage
        _keep(storage, refs)
        return made if self.kind is list else tuple(made)


class _Itself:
    """No view but the tensor."""

    __slots__ = ()

    def of(self, mode: Mode, t: Tensor, data: Any) -> Tensor:
        return t


def known(f: F) -> F:
    """`f`, whose results are views of its first argument that follow from its shape and from the other arguments.

    If there are dtypes among these, results may follow from that of the tensor; whether a view is possible may follow
    from strides.
    """
    calls: Memo[Any] = Memo(limit=_KEPT)
    get = calls.get

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        t = args[0] if args else None
        if not isinstance(t, Tensor) or (data := t._data).__class__ is not _ndarray:
            return f(*args, **kwargs)
        mode = local.mode
        if mode.tracer is not None:
            return f(*args, **kwargs)
        rest: Any = args[1:]
        if kwargs:
            rest = exact((*rest, *kwargs.items()), data.dtype)
        else:
            for x in rest:
                if x.__class__ is not int:
                    rest = exact(rest, data.dtype)
                    break
        if rest is None:
            return f(*args, **kwargs)
        key = data.shape, rest
        found = get(key)
        if found is not None:
            made = found.of(mode, t, data)
            return f(*args, **kwargs) if made is None else made
        made = f(*args, **kwargs)
        learnt = _learnt(t, made)
        if learnt is not None:
            calls.add(key, learnt)
        return made

    return function  # type: ignore[return-value]


def exact(values: Sequence[Any], dtype: Any) -> tuple[Any, ...] | None:
    """A key for arguments that tells equal values of different types apart; None if there is more than integers.

    A dtype stands beside `dtype`, that of the tensor.
    """
    key: list[Any] = []
    for x in values:
        kind = x.__class__
        if kind is int or kind is str or x is None:
            key.append(x)
        elif kind is bool:
            key.append((bool, x))
        elif isinstance(x, (tuple, list)):
            inner = exact(x, dtype)
            if inner is None:
                return None
            key.append((kind, inner))
        elif kind is DType:
            key += x, dtype
        else:
            return None
    return tuple(key)


def _learnt(t: Tensor, made: Any) -> Any:
    """How to make such results again; None if they are not views that are known to be of `t`."""
    if made is t:
        return _Itself()
    if isinstance(made, Tensor):
        info, own = made._view, t._view
        base, chain = (t, ()) if own is None else (own.base, own.ops)
        if info is None or info.base is not base or info.ops[: len(chain)] != chain or info.ops == chain:
            return None
        return KnownView(info.ops[len(chain) :], t._data.shape, dtypes.FROM_NUMPY[t._data.dtype])
    if made.__class__ is not tuple and made.__class__ is not list:
        return None
    views = [_learnt(t, x) for x in made]
    return _Several(made.__class__, views) if all(v.__class__ is KnownView for v in views) else None
