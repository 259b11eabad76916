"""Arguments that transforms share: sizes, ways of interpolation, ranges of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ...errors import located


class InterpolationMode(Enum):
    """How values between pixels are found."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


_PILLOWS = {InterpolationMode.NEAREST: 0, InterpolationMode.BILINEAR: 2, InterpolationMode.BICUBIC: 3}


def pillow_code(mode: InterpolationMode | str) -> int:
    """Pillow's number of a way of interpolation."""
    return _PILLOWS[InterpolationMode(mode)]


def pair(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width: two numbers, or one for both."""
    if isinstance(size, int):
        return size, size
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise located(ArgumentError(f"a size is one number, or height and width; got {len(size)} numbers"))
    return size[0], size[1]


def sides(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, top, right, bottom: from one number, from two for left and right, top and bottom, or from four."""
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) not in (1, 2, 4):
        raise located(ArgumentError(f"Padding must be an int or a 1, 2, or 4 element tuple, not {len(padding)}"))
    if len(padding) == 1:
        return (padding[0],) * 4
    return tuple(padding) * (4 // len(padding))  # type: ignore[return-value]


def interval(name: str, given: Any, center: float = 0.0, low: float = float("-inf")) -> tuple[float, float]:
    """From a number: that much around `center`, not below `low`; or the two given."""
    if isinstance(given, (int, float)):
        if given < 0:
            raise located(ArgumentError(f"If {name} is a single number, it must be positive, not {given}"))
        return max(center - given, low), center + given
    if len(given) != 2 or not low <= given[0] <= given[1]:
        raise located(ArgumentError(f"{name} should be two numbers in order, from {low} on, not {given}"))
    return float(given[0]), float(given[1])
