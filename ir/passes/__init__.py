"""Passes: valid graph in, valid graph out, same meaning. Each is a frozen dataclass with a `run` method."""

from __future__ import annotations

from .algebra import SimplifyAlgebra
from .base import Pass
from .canonicalize import Canonicalize
from .cse import EliminateCommonSubexpressions
from .dce import EliminateDeadCode
from .decompose import Decompose
from .fold import FoldConstants
from .loops import HoistInvariants, PruneLoops
from .pipeline import Pipeline, simplification
from .roll import RollLoops
from .simplify import Simplify

__all__ = [
    "Canonicalize",
    "Decompose",
    "EliminateCommonSubexpressions",
    "EliminateDeadCode",
    "FoldConstants",
    "HoistInvariants",
    "Pass",
    "Pipeline",
    "PruneLoops",
    "RollLoops",
    "Simplify",
    "SimplifyAlgebra",
    "simplification",
]
