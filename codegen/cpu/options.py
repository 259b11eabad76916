"""What a caller may choose about emitted code; part of every cache key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """`numerics`: "default" lets a multiply and an add contract to an fma, and folds vector reductions in lanes;
    "strict" does neither. `vector_bits` is the register width to fill, `masked_tails` whether the last part of a
    vector loop is done under a mask (else one element at a time), `scales` whether `x * 2**n` is an instruction.
    """

    numerics: str = "default"
    vector_bits: int = 256
    masked_tails: bool = False
    scales: bool = False

    @property
    def strict(self) -> bool:
        """True where each operation rounds on its own and sums go in order."""
        return self.numerics == "strict"
