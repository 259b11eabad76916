"""What Python asks of the values of a trace: a number, the truth of one, the places of some elements.

A question is a function of arrays. Its answer is either something that Python goes by, under which the rest of the
trace then stands, or further arrays, of which only the types are known to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.ir.errors import JitgradError
from jitgrad.ir.op import Op

from ..arrays import on_host

_LONG = 1024  # bytes; what Python may read of more than that is data

_MOST_TOLD = 60  # characters

MOST_NUMBERS = 4  # different answers after which they count as data, by what Python learns
MOST_TYPES = 32


@dataclass(frozen=True)
class Question:
    """`function(*arrays, *fixed)`; with `makes`, a list of arrays that the trace goes on with."""

    function: Callable[..., Any]
    fixed: tuple[Hashable, ...] = ()
    makes: bool = False

    def ask(self, arrays: Sequence[Any]) -> tuple[Hashable, Any]:
        """What tells this answer from others, and the answer."""
        answer = self.function(*map(on_host, arrays), *self.fixed)
        if self.makes:
            return tuple([(x.shape, x.dtype) for x in answer]), answer
        return _key(answer), answer

    def words(self, answer: Any) -> str:
        """An answer for people to read."""
        if self.makes:
            return ", ".join(f"{x.dtype}{list(x.shape)}" for x in answer)
        text = " ".join(str(answer).split())
        return text if len(text) < _MOST_TOLD else text[: _MOST_TOLD - 3] + "..."

    @property
    def most(self) -> int:
        """How many answers are worth a specialisation each."""
        return MOST_TYPES if self.makes else MOST_NUMBERS


def _key(answer: Any) -> Hashable:
    if isinstance(answer, float):
        return answer.hex()
    if isinstance(answer, complex):
        return answer.real.hex(), answer.imag.hex()
    if isinstance(answer, np.ndarray):
        return answer.tobytes()
    return answer  # type: ignore[no-any-return]


def content(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All elements."""
    return np.array(array)


def refusal(array: np.ndarray[Any, Any], check: Op) -> str | None:
    """The kind of error that `check` raises of these elements, if it does."""
    try:
        check.reference(array)
    except JitgradError as error:
        return type(error).__name__
    return None


def is_short(nbytes: int) -> bool:
    """Whether values of so many bytes may decide what a function does."""
    return nbytes <= _LONG
