"""The table of expansions: one per function and float type, built on first use and kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Expr, Fn

from ..loops import walk
from . import error_function, exponential, gamma, hyperbolic, logarithm, power, remainder, trigonometric

EXPANSIONS: Final[dict[Fn, Callable[..., Expr]]] = {
    **exponential.EXPANSIONS,
    **logarithm.EXPANSIONS,
    **trigonometric.EXPANSIONS,
    **hyperbolic.EXPANSIONS,
    **error_function.EXPANSIONS,
    **power.EXPANSIONS,
    **gamma.EXPANSIONS,
    **remainder.EXPANSIONS,
}
BINARY: Final = frozenset({Fn.ATAN2, Fn.POW, Fn.REM})
BEYOND: Final[dict[Fn, Callable[..., Expr]]] = {
    **dict.fromkeys((Fn.SIN, Fn.COS, Fn.TAN), trigonometric.beyond),
    Fn.REM: remainder.beyond,
}
"""Where an expansion does not hold, and the C library's function is called."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """`value` in terms of `scalar.arg(0)` (and `arg(1)`), free of functions of `scalar.MATH` and of float REM.

    Where `beyond` holds, `value` is not good and the C library's function must be called. `nodes` lists all
    expressions under both, operands before users.
    """

    value: Expr
    beyond: Expr | None
    nodes: tuple[Expr, ...]


@functools.cache
def expand(fn: Fn, dtype: DType) -> Expansion:
    """`fn` of float32 or float64 arguments over the closed core. REM, which is in the core, is done without itself."""
    expansion = EXPANSIONS.get(fn)
    if expansion is None:
        raise InternalError(f"no expansion of {fn.value}")
    args = [scalar.arg(i, dtype) for i in range(2 if fn in BINARY else 1)]
    value = expansion(*args)
    beyond = BEYOND[fn](*args) if fn in BEYOND else None
    return Expansion(value, beyond, tuple(walk.postorder([value] if beyond is None else [value, beyond])))
