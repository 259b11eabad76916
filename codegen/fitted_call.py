"""The shortest call of a compiled graph that checks what it is given: native code looks at the arrays, then runs.

    call = fitted_call(executable, words, [Array(0, (3,), float32, is_item=True)], (), 1)
    call.run([x, *(np.empty(*m) for m in call.made)])       # False, with nothing done, if something does not fit

Inputs are found among the items of a list, in objects that stay alive, and in slots of these; see `cpu.fitted`. What
does not fit is for the executable itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import InternalError

from .buffers import ALIGNMENT
from .cpu import driver
from .cpu.fitted import Array as Array
from .cpu.fitted import Word as Word
from .cpu.fitted import fitted
from .cpu.threads import pool
from .direct_entry import DirectEntry
from .encode import NativeSegment
from .executable import Executable

_NOTHING: Final = np.array([driver.END], np.int64)  # code that does nothing


@dataclass(frozen=True, eq=False, slots=True)
class FittedCall:
    """`run(items)`, behind the given ones an array for each of `made`: shape and dtype of the new outputs, in order."""

    run: Any
    places: tuple[int, ...]  # of each output: the input that it is written over, or -1
    made: tuple[tuple[tuple[int, ...], Any], ...]
    kept: Any  # what the machine code uses


def looks(words: Sequence[Word], arrays: Sequence[Array], items: int) -> FittedCall:
    """A call that only says whether the conditions hold."""
    run = fitted(_NOTHING.ctypes.data, 0, words, (), arrays, items, pool.team(False))
    return FittedCall(run, (), (), (words, arrays))


def fitted_call(
    executable: Any, words: Sequence[Word], inputs: Sequence[Array], others: Sequence[Array], items: int
) -> FittedCall | None:
    """A call of `executable` if the conditions hold; None for one that is too large.

    `inputs` are its inputs, `others` more arrays to look at. It holds the GIL, and is for what takes microseconds.
    """
    if not isinstance(executable, Executable) or not DirectEntry.suits(executable._segments, executable.frame.nbytes):
        return None
    if tuple([(x.held, x.dtype) for x in inputs]) != executable._inputs:
        raise InternalError(f"{executable.name} was compiled for other arrays")
    arrays = list(inputs)
    made: list[tuple[tuple[int, ...], Any]] = []
    for source, shape, dtype, _ in executable._outputs:
        if source < 0:
            arrays.append(Array(items + len(made), shape, dtype, is_item=True))
            made.append((shape, dtype))
        else:
            arrays.append(inputs[source])
    arrays += [Array(x, x.shape, x.dtype) for x in executable._constants]
    (segment,) = executable._segments
    assert isinstance(segment, NativeSegment)
    arena = np.empty(executable._arena_bytes + ALIGNMENT, np.uint8)
    start = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
    team = pool.team(segment.is_shared)
    run = fitted(segment.address, start, words, arrays, others, items + len(made), team)
    places, kept = tuple([x[0] for x in executable._outputs]), (executable, arena, words, arrays, others)
    return FittedCall(run, places, tuple(made), kept)
