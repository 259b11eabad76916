"""What `Program.check` looks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitgrad.ir.errors import JitgradError


def problems(program: Any, sizes: Mapping[str, int] | None) -> list[str]:
    """What is wrong with `program`."""
    found = []
    try:
        program.graph(sizes)
    except JitgradError as error:
        found.append(str(error))
    opened = program._opened
    if opened is not None and not opened.weights_are_intact():
        found.append("weights: they are not those that were written: the SHA-256 differs")
    return found
