"""What tile sizes depend on: the machine's vector registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitgrad.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class TileTarget:
    """Registers of `bits` each, of which there are `registers`.

    >>> from jitgrad.ir import dtypes
    >>> TileTarget(256, 16).lanes(dtypes.float32), TileTarget(512, 32).lanes(dtypes.float64)
    (8, 8)
    """

    bits: int
    registers: int

    def lanes(self, wide: DType) -> int:
        """Elements in a register."""
        return int(self.bits // (8 * wide.itemsize))


DEFAULT_TARGET: Final = TileTarget(256, 16)
"""What most machines have."""
