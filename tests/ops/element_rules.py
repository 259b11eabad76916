"""Runs an op by its scalar rules alone, with NumPy standing in for a backend: no reference, no kernel."""

from dataclasses import dataclass

import numpy as np

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.op import IndexMap, Pointwise, Reduction
from jitgrad.ir.scalar import Expr, intern_expr
from jitgrad.ir.scalar_eval import Evaluator
from jitgrad.ir.types import TensorType


class OperandElement(Expr):
    """A leaf: the element of operand `operand` at `args[:rank]`, masked by `args[rank]` if there is one."""

    __slots__ = ("fill", "operand", "rank")

    def __str__(self):
        return f"%{self.operand}[{', '.join(map(str, self.args))}]"


@dataclass(frozen=True)
class Operand:
    """The `Load` that element rules are given."""

    number: int
    type: TensorType

    def __call__(self, index, mask=None, fill=None):
        args = tuple(index) + (() if mask is None else (mask,))
        assert len(index) == self.type.ndim, "an index per axis"
        assert all(i.dtype is dtypes.int64 for i in index), "indices are int64"
        return intern_expr(
            OperandElement, self.type.dtype, None, args, operand=self.number, rank=len(index), fill=fill or 0
        )


def run_elements(op: Pointwise | IndexMap, arrays, result: TensorType):
    """The result computed by `op.element` at every index at once."""
    grid = np.indices(result.shape, sparse=True)
    types = [TensorType(a.shape, dtypes.FROM_NUMPY[a.dtype]) for a in arrays]

    def leaf(expr):
        if isinstance(expr, scalar.Arg):
            return grid[expr.index]
        return _load(expr, arrays[expr.operand], evaluate)

    evaluate = Evaluator(leaf)
    index = tuple(scalar.arg(axis, dtypes.int64) for axis in range(len(result.shape)))
    expr = op.element(index, [Operand(i, t) for i, t in enumerate(types)])
    assert expr.dtype is result.dtype
    if result.numel == 0:
        return np.empty(result.shape, result.dtype.np)
    return np.broadcast_to(evaluate(expr), result.shape)


def _load(expr, array, evaluate):
    index = [evaluate(i) for i in expr.args[: expr.rank]]
    mask = evaluate(expr.args[expr.rank]) if len(expr.args) > expr.rank else np.True_
    index = np.broadcast_arrays(mask, *index)[1:]
    mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), *(i.shape for i in index)))
    for i, length in zip(index, array.shape, strict=True):
        assert np.all((i >= 0) & (i < length) | ~mask), "reads outside the operand"
    if array.size == 0:
        return np.full(mask.shape, expr.fill, array.dtype)
    safe = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True))
    return np.where(mask, array[safe], np.asarray(expr.fill, array.dtype))


def run_accumulators(op: Reduction, array, order: str):
    """The result computed by `op`'s accumulators, the fold cut in two: halves, or even and odd."""
    dtype = dtypes.FROM_NUMPY[array.dtype]
    kept = [a for a in range(array.ndim) if a not in op.axes]
    rows = array.transpose(*kept, *op.axes).reshape(*(array.shape[a] for a in kept), -1) if array.size else None
    count = 0 if rows is None else rows.shape[-1]
    out_shape = op.reduced_shape(array.shape)
    positions = np.arange(count)
    parts = (
        (positions[: count // 2], positions[count // 2 :]) if order == "halves" else (positions[::2], positions[1::2])
    )
    folded = [_fold(op, dtype, rows, part, [array.shape[a] for a in kept]) for part in parts]
    types = [e.dtype for e in op.initial(dtype)]
    names = [scalar.arg(i, t) for i, t in enumerate((*types, *types))]
    merged = op.merge(tuple(names[: len(types)]), tuple(names[len(types) :]))
    values = _evaluate(merged, [*folded[0], *folded[1]])
    result = op.finish(tuple(names[: len(types)]), dtype)
    assert result.dtype is op.result_dtype(dtype)
    return np.asarray(_evaluate([result], values)[0]).reshape(out_shape)


def _fold(op, dtype, rows, positions, shape):
    initial = op.initial(dtype)
    state = [np.broadcast_to(v, shape) for v in _evaluate(initial, [])]
    names = [scalar.arg(i, e.dtype) for i, e in enumerate(initial)]
    element, position = scalar.arg(len(names), dtype), scalar.arg(len(names) + 1, dtypes.int64)
    step = op.step(tuple(names), element, position)
    assert [e.dtype for e in step] == [e.dtype for e in initial], "accumulators keep their dtypes"
    for p in positions:
        state = _evaluate(step, [*state, rows[..., p], np.int64(p)])
    return state


def _evaluate(exprs, values):
    evaluate = Evaluator(lambda leaf: values[leaf.index])
    return [evaluate(e) for e in exprs]
