"""Errors that show the user's line."""

from __future__ import annotations

from typing import TypeVar

from jitgrad.ir.errors import CompileError as CompileError
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.location import user_location

E = TypeVar("E", bound=JitgradError)


def located(error: E) -> E:
    """`error` with the user's line attached: `raise located(ShapeError(...))`."""
    location = user_location()
    error.attach_location(str(location) if location else None)
    return error
