"""The users' lines that nodes come from, with the text around them."""

from __future__ import annotations

import linecache
import os
import re
from typing import Any, Final

from jitgrad.ir.location import Location

_AROUND: Final = 6  # lines before and after
_TEXT: Final = re.compile(r"(.+):(\d+)(?: in (.+))?\Z")
_LONGEST: Final = 200
NOWHERE: Final = -1


class Places:
    """Numbers places in users' programs by order of appearance, and reads what stands there."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._places: dict[tuple[str, int, str], int] = {}
        self._files: dict[str, int] = {}
        self._lines: dict[str, dict[int, str]] = {}

    def number(self, location: Any) -> int:
        """The number of a node's location, `NOWHERE` without one."""
        if location is None:
            return NOWHERE
        known = self._numbers.get(location)
        if known is None:
            known = self._numbers[location] = self._number(location)
        return known

    def _number(self, location: Any) -> int:
        if isinstance(location, Location):
            text = str(location)
            file, line = location.code.co_filename, location.line
            shown, function = os.path.relpath(file) if os.path.exists(file) else file, text.partition(" in ")[2]
            self._read(shown, file, line)
        else:
            found = _TEXT.match(str(location))
            shown, line, function = (found[1], int(found[2]), found[3] or "") if found else (str(location), 0, "")
        self._files.setdefault(shown, len(self._files))
        return self._places.setdefault((shown, line, function), len(self._places))

    def _read(self, shown: str, file: str, line: int) -> None:
        texts = self._lines.setdefault(shown, {})
        all_lines = linecache.getlines(file)
        for n in range(max(1, line - _AROUND), min(len(all_lines), line + _AROUND) + 1):
            if n not in texts:
                texts[n] = all_lines[n - 1].rstrip()[:_LONGEST]

    def data(self) -> dict[str, Any]:
        """The tables `files` and `places`."""
        return {
            "files": [{"path": path, "lines": self._lines.get(path, {})} for path in self._files],
            "places": [[self._files[file], line, function] for file, line, function in self._places],
        }
