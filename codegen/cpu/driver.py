"""The native driver: runs a whole segment of a plan, encoded as an array of int64 cells, in one call.

It is compiled once, not once per graph, so that a plan for a new shape costs no compilation; decoding a step takes a
few nanoseconds. The code is position-independent but for the addresses of functions:

    KERNEL  function, buffers, slots, params, extent, grain, then (region, byte offset) per buffer
    COPY    bytes, then (region, byte offset) of target and source
    CALL    function of one C int, argument
    END

Matrix products are kernels too: `gemm_kernel` calls BLAS for a range of a batch. `slots` and `params` are cell numbers.
Regions are numbers in the table of base addresses, which the entry point fills from a list of NumPy arrays.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir

from jitgrad.ir.errors import InternalError

from .kernels import compile_module
from .target import CompiledModule

END, KERNEL, COPY, CALL = range(4)
KERNEL_CELLS: Final = 7
COPY_CELLS: Final = 6
CALL_CELLS: Final = 3
MAX_BUFFERS: Final = 128

_I64, _I32, _I8, _PTR = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.PointerType()
_KERNEL_TYPE: Final = ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _PTR, _I64, _I64])
_TASK_TYPE: Final = ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _PTR, _PTR])
_PARALLEL_FOR_TYPE: Final = ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _PTR, _PTR, _PTR, _I64, _I64, _I32])
_GEMM_TYPE: Final = ir.FunctionType(ir.VoidType(), [_PTR] * 13)
_CALL_TYPE: Final = ir.FunctionType(ir.VoidType(), [_I32])
_RUN_TYPE: Final = ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _I64, _I64])
_ENTER_TYPE: Final = ir.FunctionType(_I64, [_PTR, _I64, _I64, _I64, _I64])

# CPython's and NumPy's own layouts, stable since long before Python 3.11; `load_driver` checks them.
_HEAD: Final = object.__basicsize__
_LIST_LENGTH, _LIST_ITEMS = _HEAD, _HEAD + 8
_ARRAY_DATA, _ARRAY_FLAGS = _HEAD, _HEAD + 48
_PLAIN_FLAGS: Final = 0x0101  # C-contiguous and aligned

Enter = Callable[[list[Any], int, int, int, int], int]


@functools.cache
def _module() -> CompiledModule:
    return compile_module("jitgrad_driver", _build)


@functools.cache
def load_driver() -> Enter:
    """`enter(arrays, code address, arena address, threads, address of parallel_for)`, without the GIL.

    Regions are the arrays in order, and the arena. Returns 0 and does nothing if some array is not C-contiguous and
    aligned.
    """
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.py_object, *[ctypes.c_int64] * 4)
    enter: Enter = prototype(_module().address("jitgrad_enter"))
    _check_layouts(enter)
    return enter


@functools.cache
def gemm_kernel() -> int:
    """The address of the kernel that calls BLAS."""
    return _module().address("jitgrad_gemm")


def _check_layouts(enter: Enter) -> None:
    """Copy one array to another, and refuse a strided one: wrong if this interpreter lays objects out differently."""
    source, target = np.arange(8.0), np.zeros(8)
    code = np.array([COPY, source.nbytes, 1, 0, 0, 0, END], np.int64)
    done = enter([source, target], code.ctypes.data, 0, 1, 0)
    refused = enter([source[::2], target], code.ctypes.data, 0, 1, 0)
    if not done or refused or not np.array_equal(source, target):
        raise InternalError("this Python lays out lists or NumPy arrays in a way the driver does not know")


def _build(module: ir.Module) -> None:
    driver = _Driver(module, _build_task(module))
    driver.build()
    _build_enter(module, driver.function)
    _build_gemm(module)


def _build_gemm(module: ir.Module) -> None:
    """A kernel over the tiles of a `blas.Product`.

    Buffers: lhs, rhs, result. Slots: the address of the BLAS function, then `Product.cells`. Params: `Product.block`.
    """
    function = ir.Function(module, _KERNEL_TYPE, "jitgrad_gemm")
    buffers, slots, params, begin, end = function.args
    entry, loop, done = (function.append_basic_block(n) for n in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    bases = [_cell(b, buffers, k) for k in range(3)]
    trans_a, trans_b, inner, lda, ldb, ldc, alpha, beta = (_at(b, params, k) for k in range(8))
    address = _cell(b, slots, 0)
    b.cbranch(b.icmp_signed("<", begin, end), loop, done)
    b.position_at_end(loop)
    k = b.phi(_I64)
    k.add_incoming(begin, entry)
    tile = _at(b, slots, b.add(b.mul(k, _I64(5)), _I64(1)))
    lhs, rhs, result = (b.inttoptr(b.add(base, _cell(b, tile, j)), _PTR) for j, base in enumerate(bases))
    m, n = _at(b, tile, 3), _at(b, tile, 4)
    _call(b, _GEMM_TYPE, address, [trans_a, trans_b, m, n, inner, alpha, rhs, lda, lhs, ldb, beta, result, ldc])
    following = b.add(k, _I64(1))
    k.add_incoming(following, loop)
    b.cbranch(b.icmp_signed("<", following, end), loop, done)
    b.position_at_end(done)
    b.ret_void()


def _build_enter(module: ir.Module, run: ir.Function) -> None:
    """The entry point: a table of addresses on the stack, then `run`."""
    enter = ir.Function(module, _ENTER_TYPE, "jitgrad_enter")
    entry, loop, good, ready, bad = (enter.append_basic_block(n) for n in ("entry", "loop", "good", "ready", "bad"))
    arrays, code, arena, threads, parallel_for = enter.args
    b = ir.IRBuilder(entry)
    count, items = _byte_cell(b, arrays, _LIST_LENGTH), b.inttoptr(_byte_cell(b, arrays, _LIST_ITEMS), _PTR)
    table = _opaque(b, b.alloca(_I64, b.add(count, _I64(1))))
    b.store(arena, _at(b, table, count))
    b.cbranch(b.icmp_signed(">", count, _I64(0)), loop, ready)
    b.position_at_end(loop)
    k = b.phi(_I64)
    k.add_incoming(_I64(0), entry)
    array = b.inttoptr(_cell(b, items, k), _PTR)
    plain = b.and_(_byte_cell(b, array, _ARRAY_FLAGS), _I64(_PLAIN_FLAGS))
    b.cbranch(b.icmp_signed("==", plain, _I64(_PLAIN_FLAGS)), good, bad)
    b.position_at_end(good)
    b.store(_byte_cell(b, array, _ARRAY_DATA), _at(b, table, k))
    following = b.add(k, _I64(1))
    k.add_incoming(following, good)
    b.cbranch(b.icmp_signed("<", following, count), loop, ready)
    b.position_at_end(ready)
    b.call(run, [b.inttoptr(code, _PTR), table, threads, parallel_for])
    b.ret(_I64(1))
    b.position_at_end(bad)
    b.ret(_I64(0))


def _byte_cell(b: ir.IRBuilder, base: ir.Value, offset: int) -> ir.Value:
    """The int64 `offset` bytes after `base`."""
    return b.load(b.gep(base, [_I64(offset)], source_etype=_I8), typ=_I64)


def _build_task(module: ir.Module) -> ir.Function:
    """What the pool calls: a kernel on a range of portions.

    `task(args, counts, steps, data)`: `args[0]` is the first portion (a null pointer moved by as many bytes),
    `counts[0]` how many there are; `data` is {function, buffers, slots, params, extent, grain}.
    """
    task = ir.Function(module, _TASK_TYPE, "jitgrad_task")
    b = ir.IRBuilder(task.append_basic_block("entry"))
    args, counts, _, data = task.args
    grain, extent = _cell(b, data, 5), _cell(b, data, 4)
    first, count = _cell(b, args, 0), _cell(b, counts, 0)
    begin, end = b.mul(first, grain), b.mul(b.add(first, count), grain)
    end = b.select(b.icmp_signed("<", end, extent), end, extent)
    pointers = [b.inttoptr(_cell(b, data, k), _PTR) for k in range(1, 4)]
    _call(b, _KERNEL_TYPE, _cell(b, data, 0), [*pointers, begin, end])
    b.ret_void()
    return task


def _cell(b: ir.IRBuilder, base: ir.Value, index: int | ir.Value) -> ir.Value:
    """The int64 number `index` after `base`."""
    return b.load(_at(b, base, index), typ=_I64)


def _at(b: ir.IRBuilder, base: ir.Value, index: int | ir.Value) -> ir.Value:
    number = _I64(index) if isinstance(index, int) else index
    return b.gep(base, [number], source_etype=_I64)


def _call(b: ir.IRBuilder, type: ir.FunctionType, address: ir.Value, args: list[ir.Value]) -> ir.Value:
    """Call the function at an integer address."""
    return b.call(b.inttoptr(address, type.as_pointer()), args)


def _opaque(b: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """A pointer without llvmlite's own idea of what it points to."""
    return b.inttoptr(b.ptrtoint(pointer, _I64), _PTR)


