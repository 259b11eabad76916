"""Where every op goes: run now and record, or into the graph being traced.

`apply` is the general path. `binary_method` and `unary_method` make the fast paths for small tensors of one
dtype: the op's NumPy ufunc, one tape node, nothing else.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op, Pointwise, View
from jitgrad.ir.types import TensorType

from .errors import located
from .mode import local
from .tape import Storage, TapeNode, next_seq, residual_mask
from .tensor import Tensor, tensor_type, wrap

# Floating-point exceptions follow IEEE 754 silently, as in PyTorch.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jitgrad\.dispatch")

_ndarray = np.ndarray
_asarray = np.asarray
_new = object.__new__
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_REFUSED = (ValueError, TypeError, OverflowError, RuntimeWarning, FloatingPointError)
_FLOATING = "fcV"  # NumPy's kinds of the types that have gradients; V is bfloat16
_NOTHING = (None, None, None)
_SMALL = 16384  # elements; above, generated kernels are faster than NumPy


@functools.lru_cache(20_000)
def infer(op: Op, operands: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
    """`op.infer`, remembered; errors carry the user's line."""
    try:
        return op.infer(*operands)
    except JitgradError as error:
        raise located(error) from None


def apply(op: Op, *operands: Tensor) -> Tensor:
    """The only result of `op`. Operands have the exact shapes and dtypes the op asks for."""
    return apply_all(op, *operands)[0]


def apply_all(op: Op, *operands: Tensor) -> tuple[Tensor, ...]:
    """All results of `op`, recorded on the tape if a gradient may be asked for."""
    mode = local.mode
    tracer = mode.tracer
    if tracer is None or tracer.ends_before(operands):
        tracer = None
        data = [t._data for t in operands]
        infer(op, tuple([tensor_type(x.shape, x.dtype) for x in data]))
        out = run_op(op, data)
    else:
        data = [tracer.value(t) for t in operands]
        out = tracer.emit(op, data)
    results = tuple([wrap(x) for x in out])
    if tracer is not None:
        tracer.note(results)
    if isinstance(op, View):  # the result may share memory: writes to either must be seen in both
        results[0]._storage = operands[0]._storage = operands[0]._storage or Storage()
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


def _owner(t: Tensor) -> Storage:
    """What counts the writes to a saved tensor, without keeping the tensor itself."""
    storage = t._storage
    if storage is None:
        storage = t._storage = Storage()
    return storage


@functools.lru_cache(20_000)
def _recording(op: Op, types: tuple[TensorType, ...], needs: tuple[bool, ...]) -> tuple[Any, Any, Any]:
    """Which operands and which results the gradient rule uses, and which results have a gradient."""
    differentiable = tuple([t.dtype.is_differentiable for t in infer(op, types)])
    return *(residual_mask(op, types, needs) if True in differentiable else ((), ())), differentiable


