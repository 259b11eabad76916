"""The shortest call of a compiled graph: on small arrays that are known to fit, by one thread.

    run = small_call(executable)
    outputs = run([x, y])        # None if an input is not C-contiguous or not aligned

Nothing is checked but that, so that the caller's word on shapes and dtypes is the machine code's only protection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .buffers import ALIGNMENT
from .cpu.builtin import builtin
from .cpu.threads import pool
from .encode import NativeSegment
from .executable import Executable

Array = np.ndarray[Any, Any]
_empty = np.empty


def small_call(executable: Executable) -> SmallCall | None:
    """A function of the inputs that gives the outputs; None for an executable with steps of the host, or that writes.

    Its argument is a list, which it appends to.
    """
    segments = executable._segments
    if executable.aliases or not all(isinstance(s, NativeSegment) for s in segments):
        return None
    arena = np.empty(executable._arena_bytes + ALIGNMENT, np.uint8)
    start = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
    runs = [builtin(s.address, start, pool.team(False)) for s in segments if isinstance(s, NativeSegment)]
    made = tuple([(shape, dtype) for _, shape, dtype, _ in executable._outputs])
    return SmallCall(tuple(runs), made, tuple(executable._constants), executable._first_output, (executable, arena))


@dataclass(frozen=True, eq=False, slots=True)
class SmallCall:
    """Such a function, and what it consists of: `enter(arrays)` for each of `enters`, on inputs, outputs, constants."""

    enters: tuple[Callable[[list[Array]], bool], ...]
    made: tuple[tuple[Any, Any], ...]  # shape and dtype of each output
    constants: tuple[Array, ...]
    first: int  # where the outputs are
    kept: Any  # the code and the memory that it uses

    def __call__(self, arrays: list[Array]) -> list[Array] | None:
        for shape, dtype in self.made:
            arrays.append(_empty(shape, dtype))
        if self.constants:
            arrays += self.constants
        for enter in self.enters:
            if not enter(arrays):
                return None
        return arrays[self.first : self.first + len(self.made)]
