"""Where every op goes: run now and record, or into the graph being traced.

`apply` is the general path; `fast_path` has a shorter one for small tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph
from jitgrad.ir.interpreter import apply_reference, evaluate
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op, Pointwise, View
from jitgrad.ir.ops.arranging import Arranging
from jitgrad.ir.types import TensorType

from . import hot_path
from .arrays import on_device
from .backend import DeviceArray, arrange
from .device_ops import run_graph_on_device, run_on_device
from .errors import located
from .large import OFTEN, run_large, run_often
from .levels import Level, LevelData, innermost
from .memo import Memo
from .mode import local
from .tape import Storage, TapeNode, let_write, residual_mask, watch
from .tensor import Tensor, tensor_type, wrap

_LARGE = 4096  # elements; below, nothing but NumPy is asked
_MUCH = 1 << 20  # elements, from which a composite in the first run of a gradient is worth a kernel
_LAID_OUT = (Pointwise, View)  # ops whose results lie in memory as their operands do; others are row-major

_references: Memo[Any] = Memo(limit=4096)

_FLOATING = "fcV"  # NumPy's kinds of the types that have gradients; V is bfloat16


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
    if mode.levels and (level := innermost([t._data for t in operands])) is not None:
        return _apply_at(level, op, operands)
    tracer = mode.tracer
    if tracer is None or tracer.ends_before(operands, op):
        tracer = None
        data = [t._data for t in operands]
        if mode.place is not None and (not data or op.random):
            out = run_on_device(op, data, _types(data), mode.place)
        else:
            out = run_few(op, data) or run_op(op, data, types := _types(data), infer(op, types))
    else:
        data = [tracer.value(t) for t in operands]
        out = tracer.emit(op, data)
        if not mode.grad and any(t._requires_grad for t in operands):
            out = [tracer.detached(x) for x in out]
    results = tuple([wrap(x) for x in out])
    if tracer is not None:
        tracer.note(results)
    if tracer is None and isinstance(op, View):  # the result may share memory: writes to either must be seen in both
        results[0]._storage = operands[0]._storage = operands[0]._storage or Storage()
    if mode.grad and op.differentiable:
        for t in operands:
            if t._requires_grad:
                record(op, operands, data, results)
                break
    return results


def _types(data: Sequence[Any]) -> tuple[TensorType, ...]:
    return tuple([tensor_type(x.shape, x.dtype) for x in data])


def run_few(op: Op, data: Sequence[Any]) -> Sequence[Any] | None:
    """What `run_op` gives where it only asks the op's reference, which is remembered by op and types; else None."""
    key: list[Any] = [op]
    for x in data:
        if x.__class__ is not np.ndarray:
            return None
        key += x.shape, x.dtype
    reference = _references.get(whole := tuple(key))
    if reference is None:
        _references.add(whole, _reference(op, _types(data)) or False)
    if not reference or hot_path.SMALL < 0:  # a profiler looks at `run_op`
        return None
    try:
        out = reference(*data)
    except JitgradError as error:
        raise located(error) from None
    found = out if out.__class__ is tuple else (out,)
    if isinstance(op, _LAID_OUT):
        return found  # type: ignore[no-any-return]
    return [_row_major(x) for x in found]


def _reference(op: Op, types: tuple[TensorType, ...]) -> Callable[..., Any] | None:
    """The reference of an op on few elements, if that is all there is to it."""
    results = infer(op, types)
    few = results and results[0].numel <= _LARGE and (not types or types[0].numel <= _LARGE)
    return op.reference if few and not isinstance(op, OFTEN) and type(op).reference is not Op.reference else None


