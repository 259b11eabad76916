"""Versions of the format, and how texts of old ones become texts of the present one.

A change of the format that old readers would misread, or that makes old files unreadable, is a new version: raise
`VERSION`, add to `UPGRADES` a function from a text of the version before to one of the new, and store a file of each
old version in `tests/export/stored`. Weights are safetensors in every version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from jitgrad.ir.errors import ParseError

VERSION: Final = 1
UPGRADES: Final[Mapping[int, Callable[[str], str]]] = {}  # by the version that is read
_FIRST_LINE: Final = re.compile(r"jitgrad program ([0-9]{1,9})\b")


def upgraded(text: str, upgrades: Mapping[int, Callable[[str], str]] = UPGRADES, version: int = VERSION) -> str:
    """`text` in the present version.

    >>> upgraded("jitgrad program 1", {1: lambda t: t.replace("1", "2")}, version=2)
    'jitgrad program 2'
    """
    found = _FIRST_LINE.match(text)
    number = int(found[1]) if found else version
    if number > version:
        raise ParseError(f"line 1, column 17: the format's version is {number}; this jitgrad reads up to {version}")
    while number < version:
        if number not in upgrades:
            raise ParseError(f"line 1, column 17: there is no version {number} of the format")
        text = upgrades[number](text)
        number += 1
    return text
