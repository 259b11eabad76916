"""What all parts of tile kernels are written with: counted loops, vectors in memory under a mask, intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jitgrad.ir.dtypes import DType
from jitgrad.ir.ops.broadcast import accumulator_dtype

from . import emit_convert
from . import llvm_ir as ir
from .emit_types import HALF_TYPES, I32, I64, POINTER, memory_type, plain, register_type, splat_constant


@contextmanager
def counted(b: ir.IRBuilder, stop: ir.Value, step: int = 1, start: ir.Value | None = None) -> Iterator[ir.Value]:
    """`for index in range(start, stop, step)`."""
    head, after = (b.append_basic_block(n) for n in ("loop", "after"))
    start, before = I64(0) if start is None else start, b.block
    b.cbranch(b.icmp_signed("<", start, stop), head, after)
    b.position_at_end(head)
    index = b.phi(I64)
    index.add_incoming(start, before)
    yield plain(b, index)
    following = b.add(index, I64(step))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, stop), head, after)
    b.position_at_end(after)


def masked_read(b: ir.IRBuilder, dtype: DType, address: ir.Value, mask: ir.Value, lanes: int) -> ir.Value:
    """Elements of `dtype`, zero where the mask is false."""
    kind = memory_type(dtype, lanes)
    half = dtype in HALF_TYPES
    blank = ir.Constant(kind, None) if half else splat_constant(register_type(dtype, 1), 0.0, lanes)
    name = f"llvm.masked.load.{suffix(kind)}.p0"
    load = declared(b.module, name, ir.FunctionType(kind, [POINTER, I32, mask.type, kind]))
    raw = b.call(load, [address, I32(dtype.itemsize), mask, blank])
    return emit_convert.from_memory(b, raw, dtype, lanes)


def masked_write(b: ir.IRBuilder, dtype: DType, address: ir.Value, value: ir.Value, mask: ir.Value, lanes: int) -> None:
    """The lanes chosen by the mask, rounded to `dtype`."""
    if dtype in HALF_TYPES:
        value = emit_convert.round_to_half(b, value, dtype, lanes)
    raw = emit_convert.to_memory(b, value, dtype, lanes)
    name = f"llvm.masked.store.{suffix(raw.type)}.p0"
    store = declared(b.module, name, ir.FunctionType(ir.VoidType(), [raw.type, POINTER, I32, mask.type]))
    b.call(store, [raw, address, I32(dtype.itemsize), mask])


def wide_vector(dtype: DType, lanes: int) -> ir.Type:
    """A register of the type that sums of `dtype` are in."""
    return register_type(accumulator_dtype(dtype), lanes)


def suffix(kind: ir.Type) -> str:
    """How LLVM's intrinsics name a vector type."""
    names = {"float": "f32", "double": "f64", "i16": "i16"}
    return f"v{kind.count}{names[str(kind.element)]}"


def shared_part(
    module: ir.Module, name: str, kind: ir.FunctionType, build: Callable[[ir.Function], ir.Function]
) -> ir.Function:
    """The function of that name that kernels of a module share, never inlined: built if it is not there yet."""
    found = module.globals.get(name)
    if found is not None:
        return found
    function = declared(module, name, kind)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return build(function)


def declared(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """The function of that name, declared if it is not yet."""
    return module.declared(name, kind)
