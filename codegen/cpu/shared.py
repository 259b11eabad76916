"""Functions that kernels of several modules call, each compiled once, in a module of its own.

Which of them an object needs is told by its text, in whose table of symbols their names stand. So whoever loads an
object, made just now or by an earlier process, can have them loaded before.
"""

from __future__ import annotations

import re
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

from . import llvm_ir as ir
from .tile_square import build_square_copy, square_copy_type

_NAME: Final = re.compile(r"jitgrad_square_([a-z]+\d+)_([a-z]+\d+)_(\d+)")
_NAME_IN_OBJECTS: Final = re.compile(_NAME.pattern.encode())


def square_copy(module: ir.Module, source: DType, target: DType, lanes: int) -> ir.Function:
    """The function of `tile_square` from elements of `source` to elements of `target`, for a module to call."""
    return module.declared(f"jitgrad_square_{source.name}_{target.name}_{lanes}", square_copy_type(lanes))


def needed_by(code: bytes) -> list[str]:
    """The functions that an object's code calls."""
    return sorted({found.group().decode() for found in _NAME_IN_OBJECTS.finditer(code)})


def declared_in(module: ir.Module) -> list[str]:
    """The functions that a module in the making calls."""
    return [name for name in module.globals if _NAME.fullmatch(name)]


def build(module: ir.Module, name: str) -> None:
    """Add the function of that name to a module."""
    found = _NAME.fullmatch(name)
    assert found is not None
    source, target, lanes = found.groups()
    build_square_copy(module, name, dtypes.by_name(source), dtypes.by_name(target), int(lanes))
