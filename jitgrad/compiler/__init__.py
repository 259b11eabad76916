"""Capturing functions as graphs and replaying them as machine code."""

from jitgrad.ir.errors import CheckError

from ..counters import counters
from . import captured_call as captured_call
from .explain import Explanation, Step
from .function import CompiledFunction, compile, undo
from .misses import Miss
from .monitor import assert_no_compile

__all__ = [
    "CheckError",
    "CompiledFunction",
    "Explanation",
    "Miss",
    "Step",
    "assert_no_compile",
    "compile",
    "counters",
    "undo",
]
