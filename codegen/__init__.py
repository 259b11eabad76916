"""Code generation: from a graph to native code.

Importing this package loads neither Numba nor llvmlite; the first use of a name below does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .buffers import BufferPool
    from .compile import compile_graph
    from .cpu.threads import get_num_threads, set_num_threads
    from .executable import Executable
    from .options import CompileOptions
    from .stats import Stats

_HOMES: Final = {
    "BufferPool": "buffers",
    "CompileOptions": "options",
    "Executable": "executable",
    "Stats": "stats",
    "compile_graph": "compile",
    "get_num_threads": "cpu.threads",
    "set_num_threads": "cpu.threads",
}

__all__ = [
    "BufferPool", "CompileOptions", "Executable", "Stats", "compile_graph", "get_num_threads", "set_num_threads",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{home}", __name__), name)