class _Driver:
    """Builds `jitgrad_run(code, table, threads, parallel_for)`: a loop over steps with one block per kind."""

    def __init__(self, module: ir.Module, task: ir.Function) -> None:
        self.task = task
        self.function = ir.Function(module, _RUN_TYPE, "jitgrad_run")
        self.code, self.table, self.threads, self.parallel_for = self.function.args
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.pointers, self.data, self.triple = (
            _opaque(self.b, self.b.alloca(ir.ArrayType(_I64, n))) for n in (MAX_BUFFERS, 6, 3)
        )
        self.next = self.function.append_basic_block("next")

    def build(self) -> None:
        """The whole function."""
        b = self.b
        entry = b.block
        b.branch(self.next)
        b.position_at_end(self.next)
        self.at = b.phi(_I64, "at")
        self.at.add_incoming(_I64(0), entry)
        step = _at(b, self.code, self.at)
        done = self.function.append_basic_block("done")
        switch = b.switch(_cell(b, step, 0), done)
        for number, emit in ((KERNEL, self._kernel), (COPY, self._copy), (CALL, self._plain_call)):
            block = self.function.append_basic_block(emit.__name__.strip("_"))
            switch.add_case(_I64(number), block)
            b.position_at_end(block)
            emit(step)
        b.position_at_end(done)
        b.ret_void()

    def _advance(self, cells: int | ir.Value) -> None:
        """On to the next step."""
        cells = _I64(cells) if isinstance(cells, int) else cells
        following = self.b.add(self.at, cells)
        self.at.add_incoming(following, self.b.block)
        self.b.branch(self.next)

    def _address(self, step: ir.Value, cell: int | ir.Value) -> ir.Value:
        """The address given by a (region, byte offset) pair."""
        b = self.b
        cell = _I64(cell) if isinstance(cell, int) else cell
        region, offset = _cell(b, step, cell), _cell(b, step, b.add(cell, _I64(1)))
        return b.add(_cell(b, self.table, region), offset)

    def _addresses(self, step: ir.Value, first: int, count: ir.Value, target: ir.Value) -> None:
        """Resolve `count` pairs from cell `first` on into `target`."""
        b = self.b
        before = b.block
        loop, done = (self.function.append_basic_block(n) for n in ("resolve", "resolved"))
        b.cbranch(b.icmp_signed(">", count, _I64(0)), loop, done)
        b.position_at_end(loop)
        k = b.phi(_I64)
        k.add_incoming(_I64(0), before)
        pair = b.add(_I64(first), b.shl(k, _I64(1)))
        b.store(self._address(step, pair), _at(b, target, k))
        following = b.add(k, _I64(1))
        k.add_incoming(following, loop)
        b.cbranch(b.icmp_signed("<", following, count), loop, done)
        b.position_at_end(done)

    def _kernel(self, step: ir.Value) -> None:
        b = self.b
        function, count, slots, params, extent, grain = (_cell(b, step, k) for k in range(1, 7))
        self._addresses(step, KERNEL_CELLS, count, self.pointers)
        slots, params = _at(b, self.code, slots), _at(b, self.code, params)
        serial, parallel, after = (self.function.append_basic_block(n) for n in ("serial", "parallel", "ran"))
        wanted = b.and_(b.icmp_signed(">", grain, _I64(0)), b.icmp_signed(">", self.threads, _I64(1)))
        has_pool = b.icmp_unsigned("!=", self.parallel_for, _I64(0))
        b.cbranch(b.and_(wanted, has_pool), parallel, serial)
        b.position_at_end(serial)
        _call(b, _KERNEL_TYPE, function, [self.pointers, slots, params, _I64(0), extent])
        b.branch(after)
        b.position_at_end(parallel)
        self._share([function, b.ptrtoint(self.pointers, _I64), b.ptrtoint(slots, _I64), b.ptrtoint(params, _I64),
                     extent, grain])  # fmt: skip
        b.branch(after)
        b.position_at_end(after)
        self._advance(b.add(_I64(KERNEL_CELLS), b.shl(count, _I64(1))))

    def _share(self, data: list[ir.Value]) -> None:
        """Hand a kernel's portions to the pool."""
        b = self.b
        for k, value in enumerate(data):
            b.store(value, _at(b, self.data, k))
        extent, grain = data[4], data[5]
        portions = b.sdiv(b.add(extent, b.sub(grain, _I64(1))), grain)
        first, counts, steps = (_at(b, self.triple, k) for k in range(3))
        for value, cell in zip((_I64(0), portions, _I64(1)), (first, counts, steps)):
            b.store(value, cell)
        threads = b.trunc(self.threads, _I32)
        args = [_opaque(b, self.task), first, counts, steps, self.data, _I64(0), _I64(1)]
        _call(b, _PARALLEL_FOR_TYPE, self.parallel_for, [*args, threads])

    def _copy(self, step: ir.Value) -> None:
        b = self.b
        nbytes = _cell(b, step, 1)
        target, source = (b.inttoptr(self._address(step, k), _PTR) for k in (2, 4))
        memmove = b.module.declare_intrinsic(
            "llvm.memmove", [_PTR, _PTR, _I64], ir.FunctionType(ir.VoidType(), [_PTR, _PTR, _I64, ir.IntType(1)])
        )
        b.call(memmove, [target, source, nbytes, ir.IntType(1)(0)])
        self._advance(COPY_CELLS)

    def _plain_call(self, step: ir.Value) -> None:
        b = self.b
        _call(b, _CALL_TYPE, _cell(b, step, 1), [b.trunc(_cell(b, step, 2), _I32)])
        self._advance(CALL_CELLS)
