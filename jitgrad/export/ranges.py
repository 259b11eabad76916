"""Between which bounds an expression lies, given those of the dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from jitgrad.ir.symbols import Expression

from .dims import Constraint, Dim

Range: TypeAlias = "tuple[float, float]"
_ANY: Range = (-math.inf, math.inf)


def always_holds(c: Constraint, dims: Mapping[str, Dim]) -> bool:
    """Whether the bounds of the dimensions imply a constraint.

    >>> from jitgrad.ir.symbols import number, symbol
    >>> always_holds(Constraint(symbol("n"), "!=", number(0)), {"n": Dim("n", min=1)})
    True
    """
    (a, b), (c_, d) = range_of(c.left, dims), range_of(c.right, dims)
    return {
        "<": b < c_,
        "<=": b <= c_,
        ">": a > d,
        ">=": a >= d,
        "!=": b < c_ or a > d,
        "==": a == b == c_ == d,
    }[c.relation]


def range_of(e: Expression, dims: Mapping[str, Dim]) -> Range:
    """The least and the greatest value that an expression may have; perhaps wider than it is."""
    if e.fn == "number":
        return (e.args[0], e.args[0])
    if e.fn == "name":
        dim = dims[e.args[0]]
        return (dim.min, math.inf if dim.max is None else dim.max)
    parts = [range_of(a, dims) for a in e.args]
    if e.fn in ("+", "-"):
        (a, b), (c, d) = parts
        return (a + c, b + d) if e.fn == "+" else (a - d, b - c)
    if e.fn in ("min", "max"):
        pick = min if e.fn == "min" else max
        return (pick(parts[0][0], parts[1][0]), pick(parts[0][1], parts[1][1]))
    if e.fn == "*" and all(p[0] >= 0 for p in parts):
        return (parts[0][0] * parts[1][0], _times(parts[0][1], parts[1][1]))
    if e.fn in ("//", "/") and parts[0][0] >= 0 and parts[1][0] > 0:
        low, high = parts[0][0] / parts[1][1], parts[0][1] / parts[1][0]
        return (math.floor(low), math.floor(high) if math.isfinite(high) else high) if e.fn == "//" else (low, high)
    if e.fn == "mod" and parts[1][0] > 0:
        return (0, parts[1][1] - 1)
    return _ANY


def _times(a: float, b: float) -> float:
    return 0 if 0 in (a, b) else a * b
