"""Copies of device arrays: to the host, to other devices, and between different strides by a kernel of our own.

The kernel moves bits, whatever they mean: one per element size and number of axes left after merging.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Final

import numpy as np

from jitgrad.ir import dtypes, scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import DTypeError, ShapeError
from jitgrad.ir.scalar import Expr, Fn

from ...loops.ir import Buffer, Kernel, Loop, Store, load, loop_var, slot
from .array import DeviceArray, contiguous_strides
from .gpu import Gpu, gpu
from .pinned import pinned_block, pinned_empty
from .protocol import Array, CompiledKernel

_BITS: Final = {1: dtypes.uint8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}
Axis = tuple[int, int, int]  # length, stride in the target, stride in the source


def home(array: DeviceArray) -> Gpu:
    """The device an array is on."""
    return gpu(array.device.index)


def download(array: DeviceArray, non_blocking: bool = False) -> Array:
    """The numbers as a host array of their own; with `non_blocking` in page-locked memory that fills later."""
    g, plain = home(array), contiguous(array)
    dtype = dtypes.FROM_NUMPY[array.dtype].np
    if non_blocking and plain.nbytes:
        target = pinned_empty(g.runtime, array.shape, dtype)
    else:
        target = np.empty(array.shape, dtype)
    if plain.nbytes:
        block = pinned_block(target)
        g.runtime.to_host(target, plain.pointer, g.stream, block is None)
        if block is not None:
            block.used(g.index, g.stream)
    return target


def pinned(g: Gpu, array: Array) -> Array:
    """A copy in page-locked memory."""
    made = pinned_empty(g.runtime, array.shape, array.dtype)
    np.copyto(made, array)
    return made


def contiguous(array: DeviceArray) -> DeviceArray:
    """The array itself if it is contiguous, else a contiguous copy."""
    return array if array.is_contiguous else copied(array)


def copied(array: DeviceArray, keep_strides: bool = False) -> DeviceArray:
    """A copy in memory of its own: contiguous, or with the axes in memory in the order they have."""
    g = home(array)
    if keep_strides and 0 not in array.shape:
        order = sorted(range(array.ndim), key=lambda a: (-abs(array.strides[a]), a))
        dense = contiguous_strides(tuple(array.shape[a] for a in order), array.itemsize)
        strides = tuple(s for _, s in sorted(zip(order, dense)))
        made = DeviceArray(g.memory(array.nbytes), array.shape, array.dtype, strides)
    else:
        made = g.empty(array.shape, array.dtype)
    assign(made, array)
    return made


def moved(array: DeviceArray, target: Gpu) -> DeviceArray:
    """The array on another device."""
    plain = contiguous(array)
    source = home(plain)
    event = source.runtime.new_event(source.index, timing=False, blocking=False)
    source.runtime.record_event(event, source.stream)
    made = target.empty(plain.shape, plain.dtype)
    target.runtime.wait_event(target.stream, event)
    target.runtime.on_device(made.pointer, plain.pointer, plain.nbytes, target.stream)
    target.runtime.synchronize_stream(target.stream)  # `plain` may die, and its block be used on its own device
    target.runtime.release_event(event)
    return made


def assign(target: DeviceArray, source: DeviceArray | Array) -> None:
    """Write the elements of `source`, broadcast, into `target`; they may overlap."""
    g = home(target)
    if not isinstance(source, DeviceArray):
        source = _uploaded(g, source)
    elif source.device != target.device:
        source = moved(source, g)
    if source.dtype != target.dtype:
        raise DTypeError(f"copy: {source.dtype} to {target.dtype} is a conversion")
    source = _broadcast(source, target.shape)
    if target.size == 0:
        return
    if source.shares_memory(target):
        if source.pointer == target.pointer and source.strides == target.strides:
            return
        if not (source.is_contiguous and target.is_contiguous and source.pointer == target.pointer):
            source = copied(source)
    if source.is_contiguous and target.is_contiguous:
        g.runtime.on_device(target.pointer, source.pointer, target.nbytes, g.stream)
    else:
        _run(g, target, source)


def _uploaded(g: Gpu, source: Array) -> DeviceArray:
    """A host array on the device; of one that repeats an element, that element alone."""
    if source.size and not any(source.strides):
        one = g.upload(source[(slice(0, 1),) * source.ndim].reshape(()))
        return one.seen(source.shape, (0,) * source.ndim, 0, one.dtype)
    return g.upload(source)


def _broadcast(source: DeviceArray, shape: tuple[int, ...]) -> DeviceArray:
    if source.shape == shape:
        return source
    extra = len(shape) - source.ndim
    if extra < 0 or any(n not in (1, m) for n, m in zip(source.shape, shape[extra:])):
        raise ShapeError(f"copy: shape {source.shape} does not broadcast to {shape}")
    kept = [0 if n != m else s for n, m, s in zip(source.shape, shape[extra:], source.strides)]
    return source.seen(shape, (0,) * extra + tuple(kept), 0, source.dtype)


def _run(g: Gpu, target: DeviceArray, source: DeviceArray) -> None:
    """The kernel."""
    unit, axes = _axes(target, source)
    kernel = _compiled(g, _BITS[unit], len(axes))
    low_target, high_target = target.extent()
    low_source, high_source = source.extent()
    slots = [
        math.prod(n for n, _, _ in axes), (target.pointer - low_target) // unit, (source.pointer - low_source) // unit,
        *(x for axis in axes for x in axis),
    ]  # fmt: skip
    lengths = [(high_source - low_source) // unit, (high_target - low_target) // unit]
    prepared = g.runtime.prepare(kernel, lengths, slots, (), g.index)
    g.runtime.launch(prepared, [low_source, low_target], g.stream)


def _axes(target: DeviceArray, source: DeviceArray) -> tuple[int, list[Axis]]:
    """The unit moved at a time, and the axes in units: those of length 1 dropped, neighbours merged."""
    size = target.itemsize
    unit = min(size, 8)
    axes: list[Axis] = []
    parts = [(size // unit, unit, unit)] if size > unit else []
    for n, a, b in [*zip(target.shape, target.strides, source.strides), *parts]:
        if n == 1:
            continue
        if axes and axes[-1][1] == n * a and axes[-1][2] == n * b:
            axes[-1] = (axes[-1][0] * n, a, b)
        else:
            axes.append((n, a, b))
    return unit, [(n, a // unit, b // unit) for n, a, b in axes or [(1, unit, unit)]]


@functools.cache
def _compiled(g: Gpu, dtype: DType, rank: int) -> CompiledKernel:
    return g.runtime.compile([copy_kernel(dtype, rank)], "default", g.index)[0]


def _total(terms: Sequence[Expr]) -> Expr:
    """The sum, from the left."""
    return functools.reduce(operator.add, terms)


@functools.cache
def copy_kernel(dtype: DType, rank: int) -> Kernel:
    """Copies `rank` axes between two strides.

    Slots: the number of elements, where they start in target and source, and for each axis, outermost first, length
    and strides in target and source.
    """
    flat = loop_var("i")
    rest: Expr = flat
    places: list[tuple[Expr, Expr]] = []
    for axis in reversed(range(rank)):
        length, a, b = (slot(3 + 3 * axis + k) for k in range(3))
        index = scalar.apply(Fn.REM, rest, length) if axis else rest
        rest = rest / length if axis else rest
        places.append((index * a, index * b))
    to = _total([slot(1), *[a for a, _ in places]])
    from_ = _total([slot(2), *[b for _, b in places]])
    store = Store(1, to, load(0, dtype, from_))
    buffers = (Buffer(dtype, "in"), Buffer(dtype, "out"))
    loop = Loop(flat, scalar.const(0), slot(0), (store,), "parallel_vector")
    return Kernel(buffers, 3 + 3 * rank, (), (loop,))


__all__ = ["assign", "contiguous", "copied", "copy_kernel", "download", "home", "moved", "pinned", "pinned_block"]
