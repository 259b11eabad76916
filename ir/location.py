"""Source locations: a code object and an instruction offset, turned into file and line only when printed."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

# An installed package is one folder; in a checkout its three parts lie side by side, with tests and examples.
_PARENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_IS_INSTALLED = os.path.exists(os.path.join(_PARENT, "__init__.py"))
_PARTS = ("",) if _IS_INSTALLED else ("ir", "codegen", "jitgrad")
_ROOTS = tuple(os.path.join(_PARENT, part, "") if part else _PARENT + os.sep for part in _PARTS)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's program."""

    code: CodeType
    offset: int

    @property
    def line(self) -> int:
        """The line number."""
        for start, end, line in self.code.co_lines():
            if start <= self.offset < end and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return _text(self, os.getcwd())


@functools.lru_cache(4096)
def _text(location: Location, folder: str) -> str:
    """Remembered, since nodes share locations and graphs are printed after each pass."""
    code = location.code
    name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    where = f"{os.path.relpath(code.co_filename, folder)}:{location.line}"
    return where if name == "<module>" else f"{where} in {name}"


@dataclass(frozen=True, slots=True)
class TextLocation:
    """A location read back from printed IR, where only its text is known."""

    text: str

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(4096)
def is_library_file(path: str) -> bool:
    """Whether a source file is one of jitgrad's own."""
    return path.startswith(_ROOTS)


def user_location(depth: int = 1) -> Location | None:
    """The innermost frame outside jitgrad, or None if the call did not come from a user's file."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if not is_library_file(code.co_filename):
            generated = code.co_filename == "<string>" and code.co_name == "__init__"  # by `dataclass`
            if not generated:
                return Location(code, frame.f_lasti)
        frame = frame.f_back
    return None
