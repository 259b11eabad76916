"""Errors while tracing: whether the traced function may handle one raised now, and what they say."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.ir.errors import CompileError, JitgradError
from jitgrad.ir.graph import Value

from .code import is_library


def in_handler() -> bool:
    """Whether the user's code, down to the call of the compiled function, is inside a `try` or a `with` block."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_library(frame.f_globals.get("__name__")):
            if code.co_exceptiontable and _is_covered(code, frame.f_lasti):
                return True
        elif is_call_of_compiled(frame):
            return False
        frame = frame.f_back
    return False


def is_call_of_compiled(frame: types.FrameType) -> bool:
    """Whether this is the frame in which a compiled function has its function traced."""
    return frame.f_code.co_name == "_trace" and is_library(frame.f_globals.get("__name__"))


def _is_covered(code: types.CodeType, offset: int) -> bool:
    return any(start <= offset < end for start, end, _ in covered(code))


@functools.lru_cache(4096)
def covered(code: types.CodeType) -> tuple[tuple[int, int, int], ...]:
    """The ranges of a code object whose errors it handles, and where: CPython's `exception_handling_notes.txt`."""
    numbers = _varints(code.co_exceptiontable)
    found = []
    for start, length, target, _ in zip(numbers, numbers, numbers, numbers, strict=False):
        found.append((2 * start, 2 * (start + length), 2 * target))
    return tuple(found)


def _varints(table: bytes) -> Iterator[int]:
    value = 0
    for byte in table:
        value = (value << 6) | (byte & 0x3F)
        if not byte & 0x40:
            yield value
            value = 0


def not_one_graph(reason: str, values: Sequence[Value], location: Any) -> CompileError:
    """The error of a function that was to be one graph and can't be."""
    made = [v.node for v in values if v.node is not None]
    lines = [f"compile(fullgraph=True): {reason}, so Python would have to wait for the graph."]
    lines += [f"  the value comes from {n.op.name} at {n.location}" for n in made if n.location is not None]
    lines.append(
        "  jg.where chooses between values, jg.cond between computations; jg.while_loop and jg.scan repeat one. "
        "Without fullgraph=True, the function is compiled in parts."
    )
    return CompileError("\n".join(lines) + (f"\n  at {location}" if location else ""))


@contextmanager
def located_at(location: Any) -> Iterator[None]:
    """Errors raised inside carry this location."""
    try:
        yield
    except JitgradError as error:
        error.attach_location(str(location))
        raise
