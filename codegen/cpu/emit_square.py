"""Squares of elements turned in registers: loops of a kernel that are recognised, and the exchange of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitgrad.ir.scalar import Const, Expr

from ..loops.analysis import stride
from ..loops.ir import Kernel, Load, Loop, Store
from . import llvm_ir as ir
from .emit_types import lane_order


@dataclass(frozen=True, slots=True)
class Square:
    """`local[column * pitch + row] = value`, for `side` rows and as many columns. `value` is loaded along columns.

    Where it is masked, there is 0: its bits are those of memory, whatever the type.
    """

    row: Loop
    column: Loop
    store: Store
    value: Load
    side: int


def square_of(loop: Loop, kernel: Kernel) -> Square | None:
    """The square that a loop over rows of a loop over columns is, if it is one."""
    if loop.kind != "serial" or len(loop.body) != 1:
        return None
    column = loop.body[0]
    if not isinstance(column, Loop) or column.kind != "vector" or len(column.body) != 1:
        return None
    store, side = column.body[0], _length(loop)
    if not isinstance(store, Store) or side not in (8, 16) or _length(column) != side:
        return None
    into, value = store.index, store.value
    if kernel.buffers[store.buffer].role != "local" or not isinstance(value, Load) or not _zero_outside(value):
        return None
    runs = stride(value.args[0], column.var) == 1 and stride(into, loop.var) == 1
    return Square(loop, column, store, value, side) if runs and (stride(into, column.var) or 0) >= side else None


def _zero_outside(value: Load) -> bool:
    return len(value.args) == 1 or (isinstance(value.args[2], Const) and not value.args[2].value)


def _length(loop: Loop) -> int | None:
    start, stop = loop.start, loop.stop
    known = isinstance(start, Const) and isinstance(stop, Const) and start.value == 0
    return int(_value(stop)) if known else None


def _value(expr: Expr) -> int:
    assert isinstance(expr, Const)
    return int(expr.value)


def exchanged(b: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The transposed square: each round exchanges blocks of half the size across the diagonal."""
    found, lanes = list(rows), len(rows)
    half = lanes // 2
    while half:
        upper = lane_order(tuple(j - half + lanes if j & half else j for j in range(lanes)))
        lower = lane_order(tuple(j + lanes if j & half else j + half for j in range(lanes)))
        for i in range(lanes):
            if not i & half:
                x, y = found[i], found[i + half]
                found[i] = b.shuffle_vector(x, y, upper)
                found[i + half] = b.shuffle_vector(x, y, lower)
        half //= 2
    return found
