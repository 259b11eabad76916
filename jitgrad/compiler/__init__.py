"""Capturing functions as graphs and replaying them as machine code."""

from .function import CompiledFunction, compile
from .monitor import assert_no_compile

__all__ = ["CompiledFunction", "assert_no_compile", "compile"]
