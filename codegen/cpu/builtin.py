"""The driver as a builtin function of Python, one for each piece of its code: a call costs a tenth of one by ctypes.

    run = builtin(code address, arena, team)
    run(arrays)     # True; False, with nothing done, if an array is not C-contiguous and aligned

It holds the GIL, and its arena is its own, which is right for what takes microseconds.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import InternalError

from . import driver
from . import llvm_ir as ir
from .cells import I64, PTR, at, byte_cell, call, cell
from .kernels import compile_module
from .target import CompiledModule

_ONE_ARGUMENT, _SEVERAL = 8, 0x80  # METH_O, METH_FASTCALL
FUNCTION_TYPE: Final = ir.FunctionType(PTR, [PTR, PTR])
_COUNTS: Final = sys.version_info < (3, 12)  # whether references to True and False are counted


class _Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@functools.cache
def _module() -> CompiledModule:
    return compile_module("jitgrad_builtin", _build)


def _build(module: ir.Module) -> None:
    """`function(cells, arrays)`; the cells are those of `builtin`."""
    function = ir.Function(module, FUNCTION_TYPE, "jitgrad_call")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    array, arrays = function.args
    cells = b.inttoptr(byte_cell(b, array, driver.ARRAY_DATA), PTR)
    code, arena, enter, true, false, team = (cell(b, cells, k) for k in range(6))
    threads = (cell(b, b.inttoptr(team, PTR), k) for k in range(2))
    done = call(b, driver.ENTER_TYPE, enter, [arrays, code, arena, *threads])
    give(b, b.select(b.icmp_signed("!=", done, I64(0)), true, false))


def give(b: ir.IRBuilder, address: ir.Value) -> None:
    """Return True or False, whose address this is."""
    answer = b.inttoptr(address, PTR)
    if _COUNTS:
        b.store(b.add(cell(b, answer, 0), I64(1)), at(b, answer, 0))
    b.ret(answer)


@functools.cache
def _method(address: int, flags: int) -> _Method:
    """What Python needs to know of a function; it must outlive all that are made of it."""
    return _Method(b"run", address, flags, None)


def builtin_of(address: int, cells: np.ndarray[Any, Any], several: bool = False) -> Callable[..., Any]:
    """The machine code at an address, of `FUNCTION_TYPE`, as a function of Python; its first argument is `cells`.

    With `several`, it takes the address of its arguments, of which there may be more, and their number.
    """
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    method = _method(address, _SEVERAL if several else _ONE_ARGUMENT)
    made: Callable[..., Any] = make(ctypes.addressof(method), cells, None)
    if made.__self__ is not cells:  # type: ignore[attr-defined]
        raise InternalError("this Python makes builtin functions in a way that is not known")
    return made


def builtin(code: int, arena: int, team: int) -> Callable[[list[Any]], bool]:
    """The function that runs the driver's code at an address, with an arena at another, and threads as `Pool.team`."""
    driver.load_driver()
    cells = np.array([code, arena, driver.enter_address(), id(True), id(False), team], np.int64)
    return builtin_of(_module().address("jitgrad_call"), cells)
