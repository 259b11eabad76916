"""What tile kernels are built with: cells that become registers, run-time numbers, vector memory access."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from jitgrad.ir.dtypes import DType
from jitgrad.ir.ops.broadcast import accumulator_dtype

from ..loops.tile import SLOTS
from . import emit_convert
from . import llvm_ir as ir
from .emit_types import I1, I32, I64, POINTER, memory_type, ramp_constant, register_type, splat, splat_constant
from .shared import square_copy
from .tile_memory import counted, declared, masked_read, masked_write, suffix

_KERNEL_TYPE: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64, I64])
_CACHE_LINE: Final = 64


class FunctionBuilder:
    """Builds one function. `dtype` is that of elements in memory, `wide` that of registers. Offsets are in elements."""

    def __init__(self, function: ir.Function, dtype: DType, lanes: int) -> None:
        self.dtype, self.wide, self.lanes = dtype, accumulator_dtype(dtype), lanes
        self.function = function
        self.entry = function.append_basic_block("entry")
        self.cells = ir.IRBuilder(self.entry)  # stack cells, in front of everything
        self._body = function.append_basic_block("body")
        self.b = ir.IRBuilder(self._body)
        self.element = register_type(self.wide, 1)
        self.vector = register_type(self.wide, lanes)
        self.zero = splat_constant(self.element, 0.0, lanes)

    def finish(self) -> ir.Function:
        """The function, complete."""
        self.b.ret_void()
        self.cells.branch(self._body)
        return self.function

    # Integers

    def number(self, value: int | ir.Value) -> ir.Value:
        """An int64."""
        return I64(value) if isinstance(value, int) else value

    def sum(self, *terms: int | ir.Value) -> ir.Value:
        """Their sum."""
        first, *rest = map(self.number, terms)
        for term in rest:
            first = self.b.add(first, term)
        return first

    def product(self, *factors: int | ir.Value) -> ir.Value:
        """Their product."""
        first, *rest = map(self.number, factors)
        for factor in rest:
            first = self.b.mul(first, factor)
        return first

    def minimum(self, x: int | ir.Value, y: int | ir.Value) -> ir.Value:
        """The smaller number."""
        x, y = self.number(x), self.number(y)
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def split(self, value: ir.Value, *extents: ir.Value) -> list[ir.Value]:
        """A row-major place as an index over axes of these extents, with a first one in front of them."""
        found = []
        for extent in reversed(extents):
            found.append(self.b.srem(value, extent))
            value = self.b.sdiv(value, extent)
        return [value, *reversed(found)]

    # Control

    def loop(self, stop: int | ir.Value, step: int = 1, start: int | ir.Value = 0) -> AbstractContextManager[ir.Value]:
        """`for index in range(start, stop, step)`."""
        return counted(self.b, self.number(stop), step, self.number(start))

    def cell(self, kind: ir.Type) -> ir.Value:
        """A stack cell, which LLVM turns into a register."""
        return self.cells.alloca(kind)

    # Memory

    def scratch(self, count: ir.Value) -> ir.Value:
        """Room for `count` elements on the stack, on a cache line; to be asked for in front of all loops."""
        memory = self.b.alloca(self.element, count)
        memory.align = _CACHE_LINE
        return self.b.inttoptr(self.b.ptrtoint(memory, I64), POINTER)

    def at(self, base: ir.Value, *offsets: int | ir.Value, wide: bool = False) -> ir.Value:
        """The address some elements behind `base`; `wide` for the kernel's own memory."""
        kind = self.element if wide else memory_type(self.dtype, 1)
        return self.b.gep(base, [self.sum(*offsets)], source_etype=kind)

    def read(self, address: ir.Value) -> ir.Value:
        """A vector of the kernel's own memory."""
        return self.b.load(address, align=self.wide.itemsize, typ=self.vector)

    def write(self, address: ir.Value, value: ir.Value) -> None:
        """A vector into the kernel's own memory."""
        self.b.store(value, address, align=self.wide.itemsize)

    def prefetch(self, address: ir.Value, writes: bool = False, nearness: int = 3) -> None:
        """Have the cache line at an address brought near, which may be one of no memory: 3 is the first cache."""
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        call = declared(self.b.module, "llvm.prefetch.p0", kind)
        self.b.call(call, [address, I32(int(writes)), I32(nearness), I32(1)])

    def spread(self, address: ir.Value) -> ir.Value:
        """One element of the kernel's own memory in every lane."""
        return splat(self.b, self.b.load(address, typ=self.element), self.lanes)

    def between(self, low: ir.Value, high: ir.Value) -> ir.Value:
        """The mask of the lanes whose number is at least `low` and less than `high`."""
        b, lanes = self.b, I64(self.lanes)
        zero = I64(0)
        bounds = []
        for bound in (low, high):
            clipped = b.select(b.icmp_signed("<", bound, zero), zero, self.minimum(bound, lanes))
            bounds.append(splat(b, b.trunc(clipped, I32), self.lanes))
        ramp = ramp_constant(I32, range(self.lanes))
        return b.and_(b.icmp_signed(">=", ramp, bounds[0]), b.icmp_signed("<", ramp, bounds[1]))

    def read_some(self, address: ir.Value, mask: ir.Value) -> ir.Value:
        """Elements in memory as a vector, zero where the mask is false."""
        return masked_read(self.b, self.dtype, address, mask, self.lanes)

    def write_some_wide(self, address: ir.Value, value: ir.Value, mask: ir.Value) -> None:
        """The lanes chosen by the mask into the kernel's own memory."""
        masked_write(self.b, self.wide, address, value, mask, self.lanes)

    def write_some(self, address: ir.Value, value: ir.Value, mask: ir.Value) -> None:
        """The lanes chosen by the mask into memory."""
        masked_write(self.b, self.dtype, address, value, mask, self.lanes)

    def read_one(self, address: ir.Value) -> ir.Value:
        """One element in memory."""
        raw = self.b.load(address, typ=memory_type(self.dtype, 1))
        return emit_convert.from_memory(self.b, raw, self.dtype, 1)

    def pack_square(self, *arguments: ir.Value) -> None:
        """Copy a square from memory into the kernel's own, transposed; arguments as in `tile_square`."""
        self.b.call(square_copy(self.b.module, self.dtype, self.wide, self.lanes), arguments)

    def unpack_square(self, *arguments: ir.Value) -> None:
        """Copy a square from the kernel's own memory, transposed; arguments as in `tile_square`."""
        self.b.call(square_copy(self.b.module, self.wide, self.dtype, self.lanes), arguments)

    @property
    def everywhere(self) -> ir.Value:
        """The mask of all lanes."""
        return ir.Constant(ir.VectorType(I1, self.lanes), [1] * self.lanes)

    # Vectors

    def rounded(self, value: ir.Value) -> ir.Value:
        """A register as memory would give it back."""
        if self.dtype is self.wide:
            return value
        return emit_convert.round_to_half(self.b, value, self.dtype, self.lanes)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x y + z, rounded once."""
        kind = x.type
        name = f"llvm.fma.{suffix(kind)}"
        return self.b.call(declared(self.b.module, name, ir.FunctionType(kind, [kind] * 3)), [x, y, z])


class TileBuilder(FunctionBuilder):
    """Builds one function of the kernel ABI."""

    def __init__(self, module: ir.Module, symbol: str, dtype: DType, lanes: int) -> None:
        super().__init__(ir.Function(module, _KERNEL_TYPE, symbol), dtype, lanes)
        self.buffers, self.slots, _, self.begin, self.end = self.function.args

    def slot(self, index: int | ir.Value) -> ir.Value:
        """Run-time number `index`."""
        return self.b.load(self.b.gep(self.slots, [self.number(index)], source_etype=I64), typ=I64)

    def buffer(self, index: int) -> ir.Value:
        """The address of buffer `index`."""
        return self.b.load(self.b.gep(self.buffers, [I64(index)], source_etype=POINTER), typ=POINTER)


class Numbers:
    """Run-time numbers by name, loaded anew wherever they are used: held in registers they would crowd out the rest."""

    def __init__(self, builder: TileBuilder) -> None:
        self._builder = builder

    def __getitem__(self, name: str) -> ir.Value:
        return self._builder.slot(SLOTS[name])
