"""Algebraic simplification that keeps every bit: NaN, infinities, signed zeros, denormals, wrapping integers.

What floats don't allow is left out: `x * 0` and `x - x` stay (NaN, infinity), `x + 0.0` stays (it turns -0.0
into 0.0, where `x + -0.0` is `x`), sums over one element stay (they start from 0.0). The one thing not kept
is which NaN a NaN is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..graph import Graph
from ..rewrite import rewrite
from .arithmetic import ARITHMETIC
from .base import Pass
from .logic import LOGIC

ALGEBRA: Final = ARITHMETIC | LOGIC


@dataclass(frozen=True)
class SimplifyAlgebra(Pass):
    """Uses identities of arithmetic, comparison, selection and conversion that hold for each bit."""

    name = "algebra"

    def apply(self, graph: Graph) -> Graph:
        """A rewriting."""
        return rewrite(graph, ALGEBRA)
