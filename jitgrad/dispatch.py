"""Where every op goes: run now and record, or into the graph being traced.

`apply` is the general path. `binary_method` and `unary_method` make the fast paths for small tensors of one
dtype: the op's NumPy ufunc, one tape node, nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op, Pointwise
from jitgrad.ir.types import TensorType

from .mode import local
from .tape import Storage, TapeNode, residual_mask
from .tensor import Tensor, wrap

# Floating-point exceptions follow IEEE 754 silently, as in PyTorch.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jitgrad\.dispatch")

_ndarray = np.ndarray
_asarray = np.asarray
_new = object.__new__
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_SMALL = 16384  # elements; above, generated kernels are faster than NumPy

_types: dict[tuple[Any, ...], tuple[TensorType, ...]] = {}


def infer(op: Op, operands: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
    """`op.infer`, remembered; errors carry the user's line."""
    key = (op, operands)
    found = _types.get(key)
    if found is None:
        try:
            found = op.infer(*operands)
        except JitgradError as error:
            location = user_location()
            error.attach_location(str(location) if location else None)
            raise
        if len(_types) > 20_000:
            _types.clear()
        _types[key] = found
    return found


def apply(op: Op, *operands: Tensor) -> Tensor:
    """The only result of `op`. Operands have the exact shapes and dtypes the op asks for."""
    return apply_all(op, *operands)[0]


def apply_all(op: Op, *operands: Tensor) -> tuple[Tensor, ...]:
    """All results of `op`, recorded on the tape if a gradient may be asked for."""
    mode = local.mode
    tracer = mode.tracer
    if tracer is None:
        data = [t._data for t in operands]
        infer(op, tuple([t.type_ for t in operands]))
        out = run_op(op, data)
    else:
        data = [tracer.value(t) for t in operands]
        out = tracer.emit(op, data)
    results = tuple([wrap(x) for x in out])
    if tracer is not None:
        tracer.note(results)
    if mode.grad and op.differentiable:
        for t in operands:
            if t._requires_grad:
                record(op, operands, data, results)
                break
    return results


def constant(array: Any) -> Tensor:
    """A tensor of these numbers: a leaf eagerly, a constant of the graph while tracing."""
    tracer = local.mode.tracer
    return wrap(np.asarray(array)) if tracer is None else tracer.constant(np.asarray(array))


def host_number(read: Callable[[], float], dtype: dtypes.DType, name: str) -> Any:
    """A number kept in Python (a learning rate): itself eagerly, a 0-d input fetched at each call while tracing."""
    tracer = local.mode.tracer
    return read() if tracer is None else tracer.host_scalar(read, dtype, name)


def run_op(op: Op, data: Sequence[Any]) -> Sequence[Any]:
    """`op` on arrays, now."""
    return apply_reference(op, data)


def edge(t: Tensor) -> Any:
    """Where `t` comes from, for a tape node; None if no gradient flows to it."""
    if not t._requires_grad:
        return None
    node = t._node
    if node is None:
        return t
    return node if t._index == 0 else (node, t._index)


