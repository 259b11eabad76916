"""Source lines as they stand in programs: the same text wherever the source lies and whoever exports it."""

from __future__ import annotations

import functools
import os
from typing import Any

from jitgrad.ir.location import Location, TextLocation


def portable(location: Any) -> TextLocation | None:
    """`package/module.py:41 in MLP.forward`, with the path from the outermost package on."""
    if location is None:
        return None
    if not isinstance(location, Location):
        return TextLocation(str(location))
    code = location.code
    name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    where = f"{_path(code.co_filename)}:{location.line}"
    return TextLocation(where if name == "<module>" else f"{where} in {name}")


@functools.lru_cache(1024)
def _path(path: str) -> str:
    folder, name = os.path.split(path)
    parts = [name]
    while folder and os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.append(name)
    return "/".join(reversed(parts))
