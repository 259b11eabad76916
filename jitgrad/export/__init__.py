"""Exported programs: files that run with none of the code they were made from."""

from __future__ import annotations

from .dims import Constraint, Dim
from .exporting import export
from .program import Program, Stats, load_program
from .spec import Signature
from .state import State

export.Dim = Dim  # type: ignore[attr-defined]  # `jitgrad.export` is the function; its package shares the name
export.Program = Program  # type: ignore[attr-defined]

__all__ = ["Constraint", "Dim", "Program", "Signature", "State", "Stats", "export", "load_program"]
