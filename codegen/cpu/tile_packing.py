"""The packing of a block of columns for matrix products, as a function.

    void pack(w, inner, columns, is turned, column, left, first, count, target)

The target is [term][column], with some terms from the first one on, and the columns that are left, as many as fit.
What is behind these is zero as far as their last register goes. `w` is [inner, columns], or [columns, inner] if it is
turned.
"""

from __future__ import annotations

from typing import Final

from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .emit_types import I64, POINTER
from .tile_builder import FunctionBuilder
from .tile_memory import shared_part

_KIND: Final = ir.FunctionType(ir.VoidType(), [POINTER, *[I64] * 7, POINTER])


def packing_function(module: ir.Module, dtype: DType, lanes: int, vectors: int) -> ir.Function:
    """The function for blocks of `vectors` registers, added to `module` if it is not there yet."""
    name = f"pack.{dtype.name}.{lanes}.{vectors}"
    return shared_part(module, name, _KIND, lambda function: _Packing(function, dtype, lanes, vectors).build())


class _Packing(FunctionBuilder):
    def __init__(self, function: ir.Function, dtype: DType, lanes: int, vectors: int) -> None:
        super().__init__(function, dtype, lanes)
        self.width = vectors * lanes
        self.w, self.inner, self.columns, self.is_turned, self.column, left, *terms, self.target = function.args
        self.left, (self.first, self.count) = self.minimum(left, self.width), terms

    def build(self) -> ir.Function:
        """The whole function."""
        with self.b.if_else(self.b.icmp_signed("!=", self.is_turned, I64(0))) as (is_turned, is_straight):
            with is_turned:
                self._turn()
            with is_straight:
                self._copy()
        return self.finish()

    def _copy(self) -> None:
        """Term by term, because each is a run of memory; where few columns are left, register by register."""
        source = self.at(self.w, self.product(self.first, self.columns), self.column)
        is_whole = self.b.icmp_signed(">=", self.left, I64(self.width))
        with self.b.if_else(is_whole) as (whole, part):
            with whole:
                self._copy_registers(source, self.target, [self.everywhere] * (self.width // self.lanes))
            with part, self.loop(self.left, step=self.lanes) as v:
                mask = self.between(I64(0), self.b.sub(self.left, v))
                self._copy_registers(self.at(source, v), self.at(self.target, v), [mask])

    def _copy_registers(self, source: ir.Value, target: ir.Value, masks: list[ir.Value]) -> None:
        with self.loop(self.count) as k:
            row, place = self.at(source, self.product(k, self.columns)), self.at(target, self.product(k, self.width))
            for v, mask in enumerate(masks):
                self.write(self.at(place, v * self.lanes), self.read_some(self.at(row, v * self.lanes), mask))

    def _turn(self) -> None:
        """By squares that are turned in registers."""
        b, inner = self.b, self.inner
        with self.loop(self.left, step=self.lanes) as v, self.loop(self.count, step=self.lanes) as k:
            there = b.sub(self.count, k)
            source = self.at(self.w, self.product(self.sum(self.column, v), inner), self.first, k)
            place = self.at(self.target, self.product(k, self.width), v)
            self.pack_square(source, inner, b.sub(self.left, v), self.between(I64(0), there), place, I64(self.width),
                             there, self.everywhere)  # fmt: skip
