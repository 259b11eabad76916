"""Files that are whole or not there, whenever a process or a machine stops."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..serialization import save


def save_durably(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save as `jitgrad.save` does, so that under `path` there is at any moment the old file or the new one, whole.

    The content goes to a file beside it, is forced to the disk, and takes the name in one step, which is forced to the
    disk too. What a kill leaves of the file beside it is overwritten by the next save. The folder is made if need be.

    >>> import jitgrad as jg
    >>> save_durably({"step": 3}, "run/last.safetensors")
    >>> jg.load("run/last.safetensors")
    {'step': 3}
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        save(obj, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _force_folder(path.parent)


def _force_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where a system can open folders."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
