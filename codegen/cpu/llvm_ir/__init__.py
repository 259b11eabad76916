"""LLVM's language, written as text: what emitters need of it, in the terms of `llvmlite.ir`.

A kernel is some thousand instructions. llvmlite makes an object of each, with a name of its own, and a text of these
in the end, which took as long as all of LLVM's work. Here an instruction is a line of text as soon as it is built.
LLVM checks what is written when it reads it.
"""

from __future__ import annotations

from .builder import IRBuilder
from .module import Block, Function, Module
from .types import (
    ArrayType,
    Constant,
    DoubleType,
    FloatType,
    FunctionType,
    HalfType,
    IntType,
    PointerType,
    StructType,
    Type,
    Undefined,
    Value,
    VectorType,
    VoidType,
)
from .values import Alloca, Phi

__all__ = [
    "Alloca",
    "ArrayType",
    "Block",
    "Constant",
    "DoubleType",
    "FloatType",
    "Function",
    "FunctionType",
    "HalfType",
    "IRBuilder",
    "IntType",
    "Module",
    "Phi",
    "PointerType",
    "StructType",
    "Type",
    "Undefined",
    "Value",
    "VectorType",
    "VoidType",
]
