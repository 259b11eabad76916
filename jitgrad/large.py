"""Large eager ops on generated kernels: a graph of one node, compiled when the op comes again.

NumPy runs most ops on one core without vector mathematics, and composites in many passes over memory. From some
thousand elements on, a kernel of our own is faster; from a million on, it is worth compiling at first sight. Random ops
take NumPy many passes at any size, and so do functions that are evaluated as programs of float32 arithmetic: those that
have the same bits in kernels are native where they come often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.builder import Builder
from jitgrad.ir.config import config
from jitgrad.ir.control import Scan
from jitgrad.ir.dtypes import float64
from jitgrad.ir.op import IndexMap, Op, Pointwise, Reduction, ScatterOp, View
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.random import RandomInt, RandomNormal, RandomOp, RandomUniform
from jitgrad.ir.ops.special_function import SinglePrecisionFunction
from jitgrad.ir.types import TensorType

from .axis_order import Order, arranged_input, arranged_type, memory_order, put_back
from .backend import compile_graph, native_call
from .counters import is_watched
from .hot_path import calls_needed
from .memo import Memo

_PRIMITIVE = 1 << 17  # elements read and written, from which a kernel is used
_COMPOSITE = 1 << 14  # also reductions, and what adds up by an index, for which NumPy has to sort
_PRODUCT = 1 << 18  # multiplications
_DRAWN = 1 << 12  # random numbers that are the same to the bit in kernels, which take a tenth of NumPy's time
_AT_ONCE = 1 << 20
_AS_A_CALL = 32  # random numbers, which take NumPy as long as the call of an op
_STEPS_AS_A_CALL = 8  # ops of steps of a scan, whose code takes as much longer to compile
OFTEN = (RandomUniform, RandomNormal, RandomInt, SinglePrecisionFunction, Scan)  # what `run_often` may take
_seen: Memo[Any] = Memo(limit=2048)
_often: Memo[Any] = Memo(limit=256)


def run_large(op: Op, data: Sequence[Any], operands: tuple[TensorType, ...], results: Sequence[TensorType]) -> Any:
    """The results of `op` by a generated kernel, or None where NumPy serves better."""
    total = sum([t.numel for t in operands]) + sum([t.numel for t in results])
    if total < (_DRAWN if _is_exact_draw(op) else _COMPOSITE) or not config.compile or not _takes(op, total, operands):
        return None
    orders: tuple[Order | None, ...] = (None,) * len(data)
    if not all(x.flags.c_contiguous for x in data):
        orders = tuple([memory_order(x.shape, x.strides, x.itemsize) for x in data])
        if isinstance(op, Pointwise):
            return _as_they_lie(op, data, orders, operands, results)
        if any(o is None and not x.flags.c_contiguous and _numpy_strides(op, x) for x, o in zip(data, orders)):
            return None
    key = (op, operands, orders)
    run = _seen.get(key)
    if not run and is_watched():
        return None
    if run is None:
        if total < _AT_ONCE:
            _seen.add(key, False)
            return None
        run = _seen.add(key, _compile(op, operands, orders))
    elif run is False:
        run = _seen.put(key, _compile(op, operands, orders))
    for i, check in op.value_checks(*operands):
        check.reference(data[i])
    return run([x if o is None else x.transpose(o) for x, o in zip(data, orders)])


def _as_they_lie(
    op: Op, data: Sequence[Any], orders: Sequence[Order | None], operands: Sequence[TensorType],
    results: Sequence[TensorType],
) -> Any:  # fmt: skip
    """The results of a pointwise op on operands whose axes lie in one order, in which its results lie too."""
    order = orders[0]
    if order is None or any(o != order for o in orders):
        return None
    held = [x.transpose(order) for x in data]
    types = [tuple([arranged_type(t, order) for t in group]) for group in (operands, results)]
    out = run_large(op, held, *types)
    return None if out is None else [x.transpose(put_back(order)) for x in out]


def _numpy_strides(op: Op, array: Any) -> bool:
    """Whether NumPy does `op` on an array with gaps in the time in which it copies it."""
    return isinstance(op, Reduction) and array.dtype.isbuiltin == 1


def run_often(op: Op, data: Sequence[Any], operands: tuple[TensorType, ...], results: Sequence[TensorType]) -> Any:
    """The results of a small op whose reference is slow, natively where it comes often; None where it doesn't yet.

    A scan that starts from little may be long.
    """
    if isinstance(op, Scan):
        data = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in data]
        if (out := run_large(op, data, operands, results)) is not None:
            return out
        counts = operands[op.carries].shape[0] * len(op.body.nodes) // _STEPS_AS_A_CALL
    elif operands and operands[0].dtype is float64:  # functions of these are SciPy's
        return None
    else:
        draws = op.draws if isinstance(op, RandomOp) else 0
        if draws and not _is_exact_draw(op):
            return None
        counts = 1 + draws // _AS_A_CALL
    key = (op, operands)
    found = _often.get(key)
    if found.__class__ is int:
        found += counts
        _often.put(key, found if found <= calls_needed() or not config.compile else _native(op, operands) or False)
    elif found:
        return found([*data])
    elif found is None:
        _often.add(key, 1)
    return None


def _native(op: Op, operands: tuple[TensorType, ...]) -> Any:
    b = Builder()
    return native_call(b.build(b.emit(op, *[b.input(t) for t in operands])))


def _takes(op: Op, total: int, operands: tuple[TensorType, ...]) -> bool:
    if isinstance(op, View) or not op.can_emit(*operands):
        return False
    if isinstance(op, Scan) or _is_exact_draw(op):
        return True
    if isinstance(op, (Pointwise, IndexMap)):
        return total >= _PRIMITIVE
    if isinstance(op, (Reduction, ScatterOp)):
        return True
    if isinstance(op, MatMul):  # not for speed: NumPy's BLAS has threads of its own, which stall on a busy machine
        return operands[0].numel * operands[1].shape[-1] >= _PRODUCT and operands[0].dtype.is_floating_point
    return type(op).has_decomposition()


def _is_exact_draw(op: Op) -> bool:
    return isinstance(op, RandomOp) and op.is_exact


def _compile(op: Op, operands: tuple[TensorType, ...], orders: Sequence[Order | None]) -> Any:
    b = Builder()
    results = b.emit(op, *[arranged_input(b, t, order) for t, order in zip(operands, orders)])
    return compile_graph(b.build(results), name=op.name)