def _apply_at(level: Level, op: Op, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """All results of `op` as tensors of `level`, which also records by itself, of what is its own."""
    lifted = [lift(level, t) for t in operands]
    data = [t._data for t in lifted]
    results = tuple([wrap(x) for x in level.run(op, data)])
    level.note(results)
    if isinstance(op, View):
        results[0]._storage = lifted[0]._storage = lifted[0]._storage or Storage()
    if local.mode.grad and op.differentiable and any(t._requires_grad for t in lifted):
        record(op, lifted, data, results)
    return results


def lift(level: Level, t: Tensor) -> Tensor:
    """`t` as a tensor of `level`: itself, or a constant there, of the same memory."""
    data = t._data
    if isinstance(data, LevelData) and data.level is level:
        return t
    made = wrap(level.lift(t))
    made._storage = t._storage = t._storage or Storage()
    return made


def apply_data(op: Op, data: Sequence[Any]) -> Sequence[Any]:
    """The results of `op` on data of any kind (arrays, values being traced, data of levels), without a record."""
    level = innermost(data)
    if level is not None:
        return level.run(op, [lift(level, as_tensor(x))._data for x in data])
    tracer = local.mode.tracer
    if tracer is not None:
        return tracer.emit(op, data)
    return run_op(op, data, types := tuple([tensor_type(x.shape, x.dtype) for x in data]), infer(op, types))


def as_tensor(data: Any) -> Tensor:
    """Data of any kind as a tensor without history."""
    made = wrap(data)
    tracer = local.mode.tracer
    if tracer is not None and not isinstance(data, (np.ndarray, LevelData)):
        tracer.note((made,))
    return made


def data_of(t: Tensor) -> Any:
    """The data of a tensor as it is now; while tracing, a value."""
    tracer = local.mode.tracer
    return t._data if tracer is None or isinstance(t._data, LevelData) else tracer.value(t)


def constant(array: Any, like: Tensor | None = None) -> Tensor:
    """A tensor of these numbers, where `like` is or new tensors are made: a leaf, or while tracing a constant."""
    mode = local.mode
    if mode.tracer is not None:
        if like is not None:
            mode.tracer.placement.takes(like)
        return mode.tracer.constant(np.asarray(array))
    if like is not None and like._data.__class__ is DeviceArray:
        return wrap(on_device(np.asarray(array), like._data.device))
    return wrap(np.asarray(array) if mode.place is None else on_device(np.asarray(array), mode.place))


def beside(t: Tensor, other: Tensor) -> Tensor:
    """A tensor that a function has made of numbers, on the device of the tensor that it is for."""
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.placement.takes(other)
        return t
    there = other._data
    if there.__class__ is not DeviceArray or t._data.__class__ is not np.ndarray:
        return t
    return wrap(on_device(t._data, there.device))


def data_op(op: Op, *data: Any) -> Any:
    """The only result of `op` on arrays of the right types, eagerly and without a record."""
    types = tuple([tensor_type(x.shape, x.dtype) for x in data])
    return run_op(op, data, types, infer(op, types))[0]


def shared(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor sharing the memory of a user's array. A compiled function reads the array anew at each call."""
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.arrays.append(array)
    return wrap(array)


def host_number(read: Callable[[], float], dtype: dtypes.DType, name: str) -> Any:
    """A number kept in Python (a learning rate): itself eagerly, a 0-d input fetched at each call while tracing."""
    tracer = local.mode.tracer
    return read() if tracer is None else tracer.host_scalar(read, dtype, name)


def run_op(
    op: Op, data: Sequence[Any], operands: tuple[TensorType, ...], results: Sequence[TensorType]
) -> Sequence[Any]:
    """`op` on arrays, now: by NumPy, or by a generated kernel if there is much to do or they are on a device."""
    try:
        for x in data:
            if x.__class__ is DeviceArray:
                return run_on_device(op, data, operands)
        if results and (results[0].numel > _LARGE or (operands and operands[0].numel > _LARGE)):
            out: Sequence[Any] | None = run_large(op, data, operands, results)
            if out is not None:
                return out
        elif isinstance(op, OFTEN) and (native := run_often(op, data, operands, results)) is not None:
            return native  # type: ignore[no-any-return]
        found = op.arranged(arrange, data[0]) if isinstance(op, Arranging) else apply_reference(op, data)
        return found if isinstance(op, _LAID_OUT) else [_row_major(x) for x in found]
    except JitgradError as error:
        raise located(error) from None


def _row_major(x: Any) -> Any:
    """A result whose strides don't depend on those of operands."""
    return x if x.__class__ is not np.ndarray or x.flags.c_contiguous else x.copy()


def run_data(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, op by op: by NumPy, on the device that some of its inputs are on, or at their level."""
    if local.mode.levels and innermost(inputs) is not None:
        return evaluate(graph, inputs, apply_data)
    for x in inputs:
        if x.__class__ is DeviceArray:
            return run_graph_on_device(graph, inputs, x.device)
    return evaluate(graph, inputs, _apply_here)


def _apply_here(op: Op, data: Sequence[Any]) -> Sequence[Any]:
    """By NumPy; but what a composite of much data takes of memory there may grow with its square."""
    if isinstance(op, Arranging):
        return op.arranged(arrange, data[0])
    if not type(op).has_decomposition() or sum(map(np.size, data)) < _MUCH:
        return apply_reference(op, data)
    data = [x if x.flags.c_contiguous else x.copy() for x in data]  # as kernels take them
    types = tuple([tensor_type(x.shape, x.dtype) for x in data])
    return run_op(op, data, types, infer(op, types))


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
def recording(op: Op, types: tuple[TensorType, ...], needs: tuple[bool, ...]) -> tuple[Any, Any, Any]:
    """Which operands and which results the gradient rule uses, and which results have a gradient."""
    differentiable = tuple([t.dtype.is_differentiable for t in infer(op, types)])
    return *(residual_mask(op, types, needs) if True in differentiable else ((), ())), differentiable


def record(op: Op, operands: Sequence[Tensor], data: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Append a tape node and make `results` its results (those of differentiable dtype)."""
    types = tuple([tensor_type(x.shape, x.dtype) for x in data])
    needs = tuple([t._requires_grad and x.dtype.kind in _FLOATING for t, x in zip(operands, data, strict=True)])
    if True not in needs:
        return
    keep, keep_results, differentiable = recording(op, types, needs)
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
    node.kept = (*keep, *keep_results)
    mode = local.mode
    if mode.tracer is not None:
        node.location = user_location()
        mode.tracer.scopes[node.seq] = mode.tracer.builder.scope
    if op.copies_on_write:
        let_write(node)
    if mode.watches:
        watch(mode, node)
    for i, t in enumerate(results):
        if differentiable[i]:
            t._node, t._index, t._requires_grad = node, i, True
