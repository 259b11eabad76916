"""Dumps: the text of every stage from a traced graph to machine code, in a folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir.config import config

Observer = Callable[[str, Any], None]


def observer_for(folder: str | None, name: str) -> Observer | None:
    """A writer into a new sub-folder of `folder` or of `config.dump`; None if neither is set."""
    chosen = folder or config.dump
    if not chosen:
        return None
    from .writer import DumpWriter

    return DumpWriter.for_compilation(chosen, name)
