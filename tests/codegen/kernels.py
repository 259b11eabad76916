"""Kernels that several tests build, and running one both natively and interpreted."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.codegen.cpu import abi, kernels, target
from jitgrad.codegen.cpu.emit import emit_kernel
from jitgrad.codegen.cpu.options import EmitOptions
from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.loops.ir import Buffer, Kernel, Loop, Store, load, loop_var, slot
from jitgrad.codegen.loops.verify import verify_kernel
from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Expr, const

I = loop_var("i")  # noqa: E741
ZERO = const(0)


def pointwise(inputs: Sequence[DType], fn: Callable[..., Expr], kind: str = "parallel_vector") -> Kernel:
    """`out[i] = fn(in0[i], ...)` over s0 elements."""
    value = fn(*(load(k, d, I) for k, d in enumerate(inputs)))
    buffers = (*(Buffer(d, "in") for d in inputs), Buffer(value.dtype, "out"))
    return Kernel(buffers, 1, (), (Loop(I, ZERO, slot(0), (Store(len(inputs), I, value),), kind),))


_COUNT = iter(range(10**9))


def compile_with(kernel: Kernel, options: EmitOptions) -> int:
    """The address of `kernel` compiled with exactly these options, cached nowhere."""
    name = f"test_{next(_COUNT)}"
    module = target.new_module(name)
    emit_kernel(module, name, kernel, options)
    return target.compile_module(module).address(name)


def all_options() -> list[EmitOptions]:
    """The ways this machine can emit a vector loop."""
    host = kernels.default_options()
    return [host, EmitOptions("default", 128, False), EmitOptions("strict", host.vector_bits, host.masked_tails)]


def run_both(
    kernel: Kernel,
    buffers: Sequence[Any],
    slots: Sequence[int] = (),
    params: Sequence[bool | int | float] = (),
    span: tuple[int, int] | None = None,
    options: EmitOptions | None = None,
) -> tuple[list[Any], list[Any]]:
    """All buffers after a native run, and after an interpreted one, both on copies."""
    verify_kernel(kernel)
    native, interpreted = [b.copy() for b in buffers], [b.copy() for b in buffers]
    if options is None:
        address = kernels.compile_kernels([kernel])[0].address
    else:
        address = compile_with(kernel, options)
    begin, end = span or (0, slots[0] if slots else 0)
    abi.call_kernel(address, native, slots, abi.pack_params(kernel.params, params), begin, end)
    interpret(kernel, interpreted, slots, params, span)
    return native, interpreted


def sample(dtype: DType, size: int, seed: int = 0) -> Any:
    """Values of every kind `dtype` has."""
    rng = np.random.default_rng(seed)
    if dtype is dtypes.bool_:
        return rng.random(size) < 0.5
    if dtype.kind == "int":
        info = np.iinfo(dtype.np)
        values = rng.integers(info.min, info.max, size, dtype.np, endpoint=True)
        values[: min(size, 6)] = np.array([0, 1, info.max, info.min, 2, 7], dtype.np)[:size]
        return values
    values = (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype(dtype.np)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], np.float64).astype(dtype.np)
    values[: min(size, 6)] = special[:size]
    return values


def equal(native: Any, expected: Any) -> bool:
    """Same values, NaN equal to NaN, zeros by sign."""
    if native.dtype.kind in "biu":
        return bool(np.array_equal(native, expected))
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        a, b = native.astype(np.float64), expected.astype(np.float64)
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0])))
