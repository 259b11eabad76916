"""Fast paths for small tensors of one dtype: the op's NumPy function, one tape node, nothing else.

`binary_method`, `reflected_method` and `unary_method` make Tensor methods that try it and leave the rest to a
general function. What they record equals what `dispatch.record` does; slot by slot, because a call of `TapeNode`
costs as much as all of its slots.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.op import Op, Pointwise
from jitgrad.ir.types import TensorType

from . import hot_path
from .mode import local
from .native_ops import NOTHING as NOTHING
from .native_ops import native_op, pays
from .tape import FIXED, Storage, TapeNode, let_write, next_seq, residual_mask, watch
from .tensor import Tensor, wrap

# Floating-point exceptions follow IEEE 754 silently, as in PyTorch.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jitgrad\.fast_path")

Binary: TypeAlias = Callable[[Any, Any], Any]
DTypes: TypeAlias = frozenset[Any]

_NONE: DTypes = frozenset()
_REFUSED = (ValueError, TypeError, OverflowError, RuntimeWarning, FloatingPointError)
_SMALL = 40_000  # elements; above, generated kernels are faster than NumPy
_SMALL_OTHER = 16384  # the same of reductions and matrices
_CLAMPED = 1 << 20
_FINITE = 3e38  # below, numbers are finite in float32
_F32, _F64, _I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_ONE = np.ones(1, np.float32)
_NEEDS: dict[int, list[tuple[bool, ...]]] = {
    1: [(True,)],
    2: [(True, False), (False, True), (True, True)],
}  # which operands may lead to a gradient
_ndarray = np.ndarray
_asarray = np.asarray
_new = object.__new__


class _Residuals:
    """What the gradient rule of an op uses, found when first asked for: (first operand, second operand, result)."""

    __slots__ = ("found", "needs", "op")

    def __init__(self, op: Op, needs: tuple[bool, ...]) -> None:
        self.op = op
        self.needs = needs
        self.found: tuple[bool, bool, bool] | None = None

    def find(self, *arrays: Any) -> tuple[bool, bool, bool]:
        """Ask the rule. Shapes don't matter to it, but the tape lets operands of pointwise ops broadcast."""
        shapes = [(1,) if isinstance(self.op, Pointwise) else np.shape(x) for x in arrays]
        types = [TensorType(shape, dtypes.float32) for shape in shapes]
        keep, result = residual_mask(self.op, types, self.needs)
        self.found = found = keep[0], keep[-1] and len(keep) > 1, result[0]
        return found


def _native(op: Op, function: Any, arity: int, integers: bool) -> Any:
    """The op as a native function. Ops that have sizes are recorded by Python, as are those whose nodes get copies."""
    kept: Any = None
    if isinstance(op, Pointwise) and op.differentiable and not op.copies_on_write:
        kept = [_Residuals(op, needs).find(*[_ONE] * arity) for needs in _NEEDS[arity]]
    limit = _SMALL if isinstance(op, Pointwise) else _SMALL_OTHER
    return native_op(op, function, arity, limit, kept, integers)


def _two_natively(op: Op, function: Any, python: Binary, integers: bool = False, swapped: bool = False) -> Binary:
    """`python`, a method for `op` or for it with the operands `swapped`, native where it is called often."""
    native, count = None, 0

    def method(self: Any, other: Any) -> Any:
        nonlocal native, count
        if native is None:
            count += 1
            if count % hot_path.CALLS == 0 and pays():
                native = _native(op, function, 2, integers)
        elif _SMALL > 0 and (made := native(local.mode, self, other)) is not None:
            return made
        return python(self, other)

    def reflected(self: Any, other: Any) -> Any:
        nonlocal native, count
        if native is None:
            count += 1
            if count % hot_path.CALLS == 0 and pays():
                native = _native(op, function, 2, integers)
        elif _SMALL > 0 and (made := native(local.mode, other, self)) is not None:
            return made
        return python(self, other)

    return reflected if swapped else method


