"""What tells attention kernels apart, and the names of their run-time numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitgrad.ir.dtypes import DType, int64

from .ir import Buffer
from .tile import TileKernel

ATTENTION, ATTENTION_GRAD, STRANDS_SUM = "attention", "attention gradient", "sum of strands"

_NUMBERS: Final = (
    "queries", "keys", "width", "value_width", "heads", "groups", "blocks", "query_block", "key_block", "strands",
    "q_outer", "q_head", "q_row", "k_outer", "k_head", "k_row", "v_outer", "v_head", "v_row", "y_outer", "y_head",
    "y_row", "mask_outer", "mask_head", "mask_row", "tasks", "first_query", "last_query", "part_rows", "goes_on",
)  # fmt: skip
ATTENTION_SLOTS: Final = {name: n for n, name in enumerate(_NUMBERS)}


@dataclass(frozen=True, slots=True)
class AttentionKernel(TileKernel):
    """An attention kernel's structure, of sums as wide as elements.

    `mask` is "" for none, "keys" for one that is the same for all queries, "full" for others. It is added, or if
    `is_chosen` put in the place of scores where it holds numbers. `gives_zeros`: to a query that sees no key.
    `is_whole`: widths are multiples of a tile's, so that no lane has to be masked. `drops`: weights are dropped at
    random.
    """

    mask: str = ""
    is_causal: bool = False
    is_chosen: bool = False
    gives_zeros: bool = True
    is_whole: bool = False
    drops: bool = False

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Queries, keys, values, what the gradient needs (g, logarithms, delta); mask, and seed and offset; results.

        The forward kernel's are the result and the logarithms, or unless `gives_zeros` the largest scores and shares.
        Strands and their sum are all that a sum has.
        """
        if self.form == STRANDS_SUM:
            return Buffer(self.dtype, "in"), Buffer(self.dtype, "out")
        inputs = (6 if self.form == ATTENTION_GRAD else 3) + bool(self.mask)
        outputs = 3 if self.form == ATTENTION_GRAD or not self.gives_zeros else 2
        random = [Buffer(int64, "in")] * (2 if self.drops else 0)
        return (*[Buffer(self.dtype, "in")] * inputs, *random, *[Buffer(self.dtype, "out")] * outputs)

    @property
    def params(self) -> tuple[DType, ...]:
        """What scores are scaled by; the smallest random word that keeps a weight, and what that is multiplied by."""
        if self.form == STRANDS_SUM:
            return ()
        return (self.dtype, int64, self.dtype) if self.drops else (self.dtype,)
