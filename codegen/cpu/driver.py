"""The native driver: runs a whole segment of a plan, encoded as an array of int64 cells, in one call.

It is compiled once, not once per graph, so that a plan for a new shape costs no compilation; decoding a step takes a
few nanoseconds. The code is position-independent but for the addresses of functions:

    KERNEL  function, buffers, slots, params, extent, grain, then (region, byte offset) per buffer
    COPY    bytes, then (region, byte offset) of target and source
    CALL    function of one C int, argument
    SCAN, WHILE, BRANCH   inner code with tables of regions of its own: see `driver_loops`
    TOGETHER  count, addresses: so many pieces of code for the same table, shared out among threads
    END

Matrix products are kernels too: `gemm_kernel` calls BLAS for a range of a batch. `slots`, `params` and
`addresses` are cell numbers.
Regions are numbers in the table of base addresses, which the entry point fills from a list of NumPy arrays.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import InternalError

from . import llvm_ir as ir
from .cells import I32, I64, PTR, RUN_TYPE, Counted, address, at, byte_cell, call, cell, opaque
from .driver_loops import BRANCH_CELLS, CARRIED_CELLS, SCAN_CELLS, TRACK_CELLS, WHILE_CELLS, Loops
from .kernels import begin_module, compile_module
from .target import CompiledModule
from .team import KERNEL_TYPE, MOST_PORTIONS, Team

END, KERNEL, COPY, CALL, SCAN, WHILE, BRANCH, TOGETHER = range(8)
KERNEL_CELLS: Final = 7
COPY_CELLS: Final = 6
CALL_CELLS: Final = 3
TOGETHER_CELLS: Final = 3
MAX_BUFFERS: Final = 128
_NAME: Final = "jitgrad_driver"

_GEMM_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR] * 13)
_CALL_TYPE: Final = ir.FunctionType(ir.VoidType(), [I32])
ENTER_TYPE: Final = ir.FunctionType(I64, [PTR, I64, I64, I64, I64])
START_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I64])

# CPython's and NumPy's own layouts, stable since long before Python 3.11; `load_driver` checks them.
_HEAD: Final = object.__basicsize__
_LIST_LENGTH, _LIST_ITEMS = _HEAD, _HEAD + 8
ARRAY_DATA, _ARRAY_FLAGS = _HEAD, _HEAD + 48
_PLAIN_FLAGS: Final = 0x0101  # C-contiguous and aligned

Enter = Callable[[list[Any], int, int, int, int], int]


@functools.cache
def _module() -> CompiledModule:
    return compile_module(_NAME, _build)


@functools.cache
def begin_driver() -> None:
    """Have the driver compiled by another thread, if it is not there, until somebody loads it."""
    begin_module(_NAME, _build)


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


def enter_address() -> int:
    """The address of the entry point."""
    return _module().address("jitgrad_enter")


def start_address() -> int:
    """The address of `start(code, table, threads, parallel_for)`, for what fills the table by itself."""
    return _module().address("jitgrad_start")


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
    driver = _Driver(module)
    driver.build()
    _build_enter(module, _build_start(module, driver))
    _build_gemm(module)


def _build_gemm(module: ir.Module) -> None:
    """A kernel over the tiles of a `blas.Product`.

    Buffers: lhs, rhs, result. Slots: the address of the BLAS function, then `Product.cells`. Params: `Product.block`.
    """
    function = ir.Function(module, KERNEL_TYPE, "jitgrad_gemm")
    buffers, slots, params, begin, end = function.args
    entry, loop, done = (function.append_basic_block(n) for n in ("entry", "loop", "done"))
    b = ir.IRBuilder(entry)
    bases = [cell(b, buffers, k) for k in range(3)]
    trans_a, trans_b, inner, lda, ldb, ldc, alpha, beta = (at(b, params, k) for k in range(8))
    address = cell(b, slots, 0)
    b.cbranch(b.icmp_signed("<", begin, end), loop, done)
    b.position_at_end(loop)
    k = b.phi(I64)
    k.add_incoming(begin, entry)
    tile = at(b, slots, b.add(b.mul(k, I64(5)), I64(1)))
    lhs, rhs, result = (b.inttoptr(b.add(base, cell(b, tile, j)), PTR) for j, base in enumerate(bases))
    m, n = at(b, tile, 3), at(b, tile, 4)
    call(b, _GEMM_TYPE, address, [trans_a, trans_b, m, n, inner, alpha, rhs, lda, lhs, ldb, beta, result, ldc])
    following = b.add(k, I64(1))
    k.add_incoming(following, loop)
    b.cbranch(b.icmp_signed("<", following, end), loop, done)
    b.position_at_end(done)
    b.ret_void()


def _build_start(module: ir.Module, driver: _Driver) -> ir.Function:
    """Runs code, with a team if there are threads."""
    function = ir.Function(module, START_TYPE, "jitgrad_start")
    code, table, threads, parallel_for = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    has_threads = b.and_(b.icmp_signed(">", threads, I64(1)), b.icmp_unsigned("!=", parallel_for, I64(0)))
    with b.if_else(has_threads) as (many, one):
        with many:
            b.call(driver.team.gather, [code, table, threads, parallel_for])
        with one:
            b.call(driver.function, [code, table, I64(0)])
    b.ret_void()
    return function


def _build_enter(module: ir.Module, run: ir.Function) -> None:
    """The entry point: a table of addresses on the stack, then the code."""
    enter = ir.Function(module, ENTER_TYPE, "jitgrad_enter")
    entry, loop, good, ready, bad = (enter.append_basic_block(n) for n in ("entry", "loop", "good", "ready", "bad"))
    arrays, code, arena, threads, parallel_for = enter.args
    b = ir.IRBuilder(entry)
    count, items = byte_cell(b, arrays, _LIST_LENGTH), b.inttoptr(byte_cell(b, arrays, _LIST_ITEMS), PTR)
    table = opaque(b, b.alloca(I64, b.add(count, I64(1))))
    b.store(arena, at(b, table, count))
    b.cbranch(b.icmp_signed(">", count, I64(0)), loop, ready)
    b.position_at_end(loop)
    k = b.phi(I64)
    k.add_incoming(I64(0), entry)
    array = b.inttoptr(cell(b, items, k), PTR)
    plain = b.and_(byte_cell(b, array, _ARRAY_FLAGS), I64(_PLAIN_FLAGS))
    b.cbranch(b.icmp_signed("==", plain, I64(_PLAIN_FLAGS)), good, bad)
    b.position_at_end(good)
    b.store(byte_cell(b, array, ARRAY_DATA), at(b, table, k))
    following = b.add(k, I64(1))
    k.add_incoming(following, good)
    b.cbranch(b.icmp_signed("<", following, count), loop, ready)
    b.position_at_end(ready)
    b.call(run, [b.inttoptr(code, PTR), table, threads, parallel_for])
    b.ret(I64(1))
    b.position_at_end(bad)
    b.ret(I64(0))


def _build_pieces(module: ir.Module, run: ir.Function) -> ir.Function:
    """A kernel that runs pieces of code, each on the calling thread. Buffers: the table. Slots: their addresses."""
    function = ir.Function(module, KERNEL_TYPE, "jitgrad_pieces")
    table, codes, _, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    with Counted(function, b, b.sub(end, begin), "piece") as k:
        code = b.inttoptr(cell(b, codes, b.add(begin, k)), PTR)
        b.call(run, [code, table, I64(0)])
    b.ret_void()
    return function


class _Driver:
    """Builds `jitgrad_run(code, table, team)`: a loop over steps with one block per kind."""

    def __init__(self, module: ir.Module) -> None:
        self.function = ir.Function(module, RUN_TYPE, "jitgrad_run")
        self.loops = Loops(module, self.function)
        self.team = Team(module, self.function)
        self.pieces = _build_pieces(module, self.function)
        self.code, self.table, self.member = self.function.args
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.pointers, self.data = (opaque(self.b, self.b.alloca(ir.ArrayType(I64, n))) for n in (MAX_BUFFERS, 6))
        self.next = self.function.append_basic_block("next")

    def build(self) -> None:
        """The whole function."""
        b = self.b
        entry = b.block
        b.branch(self.next)
        b.position_at_end(self.next)
        self.at = b.phi(I64)
        self.at.add_incoming(I64(0), entry)
        step = at(b, self.code, self.at)
        done = self.function.append_basic_block("done")
        switch = b.switch(cell(b, step, 0), done)
        kinds = (
            (KERNEL, self._kernel), (COPY, self._copy), (CALL, self._plain_call), (SCAN, self._scan),
            (WHILE, self._while), (BRANCH, self._branch), (TOGETHER, self._together),
        )  # fmt: skip
        for number, emit in kinds:
            block = self.function.append_basic_block(emit.__name__.strip("_"))
            switch.add_case(I64(number), block)
            b.position_at_end(block)
            emit(step)
        b.position_at_end(done)
        b.ret_void()

    def _inner(self, function: ir.Function, step: ir.Value, cells: ir.Value) -> None:
        """A step that runs inner code, and takes as many cells."""
        self.b.call(function, [step, self.table, self.member])
        self._advance(cells)

    def _tracks(self, count: ir.Value) -> ir.Value:
        return self.b.mul(count, I64(TRACK_CELLS))

    def _scan(self, step: ir.Value) -> None:
        b = self.b
        self._inner(self.loops.scan, step, b.add(I64(SCAN_CELLS), self._tracks(cell(b, step, 3))))

    def _while(self, step: ir.Value) -> None:
        b = self.b
        tracks = self._tracks(b.add(cell(b, step, 3), cell(b, step, 4)))
        carried = b.mul(cell(b, step, 6), I64(CARRIED_CELLS))
        self._inner(self.loops.while_loop, step, b.add(I64(WHILE_CELLS), b.add(tracks, carried)))

    def _branch(self, step: ir.Value) -> None:
        b = self.b
        tracks = self._tracks(b.add(cell(b, step, 5), cell(b, step, 6)))
        self._inner(self.loops.branch, step, b.add(I64(BRANCH_CELLS), tracks))

    def _advance(self, cells: int | ir.Value) -> None:
        """On to the next step."""
        cells = I64(cells) if isinstance(cells, int) else cells
        following = self.b.add(self.at, cells)
        self.at.add_incoming(following, self.b.block)
        self.b.branch(self.next)

    def _address(self, step: ir.Value, index: int) -> ir.Value:
        """The address given by a (region, byte offset) pair."""
        return address(self.b, self.table, step, index)

    def _addresses(self, step: ir.Value, first: int, count: ir.Value, target: ir.Value) -> None:
        """Resolve `count` pairs from cell `first` on into `target`."""
        b = self.b
        with Counted(self.function, b, count, "resolve") as k:
            pair = b.add(I64(first), b.shl(k, I64(1)))
            b.store(address(b, self.table, step, pair), at(b, target, k))

    def _kernel(self, step: ir.Value) -> None:
        b = self.b
        function, count, slots, params, extent, grain = (cell(b, step, k) for k in range(1, 7))
        self._addresses(step, KERNEL_CELLS, count, self.pointers)
        self._launch(function, self.pointers, at(b, self.code, slots), at(b, self.code, params), extent, grain)
        self._advance(b.add(I64(KERNEL_CELLS), b.shl(count, I64(1))))

    def _together(self, step: ir.Value) -> None:
        b = self.b
        codes = at(b, self.code, cell(b, step, 2))
        self._launch(b.ptrtoint(self.pieces, I64), self.table, codes, codes, cell(b, step, 1), I64(1))
        self._advance(TOGETHER_CELLS)

    def _launch(
        self, function: ir.Value, pointers: ir.Value, slots: ir.Value, params: ir.Value, extent: ir.Value,
        grain: ir.Value,
    ) -> None:  # fmt: skip
        """Run a kernel here, or share it out."""
        b = self.b
        serial, shared, after = (self.function.append_basic_block(n) for n in ("serial", "shared", "ran"))
        has_team = b.icmp_unsigned("!=", self.member, I64(0))
        is_worth_it = b.and_(b.icmp_signed(">", grain, I64(0)), has_team)
        few = b.icmp_signed("<=", extent, b.mul(grain, I64(MOST_PORTIONS)))
        b.cbranch(b.and_(is_worth_it, few), shared, serial)
        b.position_at_end(serial)
        call(b, KERNEL_TYPE, function, [pointers, slots, params, I64(0), extent])
        b.branch(after)
        b.position_at_end(shared)
        for k, value in enumerate([function, *(b.ptrtoint(p, I64) for p in (pointers, slots, params)), extent, grain]):
            b.store(value, at(b, self.data, k))
        b.call(self.team.share, [b.inttoptr(self.member, PTR), self.data])
        b.branch(after)
        b.position_at_end(after)

    def _copy(self, step: ir.Value) -> None:
        b = self.b
        nbytes = cell(b, step, 1)
        target, source = (b.inttoptr(self._address(step, k), PTR) for k in (2, 4))
        memmove = b.module.declared(
            "llvm.memmove.p0.p0.i64", ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, ir.IntType(1)])
        )
        b.call(memmove, [target, source, nbytes, ir.IntType(1)(0)])
        self._advance(COPY_CELLS)

    def _plain_call(self, step: ir.Value) -> None:
        b = self.b
        call(b, _CALL_TYPE, cell(b, step, 1), [b.trunc(cell(b, step, 2), I32)])
        self._advance(CALL_CELLS)
