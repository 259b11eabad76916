"""Emitted code that reads int64 cells, and calls functions at addresses found in them."""

from __future__ import annotations

from typing import Final

from . import llvm_ir as ir

I64, I32, I8, I1, PTR = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(1), ir.PointerType()
RUN_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64])  # code, table, team or 0


def cell(b: ir.IRBuilder, base: ir.Value, index: int | ir.Value) -> ir.Value:
    """The int64 number `index` after `base`."""
    return b.load(at(b, base, index), typ=I64)


def at(b: ir.IRBuilder, base: ir.Value, index: int | ir.Value) -> ir.Value:
    """The address of the int64 number `index` after `base`."""
    number = I64(index) if isinstance(index, int) else index
    return b.gep(base, [number], source_etype=I64)


def byte_cell(b: ir.IRBuilder, base: ir.Value, offset: int) -> ir.Value:
    """The int64 `offset` bytes after `base`."""
    return b.load(b.gep(base, [I64(offset)], source_etype=I8), typ=I64)


def call(b: ir.IRBuilder, type: ir.FunctionType, address: ir.Value, args: list[ir.Value]) -> ir.Value:
    """Call the function at an integer address."""
    return b.call(b.inttoptr(address, PTR), args, function_type=type)


def opaque(b: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """A pointer without llvmlite's own idea of what it points to."""
    return b.inttoptr(b.ptrtoint(pointer, I64), PTR)


def address(b: ir.IRBuilder, table: ir.Value, step: ir.Value, index: int | ir.Value) -> ir.Value:
    """The address that a (region, byte offset) pair of cells gives, by a table of where regions are."""
    first = I64(index) if isinstance(index, int) else index
    region, offset = cell(b, step, first), cell(b, step, b.add(first, I64(1)))
    return b.add(cell(b, table, region), offset)


class Counted:
    """A loop of `count` turns, begun in the current block: `with Counted(...) as k:`.

    Afterwards `b` stands behind it.
    """

    def __init__(self, function: ir.Function, b: ir.IRBuilder, count: ir.Value, name: str) -> None:
        self.b = b
        self.count = count
        self.before = b.block
        self.loop = function.append_basic_block(name)
        self.done = function.append_basic_block(f"{name}_done")

    def __enter__(self) -> ir.Value:
        b = self.b
        b.cbranch(b.icmp_signed(">", self.count, I64(0)), self.loop, self.done)
        b.position_at_end(self.loop)
        self.k = b.phi(I64)
        self.k.add_incoming(I64(0), self.before)
        return self.k

    def __exit__(self, *exception: object) -> None:
        b = self.b
        following = b.add(self.k, I64(1))
        self.k.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, self.count), self.loop, self.done)
        b.position_at_end(self.done)
