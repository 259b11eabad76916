"""What the emitter asks of a loop: how wide its values are, and whether it has many addresses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Const, Expr

from ..loops import walk
from ..loops.analysis import moved_parts
from ..loops.ir import Init, Load, Loop, Stmt, Store, Update

_MANY: Final = 3


def vector_element_bits(loop: Loop, buffers: Iterable[DType]) -> int:
    """The width of the widest value computed in `loop`, which decides how many lanes a register holds.

    Indices (int64 made of loop variables and slots alone) don't count: they are computed once per vector. What is moved
    from memory to memory has the width that it has there.
    """
    types = list(buffers)
    widest = 8
    for stmt in walk.statements(loop.body):
        for root in _values(stmt):
            moved = moved_parts(root) if isinstance(stmt, Store) else ()
            for expr in walk.postorder([root]):
                if isinstance(expr, Load):
                    widest = max(widest, 8 * types[expr.buffer].itemsize)
                elif expr.dtype is not dtypes.int64:
                    single = 32 if expr.dtype.kind == "float" and expr not in moved else 0
                    widest = max(widest, single, 8 * expr.dtype.itemsize)
    return widest


def _values(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case Init(value=value) | Store(value=value):
            return (value,)
        case Update(values=values):
            return values
    return ()


def is_multiple(loop: Loop, step: int) -> bool:
    """Whether a loop's length is a number of the kernel's structure that `step` divides: then nothing is left."""
    start, stop = loop.start, loop.stop
    return isinstance(start, Const) and isinstance(stop, Const) and (int(stop.value) - int(start.value)) % step == 0


def has_many_addresses(loop: Loop) -> bool:
    """Whether LLVM would search long for other forms of a loop's addresses; around other loops, it does so in vain."""
    body = list(walk.statements(loop.body))
    if any(isinstance(stmt, Loop) for stmt in body):
        return True
    loads = {e for stmt in body for e in walk.loads(walk.expressions(stmt))}
    return len(loads) + sum(isinstance(stmt, Store) for stmt in body) >= _MANY
