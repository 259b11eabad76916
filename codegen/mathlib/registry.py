"""The table of expansions: one per function and float type, built on first use and kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from jitgrad.ir import scalar
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Expr, Fn

from ..loops import walk
from . import exponential, hyperbolic

Expansion = Callable[..., Expr]

EXPANSIONS: Final[dict[Fn, Expansion]] = {**exponential.EXPANSIONS, **hyperbolic.EXPANSIONS}
_BINARY: Final = frozenset({Fn.ATAN2, Fn.POW})


@functools.cache
def expand(fn: Fn, dtype: DType) -> Expr:
    """`fn` of `scalar.arg(0, dtype)` (and `arg(1, dtype)`) without any function of `scalar.MATH`."""
    expansion = EXPANSIONS.get(fn)
    if expansion is None:
        raise InternalError(f"no expansion of {fn.value}")
    args = [scalar.arg(i, dtype) for i in range(2 if fn in _BINARY else 1)]
    return expansion(*args)


@functools.cache
def order(template: Expr) -> list[Expr]:
    """The nodes of an expansion, operands before users."""
    return walk.postorder([template])
