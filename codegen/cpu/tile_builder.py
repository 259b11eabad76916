"""What tile kernels are built with: counted loops, cells that become registers, vector memory access, transposition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from llvmlite import ir

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

from ..conv.kernel import SLOTS
from . import emit_convert
from .emit_types import (
    HALF_TYPES,
    I32,
    I64,
    POINTER,
    lane_order,
    memory_type,
    ramp_constant,
    register_type,
    splat,
    splat_constant,
)  # fmt: skip

_KERNEL_TYPE: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64, I64])
_CACHE_LINE: Final = 64


def accumulator_of(dtype: DType) -> DType:
    """The type in which elements of a floating-point type are multiplied and added up."""
    return dtypes.float32 if dtype in HALF_TYPES else dtype


class TileBuilder:
    """Builds one function of the kernel ABI. `dtype` is that of elements in memory, `wide` that of registers.

    Offsets are in elements.
    """

    def __init__(self, module: ir.Module, symbol: str, dtype: DType, lanes: int) -> None:
        self.dtype, self.wide, self.lanes = dtype, accumulator_of(dtype), lanes
        self.function = ir.Function(module, _KERNEL_TYPE, symbol)
        self.buffers, self.slots, _, self.begin, self.end = self.function.args
        self.entry = self.function.append_basic_block("entry")
        self.cells = ir.IRBuilder(self.entry)  # stack cells, in front of everything
        body = self.function.append_basic_block("body")
        self.b = ir.IRBuilder(body)
        self._body = body
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

    def slot(self, index: int | ir.Value) -> ir.Value:
        """Run-time number `index`."""
        return self.b.load(self.b.gep(self.slots, [self.number(index)], source_etype=I64), typ=I64)

    # Control

    @contextmanager
    def loop(self, stop: int | ir.Value, step: int = 1, start: int | ir.Value = 0) -> Iterator[ir.Value]:
        """`for index in range(start, stop, step)`."""
        b = self.b
        head, body, after = (b.append_basic_block(n) for n in ("loop", "each", "after"))
        start, stop, before = self.number(start), self.number(stop), b.block
        b.cbranch(b.icmp_signed("<", start, stop), head, after)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(start, before)
        b.branch(body)
        b.position_at_end(body)
        yield index
        following = b.add(index, I64(step))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, stop), head, after)
        b.position_at_end(after)

    def cell(self, kind: ir.Type) -> ir.Value:
        """A stack cell, which LLVM turns into a register."""
        return self.cells.alloca(kind)

    # Memory

    def buffer(self, index: int) -> ir.Value:
        """The address of buffer `index`."""
        return self.b.load(self.b.gep(self.buffers, [I64(index)], source_etype=POINTER), typ=POINTER)

    def scratch(self, count: ir.Value) -> ir.Value:
        """Room for `count` elements on the stack, on a cache line; to be asked for in front of all loops."""
        return _aligned(self.b, self.b.alloca(self.element, count))

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
        kind = memory_type(self.dtype, self.lanes)
        blank = ir.Constant(kind, None) if self.dtype in HALF_TYPES else self.zero
        name = f"llvm.masked.load.{_suffix(kind)}.p0"
        load = _declared(self.b.module, name, ir.FunctionType(kind, [POINTER, I32, mask.type, kind]))
        raw = self.b.call(load, [address, I32(self.dtype.itemsize), mask, blank])
        return emit_convert.from_memory(self.b, raw, self.dtype, self.lanes)

    def write_some(self, address: ir.Value, value: ir.Value, mask: ir.Value) -> None:
        """The lanes chosen by the mask into memory."""
        if self.dtype in HALF_TYPES:
            value = emit_convert.round_to_half(self.b, value, self.dtype, self.lanes)
        self._masked_store(address, emit_convert.to_memory(self.b, value, self.dtype, self.lanes), mask, self.dtype)

    def write_some_wide(self, address: ir.Value, value: ir.Value, mask: ir.Value) -> None:
        """The lanes chosen by the mask into the kernel's own memory."""
        self._masked_store(address, value, mask, self.wide)

    def _masked_store(self, address: ir.Value, raw: ir.Value, mask: ir.Value, dtype: DType) -> None:
        name = f"llvm.masked.store.{_suffix(raw.type)}.p0"
        kinds = [raw.type, POINTER, I32, mask.type]
        store = _declared(self.b.module, name, ir.FunctionType(ir.VoidType(), kinds))
        self.b.call(store, [raw, address, I32(dtype.itemsize), mask])

    # Vectors

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x y + z, rounded once."""
        kind = x.type
        name = f"llvm.fma.{_suffix(kind)}"
        return self.b.call(_declared(self.b.module, name, ir.FunctionType(kind, [kind] * 3)), [x, y, z])

    # Transposition

    def turn(
        self, load: Callable[[ir.Value], ir.Value], rows: ir.Value, store: Callable[[ir.Value, ir.Value], None],
        columns: ir.Value,
    ) -> None:  # fmt: skip
        """`store(i, column)` for the first `columns` columns of `rows` vectors `load(i)`, of as many as lanes each.

        Lanes of columns beyond `rows` hold nothing in particular.
        """
        lanes = self.lanes
        with self.loop(self.minimum(rows, lanes)) as i:
            self.write(self.at(self.square, self.product(i, lanes), wide=True), load(i))
        self.b.call(_transposition(self), [self.square])
        with self.loop(self.minimum(columns, lanes)) as i:
            store(i, self.read(self.at(self.square, self.product(i, lanes), wide=True)))

    @functools.cached_property
    def square(self) -> ir.Value:
        """Room for what is being transposed."""
        return _aligned(self.cells, self.cells.alloca(self.element, I64(self.lanes**2)))


def _aligned(b: ir.IRBuilder, memory: ir.Value) -> ir.Value:
    memory.align = _CACHE_LINE
    return b.inttoptr(b.ptrtoint(memory, I64), POINTER)


def _transposition(builder: TileBuilder) -> ir.Function:
    """`void f(square)`: transposes a square of vectors in place; one function for all kernels of a module.

    Each round exchanges blocks of half the size across the diagonal.
    """
    kind, lanes = builder.vector, builder.lanes
    name = f"transpose.{_suffix(kind)}"
    found = builder.b.module.globals.get(name)
    if found is not None:
        return found
    function = _declared(builder.b.module, name, ir.FunctionType(ir.VoidType(), [POINTER]))
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block())
    places = [b.gep(function.args[0], [I64(i)], source_etype=kind) for i in range(lanes)]
    rows = [b.load(place, typ=kind) for place in places]
    half = lanes // 2
    while half:
        upper = tuple(j - half + lanes if j & half else j for j in range(lanes))
        lower = tuple(j + lanes if j & half else j + half for j in range(lanes))
        for i in range(lanes):
            if not i & half:
                x, y = rows[i], rows[i + half]
                rows[i] = b.shuffle_vector(x, y, lane_order(upper))
                rows[i + half] = b.shuffle_vector(x, y, lane_order(lower))
        half //= 2
    for place, row in zip(places, rows, strict=True):
        b.store(row, place)
    b.ret_void()
    return function


class Numbers:
    """Run-time numbers by name, loaded anew wherever they are used: held in registers they would crowd out the rest."""

    def __init__(self, builder: TileBuilder) -> None:
        self._builder = builder

    def __getitem__(self, name: str) -> ir.Value:
        return self._builder.slot(SLOTS[name])


def _suffix(kind: ir.Type) -> str:
    """How LLVM's intrinsics name a vector type."""
    names = {"float": "f32", "double": "f64", "i16": "i16"}
    return f"v{kind.count}{names[str(kind.element)]}"


def _declared(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    found = module.globals.get(name)
    return ir.Function(module, kind, name) if found is None else found


__all__ = ["Numbers", "TileBuilder", "accumulator_of"]