def record(op: Op, operands: Sequence[Tensor], data: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Append a tape node and make `results` its results (those of differentiable dtype)."""
    types = [TensorType(x.shape, dtypes.FROM_NUMPY[x.dtype]) for x in data]
    needs = tuple(
        [t._requires_grad and d.dtype.is_differentiable for t, d in zip(operands, types, strict=True)]
    )
    if not any(needs):
        return
    keep, keep_results = residual_mask(op, types, needs)
    edges = tuple([edge(t) if need else None for t, need in zip(operands, needs, strict=True)])
    owners: list[Any] = [t if k else None for t, k in zip(operands, keep, strict=True)]
    saved = [x if k else None for x, k in zip(data, keep, strict=True)]
    for t, k in zip(results, keep_results, strict=True):
        if k:
            storage = t._storage = t._storage or Storage()
            owners.append(storage)
            saved.append(t._data)
        else:
            owners.append(None)
            saved.append(None)
    versions = [0 if o is None else o._version for o in owners]
    node = TapeNode(op, edges, saved, owners, versions, types)
    mode = local.mode
    if mode.anomaly or mode.tracer is not None:
        node.location = user_location()
    for i, t in enumerate(results):
        if dtypes.FROM_NUMPY[t._data.dtype].is_differentiable:
            t._node, t._index, t._requires_grad = node, i, True


_fast_masks: dict[tuple[Op, int], tuple[bool, bool, bool]] = {}


def _fast_mask(op: Op, code: int) -> tuple[bool, bool, bool]:
    """Residuals of a one- or two-operand op of real dtype: (first, second, result)."""
    needs = (bool(code & 1), bool(code & 2)) if code >= 4 else (True,)
    t = TensorType((1,), dtypes.float32)
    keep, result = residual_mask(op, [t] * len(needs), needs)
    mask = _fast_masks[op, code] = (keep[0], keep[-1] and len(keep) > 1, result[0])
    return mask


def _record_binary(op: Op, a: Tensor, b: Any, x: Any, y: Any, result: Tensor) -> None:
    code = 5 if a._requires_grad else 4
    tensor = b.__class__ is not float and b.__class__ is not int
    if tensor and b._requires_grad:
        code += 2 if code == 5 else 2
    mask = _fast_masks.get((op, code)) or _fast_mask(op, code)
    keep_x, keep_y, keep_out = mask
    left = right = None
    if code & 1:
        node = a._node
        left = a if node is None else node if a._index == 0 else (node, a._index)
    if code & 2:
        node = b._node
        right = b if node is None else node if b._index == 0 else (node, b._index)
    if keep_out:
        storage = result._storage = Storage()
        saved: Any = (x if keep_x else None, y if keep_y else None, result._data)
        owners: Any = (a if keep_x else None, b if keep_y and tensor else None, storage)
    else:
        saved = (x if keep_x else None, y if keep_y else None, None)
        owners = (a if keep_x else None, b if keep_y and tensor else None, None)
    versions = None
    if a._storage is not None or (tensor and b._storage is not None):
        versions = [0 if o is None else o._version for o in owners]
    types = None if left is not None and right is not None else ((x.shape, x.dtype), _meta(y, x))
    result._node = TapeNode(op, (left, right), saved, owners, versions, types)
    result._requires_grad = True


def _meta(y: Any, x: Any) -> tuple[Any, Any]:
    return (y.shape, y.dtype) if y.__class__ is _ndarray else ((), x.dtype)


def binary_method(
    op: Pointwise, slow: Callable[[Any, Any], Any], any_kind: bool = False
) -> Callable[[Any, Any], Any]:
    """A Tensor method `(self, other)` for `op`; what the fast path does not take goes to `slow`.

    `any_kind`: NumPy agrees with PyTorch on equal dtypes of every kind, not only on float32 and float64.
    """
    ufunc = type(op).ufunc
    recorded = op.differentiable

    def method(self: Any, other: Any) -> Any:
        mode = local.mode
        x = self._data
        dtype = x.dtype
        kind = other.__class__
        if kind is float or kind is int:
            y = other
            if dtype is not _F32 and dtype is not _F64:
                return slow(self, other)
        elif isinstance(other, Tensor):
            y = other._data
            if y.dtype is not dtype or not (any_kind or dtype is _F32 or dtype is _F64) or y.size > _SMALL:
                return slow(self, other)
        else:
            return slow(self, other)
        if mode.tracer is not None or x.size > _SMALL:
            return slow(self, other)
        try:
            out = ufunc(x, y)
        except (ValueError, TypeError, OverflowError, RuntimeWarning, FloatingPointError):
            return slow(self, other)
        if out.__class__ is not _ndarray:
            out = _asarray(out)
        t = _new(Tensor)
        t._data = out
        t._node = None
        t._index = 0
        t._requires_grad = False
        t._storage = None
        t._view = None
        t._grad = None
        t._hooks = None
        if (
            recorded
            and mode.grad
            and (self._requires_grad or (kind is not float and kind is not int and other._requires_grad))
        ):
            _record_binary(op, self, other, x, y, t)
        return t

    return method


def unary_method(op: Pointwise, slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A Tensor method `(self)` for `op` on small float32 and float64 tensors; `slow` takes the rest."""
    ufunc = type(op).ufunc

    def method(self: Any) -> Any:
        mode = local.mode
        x = self._data
        dtype = x.dtype
        if (dtype is not _F32 and dtype is not _F64) or mode.tracer is not None or x.size > _SMALL:
            return slow(self)
        try:
            out = ufunc(x)
        except (RuntimeWarning, FloatingPointError):
            return slow(self)
        if out.__class__ is not _ndarray:
            out = _asarray(out)
        t = wrap(out)
        if op.differentiable and self._requires_grad and mode.grad:
            keep, _, keep_out = _fast_masks.get((op, 1)) or _fast_mask(op, 1)
            node = self._node
            source = self if node is None else node if self._index == 0 else (node, self._index)
            storage = None
            if keep_out:
                storage = t._storage = Storage()
            versions = None if self._storage is None else [self._storage._version if keep else 0, 0]
            t._node = TapeNode(
                op, (source,), (x if keep else None, out if keep_out else None),
                (self if keep else None, storage), versions, None,
            )  # fmt: skip
            t._requires_grad = True
        return t

    return method
