"""What a command found out: text for people, plain data for programs, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class UsageError(Exception):
    """The command line asks for something that can't be: the message says what."""


@dataclass(frozen=True)
class Report:
    """The answer of a command. `data` holds only what JSON can."""

    text: str
    data: Any
    exit_code: int = 0
    is_error: bool = False

    @classmethod
    def of_error(cls, message: str, exit_code: int) -> Report:
        """A fault, in one line."""
        line = " ".join(message.split("\n")[0].split())
        rest = [part.strip() for part in message.split("\n")[1:] if part.strip()]
        return cls(f"jitgrad: error: {'; '.join([line, *rest])}", {"error": message}, exit_code, True)

    def goes_out(self, as_json: bool) -> bool:
        """Whether this belongs on standard output, as all but the text of errors does."""
        return as_json or not self.is_error

    def to_json(self) -> str:
        """The data, indented, in the order it was put together."""
        return json.dumps(self.data, indent=2, ensure_ascii=False, allow_nan=False)


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Rows with their columns lined up; the last one may be of any length.

    >>> print(table([("a", "first"), ("long", "second")]))
      a     first
      long  second
    """
    if not rows:
        return ""
    widths = [max(len(row[k]) for row in rows if k < len(row) - 1) if len(rows[0]) > k + 1 else 0
              for k in range(len(rows[0]))]  # fmt: skip
    return "\n".join(
        (indent + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths))).rstrip() for row in rows
    )


def amount(count: float, unit: str = "B") -> str:
    """A number with a prefix.

    >>> amount(1234567), amount(12, "flop"), amount(0)
    ('1.23 MB', '12 flop', '0 B')
    """
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= size:
            return f"{count / size:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"