def _one_natively(op: Op, function: Any, python: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same for an op of one operand."""
    native, count = None, 0

    def method(self: Any) -> Any:
        nonlocal native, count
        if native is None:
            count += 1
            if count % hot_path.CALLS == 0 and pays():
                native = _native(op, function, 1, False)
        elif _SMALL > 0 and (made := native(local.mode, self)) is not None:
            return made
        return python(self)

    return method


def _binary_recorder(op: Op) -> Callable[[Any, Any, Any, Any, Any, Any], None]:
    """Records `op` of two tensors of real dtype with one result."""
    used = [_Residuals(op, (bool(code & 1), bool(code & 2))) for code in range(4)]

    def record_binary(mode: Any, a: Any, b: Any, x: Any, y: Any, result: Any) -> None:
        left, right, code = None, None, 0
        if a._requires_grad:
            code = 1
            source = a._node
            left = a if source is None else source if a._index == 0 else (source, a._index)
        if b._requires_grad:
            code += 2
            source = b._node
            right = b if source is None else source if b._index == 0 else (source, b._index)
        node = result._node = _new(TapeNode)
        keep_x, keep_y, keep_out = node.kept = used[code].found or used[code].find(x, y)
        result._requires_grad = True
        node.op = op
        node.edges = (left, right)
        if code == 3 or (keep_y if code == 1 else keep_x):  # an edge or saved data tells
            node.types = None
        else:
            node.types = ((x.shape, x.dtype), (y.shape, y.dtype))
        node.seq = next_seq()
        node.hooks = node.versions = node.location = None
        if not (keep_x or keep_y or keep_out):
            node.saved = node.owners = NOTHING
        else:
            storage = result._storage = Storage() if keep_out else None
            node.saved = (x if keep_x else None, y if keep_y else None, result._data if keep_out else None)
            node.owners = (a if keep_x else None, b if keep_y else None, storage)
            if a._storage is not None or b._storage is not None:
                node.versions = (a._version if keep_x else 0, b._version if keep_y else 0, 0)
            if op.copies_on_write:
                let_write(node)
        if mode.watches:
            watch(mode, node)

    return record_binary


def _number_recorder(op: Op, tensor_first: bool) -> Callable[[Any, Any, Any, Any, Any], None]:
    """Records `op` of a tensor and a Python number, which is saved as it is."""
    used = _Residuals(op, (tensor_first, not tensor_first))

    def record_with_number(mode: Any, a: Any, x: Any, number: Any, result: Any) -> None:
        source = a._node
        edge = a if source is None else source if a._index == 0 else (source, a._index)
        dtype = x.dtype
        node = result._node = _new(TapeNode)
        keep_first, keep_second, keep_out = node.kept = used.found or used.find(x, number)
        result._requires_grad = True
        node.op = op
        node.seq = next_seq()
        node.hooks = node.versions = node.location = None
        storage = None
        if keep_out:
            storage = result._storage = Storage()
        out = result._data if keep_out else None
        if tensor_first:
            node.edges = (edge, None)
            node.types = (None, ((), dtype))
            node.saved = (x if keep_first else None, number if keep_second else None, out)
            node.owners = (a if keep_first else None, None, storage)
            if keep_first and a._storage is not None:
                node.versions = (a._version, 0, 0)
        else:
            node.edges = (None, edge)
            node.types = (((), dtype), None)
            node.saved = (number if keep_first else None, x if keep_second else None, out)
            node.owners = (None, a if keep_second else None, storage)
            if keep_second and a._storage is not None:
                node.versions = (0, a._version, 0)
        if op.copies_on_write:
            let_write(node)
        if mode.watches:
            watch(mode, node)

    return record_with_number


def _unary_recorder(op: Op) -> Callable[[Any, Any, Any, Any], None]:
    """Records `op` of one tensor of real dtype with one result."""
    used = _Residuals(op, (True,))

    def record_unary(mode: Any, a: Any, x: Any, result: Any) -> None:
        source = a._node
        node = result._node = _new(TapeNode)
        keep, _, keep_out = node.kept = used.found or used.find(x)
        result._requires_grad = True
        node.op = op
        node.edges = (a if source is None else source if a._index == 0 else (source, a._index),)
        node.types = None
        node.seq = next_seq()
        node.hooks = node.location = None
        storage = None
        if keep_out:
            storage = result._storage = Storage()
        node.saved = (x if keep else None, result._data if keep_out else None)
        node.owners = (a if keep else None, storage)
        node.versions = (a._version, 0) if keep and a._storage is not None else None
        if op.copies_on_write:
            let_write(node)
        if mode.watches:
            watch(mode, node)

    return record_unary


def _numpy_function(op: Op) -> Callable[..., Any]:
    """NumPy's function with the op's meaning, or the op's reference."""
    if isinstance(op, Pointwise):
        return type(op).ufunc if op.fast else op.reference
    reference = op.reference

    def row_major(*operands: Any) -> Any:
        out = reference(*operands)
        return out if out.ndim < 2 or out.flags.c_contiguous else out.copy()

    return row_major


def binary_method(op: Op, slow: Binary, exact: DTypes = _NONE, weak: DTypes = _NONE, function: Any = None) -> Binary:
    """A Tensor method `(self, other)` for `op`; what the fast path does not take goes to `slow`.

    `exact`: NumPy dtypes beside float32 and float64 on which, when both operands have it, NumPy agrees with
    PyTorch. `weak`: those where it also does for a Python integer as the other operand. `function`: what to call
    instead of the op's own NumPy function.
    """
    ufunc, differentiable = function or _numpy_function(op), op.differentiable
    limit = _SMALL if isinstance(op, Pointwise) else _SMALL_OTHER
    record_binary, record_with_number = _binary_recorder(op), _number_recorder(op, True)

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
            if y.dtype is not dtype or y.size > limit or not (dtype is _F32 or dtype is _F64 or dtype in exact):
                return slow(self, other)
        else:
            return slow(self, other)
        if mode.tracer is not None or x.size > min(limit, _SMALL):
            return slow(self, other)
        try:
            out = ufunc(x, y)
        except _REFUSED:
            return slow(self, other)
        t = _new(Tensor)
        t._data = out if out.__class__ is _ndarray else _asarray(out)
        t._node = t._storage = t._view = t._grad = t._hooks = None
        t._index, t._requires_grad = 0, False
        if differentiable and mode.grad and (self._requires_grad or (not number and other._requires_grad)):
            if number:
                record_with_number(mode, self, x, y, t)
            else:
                record_binary(mode, self, other, x, y, t)
        return t

    return _two_natively(op, ufunc, method, _I64 in exact)


def reflected_method(op: Pointwise, slow: Binary) -> Binary:
    """A Tensor method `(self, other)` for `op` of a Python number `other` and a small float tensor, in this order."""
    ufunc = _numpy_function(op)
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
        t._index, t._requires_grad = 0, False
        if differentiable and self._requires_grad and mode.grad:
            record_with_number(mode, self, x, other, t)
        return t

    return _two_natively(op, ufunc, method, swapped=True)


def unary_method(op: Op, slow: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A Tensor method `(self)` for `op` on small float32 and float64 tensors; `slow` takes the rest."""
    function = _numpy_function(op)
    differentiable = op.differentiable
    limit = _SMALL if isinstance(op, Pointwise) else _SMALL_OTHER
    record_unary = _unary_recorder(op)

    def method(self: Any) -> Any:
        mode = local.mode
        x = self._data
        dtype = x.dtype
        if (dtype is not _F32 and dtype is not _F64) or mode.tracer is not None or x.size > min(limit, _SMALL):
            return slow(self)
        try:
            out = function(x)
        except _REFUSED:
            return slow(self)
        t = _new(Tensor)
        t._data = out if out.__class__ is _ndarray else _asarray(out)
        t._node = t._storage = t._view = t._grad = t._hooks = None
        t._index, t._requires_grad = 0, False
        if differentiable and self._requires_grad and mode.grad:
            record_unary(mode, self, x, t)
        return t

    return _one_natively(op, function, method)


def add_small(t: Any, addend: Any) -> bool:
    """Add a fresh array to a small float tensor in place, if it is a plain one without history; False for all else."""
    x = t._data
    if (
        x.__class__ is not _ndarray
        or x.size > _SMALL
        or (x.dtype is not _F32 and x.dtype is not _F64)
        or t._requires_grad
        or t._view is not None
        or not (x.flags.c_contiguous and x.flags.writeable)
        or ((storage := t._storage) is not None and storage.keepers is not None)
    ):
        return False
    np.add(x, addend, x)
    if storage is None or storage is FIXED:
        storage = t._storage = Storage()
    storage._version += 1
    return True


def clamp_plainly(t: Any, least: Any, most: Any) -> Any:
    """`t.clamp(least, most)` of a float tensor and finite numbers, unrecorded; None for all else."""
    x = t._data if isinstance(t, Tensor) else None
    if x.__class__ is not _ndarray or x.size > _CLAMPED or (x.dtype is not _F32 and x.dtype is not _F64):
        return None
    mode = local.mode
    if mode.tracer is not None or (t._requires_grad and mode.grad):
        return None
    for bound, choose, is_beyond in ((least, np.maximum, np.less), (most, np.minimum, np.greater)):
        if bound is None:
            continue
        if (bound.__class__ is not float and bound.__class__ is not int) or not -_FINITE < bound < _FINITE:
            return None
        limit = x.dtype.type(bound)
        if limit == 0 and (np.signbit(limit) or _has_negative_zero(x)):
            x = np.where(is_beyond(x, limit), limit, x)  # so that a zero keeps its sign
        else:
            x = _asarray(choose(x, limit, out=None if x is t._data else x))  # a tenth of the time; NaN stays
    return wrap(x)


def _has_negative_zero(x: Any) -> bool:
    bits = x.view(np.int32 if x.dtype is _F32 else np.int64)
    return bool((bits == np.iinfo(bits.dtype).min).any())