def record(op: Op, operands: Sequence[Tensor], data: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Append a tape node and make `results` its results (those of differentiable dtype)."""
    types = tuple([tensor_type(x.shape, x.dtype) for x in data])
    needs = tuple([t._requires_grad and x.dtype.kind in _FLOATING for t, x in zip(operands, data, strict=True)])
    if True not in needs:
        return
    keep, keep_results, differentiable = _recording(op, types, needs)
    if True not in differentiable:
        return
    edges = tuple([edge(t) if need else None for t, need in zip(operands, needs, strict=True)])
    owners: list[Any] = [_owner(t) if k else None for t, k in zip(operands, keep, strict=True)]
    saved = [x if k else None for x, k in zip(data, keep, strict=True)]
    for t, k in zip(results, keep_results, strict=True):
        owners.append(_owner(t) if k else None)
        saved.append(t._data if k else None)
    versions = [0 if o is None else o._version for o in owners]
    node = TapeNode(op, edges, saved, owners, versions, types)
    mode = local.mode
    if mode.anomaly or mode.tracer is not None:
        node.location = user_location()
    for i, t in enumerate(results):
        if differentiable[i]:
            t._node, t._index, t._requires_grad = node, i, True


def _fast_mask(op: Op, needs: tuple[bool, ...]) -> tuple[bool, bool, bool]:
    """Residuals of a one- or two-operand op of real dtype: (first, second, result)."""
    t = TensorType((1,), dtypes.float32)
    keep, result = residual_mask(op, [t] * len(needs), needs)
    return keep[0], keep[-1] and len(keep) > 1, result[0]


# The fast paths write tape nodes slot by slot: a call of `TapeNode` costs as much as all of the slots.


def _binary_recorder(op: Op) -> Callable[[Any, Any, Any, Any, Any, Any], None]:
    """Records `op` of two tensors of real dtype with one result."""
    masks: list[Any] = [None, *(_LazyMask(op, (bool(code & 1), bool(code & 2))) for code in (1, 2, 3))]

    def record_binary(mode: Any, a: Any, b: Any, x: Any, y: Any, result: Any) -> None:
        left = right = None
        code = 0
        if a._requires_grad:
            code = 1
            source = a._node
            left = a if source is None else source if a._index == 0 else (source, a._index)
        if b._requires_grad:
            code += 2
            source = b._node
            right = b if source is None else source if b._index == 0 else (source, b._index)
        keep_x, keep_y, keep_out = masks[code].value
        node = result._node = _new(TapeNode)
        result._requires_grad = True
        node.op = op
        node.edges = (left, right)
        node.types = None if code == 3 else ((x.shape, x.dtype), (y.shape, y.dtype))
        node.seq = next_seq()
        node.hooks = None
        node.location = user_location() if mode.anomaly else None
        node.versions = None
        if not (keep_x or keep_y or keep_out):
            node.saved = node.owners = _NOTHING
            return
        storage = None
        if keep_out:
            storage = result._storage = Storage()
        node.saved = (x if keep_x else None, y if keep_y else None, result._data if keep_out else None)
        node.owners = (a if keep_x else None, b if keep_y else None, storage)
        if a._storage is not None or b._storage is not None:
            node.versions = (a._version if keep_x else 0, b._version if keep_y else 0, 0)

    return record_binary


def _number_recorder(op: Op, tensor_first: bool) -> Callable[[Any, Any, Any, Any, Any], None]:
    """Records `op` of a tensor and a Python number, which is saved as it is."""
    lazy = _LazyMask(op, (tensor_first, not tensor_first))

    def record_with_number(mode: Any, a: Any, x: Any, number: Any, result: Any) -> None:
        keep_first, keep_second, keep_out = lazy.value
        source = a._node
        edge = a if source is None else source if a._index == 0 else (source, a._index)
        dtype = x.dtype
        node = result._node = _new(TapeNode)
        result._requires_grad = True
        node.op = op
        node.seq = next_seq()
        node.hooks = None
        node.location = user_location() if mode.anomaly else None
        node.versions = None
        storage = None
        if keep_out:
            storage = result._storage = Storage()
        out = result._data if keep_out else None
        if tensor_first:
            node.edges = (edge, None)
            node.types = ((x.shape, dtype), ((), dtype))
            node.saved = (x if keep_first else None, number if keep_second else None, out)
            node.owners = (a if keep_first else None, None, storage)
            if keep_first and a._storage is not None:
                node.versions = (a._version, 0, 0)
        else:
            node.edges = (None, edge)
            node.types = (((), dtype), (x.shape, dtype))
            node.saved = (number if keep_first else None, x if keep_second else None, out)
            node.owners = (None, a if keep_second else None, storage)
            if keep_second and a._storage is not None:
                node.versions = (0, a._version, 0)

    return record_with_number


def _unary_recorder(op: Op) -> Callable[[Any, Any, Any, Any], None]:
    """Records `op` of one tensor of real dtype with one result."""
    lazy = _LazyMask(op, (True,))

    def record_unary(mode: Any, a: Any, x: Any, result: Any) -> None:
        keep, _, keep_out = lazy.value
        source = a._node
        node = result._node = _new(TapeNode)
        result._requires_grad = True
        node.op = op
        node.edges = (a if source is None else source if a._index == 0 else (source, a._index),)
        node.types = None
        node.seq = next_seq()
        node.hooks = None
        node.location = user_location() if mode.anomaly else None
        storage = None
        if keep_out:
            storage = result._storage = Storage()
        node.saved = (x if keep else None, result._data if keep_out else None)
        node.owners = (a if keep else None, storage)
        node.versions = (a._version, 0) if keep and a._storage is not None else None

    return record_unary


class _LazyMask:
    """Which residuals a gradient rule uses, found when first asked for."""

    def __init__(self, op: Op, needs: tuple[bool, ...]) -> None:
        self.op = op
        self.needs = needs

    @functools.cached_property
    def value(self) -> tuple[bool, bool, bool]:
        """(first operand, second operand, result)."""
        return _fast_mask(self.op, self.needs)


def binary_method(
    op: Pointwise,
    slow: Callable[[Any, Any], Any],
    exact: frozenset[Any] = frozenset(),
    weak: frozenset[Any] = frozenset(),
) -> Callable[[Any, Any], Any]:
    """A Tensor method `(self, other)` for `op`; what the fast path does not take goes to `slow`.

    `exact`: NumPy dtypes beside float32 and float64 on which, when both operands have it, NumPy agrees with
    PyTorch. `weak`: those where it also does for a Python integer as the other operand.
    """
    ufunc = type(op).ufunc
    differentiable = op.differentiable
    record_binary = _binary_recorder(op)
    record_with_number = _number_recorder(op, True)

    def method(self: Any, other: Any) -> Any:
        mode = local.mode
        x = self._data
        dtype = x.dtype
        kind = other.__class__
        number = kind is float or kind is int
        if number:
            y = other
            if dtype is not _F32 and dtype is not _F64 and (kind is float or dtype not in weak):
                return slow(self, other)
        elif kind is Tensor or isinstance(other, Tensor):
            y = other._data
            if y.dtype is not dtype or not (dtype is _F32 or dtype is _F64 or dtype in exact):
                return slow(self, other)
            if y.size > _SMALL:
                return slow(self, other)
        else:
            return slow(self, other)
        if mode.tracer is not None or x.size > _SMALL:
            return slow(self, other)
        try:
            out = ufunc(x, y)
        except _REFUSED:
            return slow(self, other)
        t = _new(Tensor)
        t._data = out if out.__class__ is _ndarray else _asarray(out)
        t._node = t._storage = t._view = t._grad = t._hooks = None
        t._index = 0
        t._requires_grad = False
        if differentiable and mode.grad:
            if number:
                if self._requires_grad:
                    record_with_number(mode, self, x, y, t)
            elif self._requires_grad or other._requires_grad:
                record_binary(mode, self, other, x, y, t)
        return t

    return method


def reflected_method(op: Pointwise, slow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A Tensor method `(self, other)` for `op` of a Python number `other` and a small float tensor, in this order."""
    ufunc = type(op).ufunc
    differentiable = op.differentiable
    record_with_number = _number_recorder(op, False)

    def method(self: Any, other: Any) -> Any:
        mode = local.mode
        x = self._data
        dtype = x.dtype
        kind = other.__class__
        if (
            (kind is not float and kind is not int)
            or (dtype is not _F32 and dtype is not _F64)
            or mode.tracer is not None
            or x.size > _SMALL
        ):
            return slow(self, other)
        try:
            out = ufunc(other, x)
        except _REFUSED:
            return slow(self, other)
        t = _new(Tensor)
        t._data = out if out.__class__ is _ndarray else _asarray(out)
        t._node = t._storage = t._view = t._grad = t._hooks = None
        t._index = 0
        t._requires_grad = False
        if differentiable and self._requires_grad and mode.grad:
            record_with_number(mode, self, x, other, t)
        return t

    return method


def unary_method(op: Pointwise, slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A Tensor method `(self)` for `op` on small float32 and float64 tensors; `slow` takes the rest."""
    ufunc = type(op).ufunc if op.fast else op.reference
    differentiable = op.differentiable
    record_unary = _unary_recorder(op)

    def method(self: Any) -> Any:
        mode = local.mode
        x = self._data
        dtype = x.dtype
        if (dtype is not _F32 and dtype is not _F64) or mode.tracer is not None or x.size > _SMALL:
            return slow(self)
        try:
            out = ufunc(x)
        except _REFUSED:
            return slow(self)
        t = _new(Tensor)
        t._data = out if out.__class__ is _ndarray else _asarray(out)
        t._node = t._storage = t._view = t._grad = t._hooks = None
        t._index = 0
        t._requires_grad = False
        if differentiable and self._requires_grad and mode.grad:
            record_unary(mode, self, x, t)
        return t

    return method
