"""The shortest call of a compiled graph: on small arrays that are known to fit, by one thread.

    run = small_call(executable)
    outputs = run([x, y])        # None if an input is not C-contiguous or not aligned

Nothing is checked but that, so that the caller's word on shapes and dtypes is the machine code's only protection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .buffers import ALIGNMENT
from .cpu.builtin import builtin
from .encode import NativeSegment
from .executable import Executable

Array = np.ndarray[Any, Any]


def small_call(executable: Executable) -> Callable[[list[Array]], list[Array] | None] | None:
    """A function of the inputs that gives the outputs; None for an executable with steps of the host, or that writes.

    Its argument is a list, which it appends to.
    """
    segments = executable._segments
    if executable.aliases or not all(isinstance(s, NativeSegment) for s in segments):
        return None
    arena = np.empty(executable._arena_bytes + ALIGNMENT, np.uint8)
    start = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
    runs = [builtin(s.address, start) for s in segments if isinstance(s, NativeSegment)]
    made = tuple([(shape, dtype) for _, shape, dtype, _ in executable._outputs])
    first, last = executable._first_output, executable._first_output + len(made)
    constants, empty = executable._constants, np.empty

    def run(arrays: list[Array]) -> list[Array] | None:
        for shape, dtype in made:
            arrays.append(empty(shape, dtype))
        if constants:
            arrays += constants
        for enter in runs:
            if not enter(arrays):
                return None
        return arrays[first:last]

    run.kept = executable, arena  # type: ignore[attr-defined]  # the code and the memory that it uses
    return run
