"""A function that copies a square of elements and transposes it: as many rows as a vector has lanes.

    void copy(source, source pitch, rows, mask of columns, target, target pitch, columns, mask of rows)

Pitches are in elements. `rows` and `columns` say how many of the square there are; the lanes for rows that there are
not are zero, and written where the mask of rows says so. One function serves all kernels of a process (`shared.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .emit_square import exchanged
from .emit_types import I1, I64, POINTER, memory_type, splat_constant
from .tile_memory import counted, masked_read, masked_write, wide_vector

_CACHE_LINE: Final = 64


def square_copy_type(lanes: int) -> ir.FunctionType:
    """The function's type."""
    mask = ir.VectorType(I1, lanes)
    return ir.FunctionType(ir.VoidType(), [POINTER, I64, I64, mask, POINTER, I64, I64, mask])


def build_square_copy(module: ir.Module, name: str, source: DType, target: DType, lanes: int) -> None:
    """Add the function from elements of `source` to elements of `target`."""
    _SquareCopy(ir.Function(module, square_copy_type(lanes), name), source, target, lanes).build()


class _SquareCopy:
    def __init__(self, function: ir.Function, source: DType, target: DType, lanes: int) -> None:
        self.function, self.source, self.target, self.lanes = function, source, target, lanes
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.vector = wide_vector(source, lanes)
        room = self.b.alloca(self.vector, lanes)
        room.align = _CACHE_LINE
        self.room = self.b.inttoptr(self.b.ptrtoint(room, I64), POINTER)

    def build(self) -> None:
        """The whole function: rows that there are, the exchange, columns that there are."""
        b, args = self.b, self.function.args
        _, _, rows, _, _, _, columns, _ = args
        whole = b.icmp_signed(">=", rows, I64(self.lanes))
        found = self._either(whole, self._load_all, self._load_some)
        found = exchanged(b, found)
        all_columns = b.icmp_signed(">=", columns, I64(self.lanes))
        self._either(all_columns, lambda: self._store_all(found), lambda: self._store_some(found))
        b.ret_void()

    def _either(
        self, condition: ir.Value, one: Callable[[], list[ir.Value]], other: Callable[[], list[ir.Value]]
    ) -> list[ir.Value]:
        """What one or the other way gives."""
        b = self.b
        first, second, after = (b.append_basic_block(n) for n in ("whole", "part", "after"))
        b.cbranch(condition, first, second)
        results, ends = [], []
        for block, build in ((first, one), (second, other)):
            b.position_at_end(block)
            results.append(build())
            ends.append(b.block)
            b.branch(after)
        b.position_at_end(after)
        joined: list[ir.Value] = []
        for values in zip(*results, strict=True):
            phi = b.phi(self.vector)
            for value, end in zip(values, ends, strict=True):
                phi.add_incoming(value, end)
            joined.append(phi)
        return joined

    def _row(self, i: ir.Value) -> ir.Value:
        source, pitch, _, mask, *_ = self.function.args
        at = self.b.gep(source, [self.b.mul(i, pitch)], source_etype=memory_type(self.source, 1))
        return masked_read(self.b, self.source, at, mask, self.lanes)

    def _place(self, i: int | ir.Value) -> ir.Value:
        number = I64(i) if isinstance(i, int) else i
        return self.b.gep(self.room, [number], source_etype=self.vector)

    def _load_all(self) -> list[ir.Value]:
        return [self._row(I64(i)) for i in range(self.lanes)]

    def _load_some(self) -> list[ir.Value]:
        zero = splat_constant(self.vector.element, 0.0, self.lanes)
        for i in range(self.lanes):
            self.b.store(zero, self._place(i))
        with counted(self.b, self.function.args[2]) as row:
            self.b.store(self._row(row), self._place(row))
        return [self.b.load(self._place(i), typ=self.vector) for i in range(self.lanes)]

    def _store(self, i: ir.Value, value: ir.Value) -> None:
        *_, target, pitch, _, mask = self.function.args
        at = self.b.gep(target, [self.b.mul(i, pitch)], source_etype=memory_type(self.target, 1))
        masked_write(self.b, self.target, at, value, mask, self.lanes)

    def _store_all(self, columns: list[ir.Value]) -> list[ir.Value]:
        for i, column in enumerate(columns):
            self._store(I64(i), column)
        return []

    def _store_some(self, columns: list[ir.Value]) -> list[ir.Value]:
        for i, column in enumerate(columns):
            self.b.store(column, self._place(i))
        with counted(self.b, self.function.args[6]) as number:
            self._store(number, self.b.load(self._place(number), typ=self.vector))
        return []
