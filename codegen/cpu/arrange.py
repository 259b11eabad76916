"""Native code that rearranges words in rows: the routines of `ir.unstable_order`, compiled from their Python."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, Final

from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.op import Array, Op
from jitgrad.ir.ops.arranging import Arranging
from jitgrad.ir.unstable_order import ROUTINES, Routine

from . import llvm_ir as ir
from .cells import I64, PTR, Counted, at
from .integer_code import IntegerCode
from .kernels import compile_module

_ROWS_TYPE: Final = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, I64])
_SIGNATURE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def _build(module: ir.Module) -> None:
    """For each routine a function of the first row, how many there are, their length, and the routine's own number."""
    code = IntegerCode(module)
    for routine in ROUTINES:
        inner = code.function(routine)
        function = ir.Function(module, _ROWS_TYPE, f"jitgrad_rows_{routine.__name__}")
        words, rows, length, number = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        with Counted(function, b, rows, "row") as k:
            b.call(inner, [at(b, words, b.mul(k, length)), length, number][: len(inner.args)])
        b.ret_void()


@functools.cache
def _native(routine: Routine) -> Any:
    module = compile_module("jitgrad_order", _build)
    return _SIGNATURE(module.address(f"jitgrad_rows_{routine.__name__}"))


def arrange(routine: Routine, words: Array, number: int = 0) -> None:
    """Apply a routine to each row (the last axis) of contiguous int64 words, in place.

    >>> import numpy as np
    >>> from jitgrad.codegen.cpu.arrange import arrange
    >>> from jitgrad.ir.unstable_order import sort
    >>> words = np.array([[3 << 32, 1 << 32], [5 << 32, 7 << 32]])
    >>> arrange(sort, words)
    >>> (words >> 32).tolist()
    [[1, 3], [5, 7]]
    """
    length = words.shape[-1]
    if words.size:
        _native(routine)(words.ctypes.data, words.size // length, length, number)


def apply_on_host(op: Op, operands: Sequence[Array]) -> Sequence[Array]:
    """One op through NumPy: its reference, but for words that native code rearranges."""
    return op.arranged(arrange, operands[0]) if isinstance(op, Arranging) else apply_reference(op, operands)
