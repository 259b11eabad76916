"""Capturing functions as graphs and replaying them as machine code."""

from .function import CompiledFunction, compile

__all__ = ["CompiledFunction", "compile"]
