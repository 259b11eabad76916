"""Whether two graphs compute the same, tried on random numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgrad.ir.analysis import peak_bytes
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph
from jitgrad.ir.interpreter import run
from jitgrad.ir.types import TensorType

_MOST_BYTES: Final = 1 << 28
_TOLERANCE: Final = 1e-4  # of sums in another order, in float32
_TOLERANCE_OF_HALVES: Final = 3e-2  # four units in the last place of bfloat16


def agree_on_numbers(a: Graph, b: Graph) -> bool:
    """Whether graphs of the same inputs give the same outputs; False if that would take too much memory."""
    if [v.type for v in a.inputs] != [v.type for v in b.inputs] or peak_bytes(a) > _MOST_BYTES:
        return False
    random = np.random.default_rng(0)
    inputs = [random_array(v.type, random) for v in a.inputs]
    try:
        with np.errstate(all="ignore"):
            xs, ys = (run(g, [np.array(x) for x in inputs]) for g in (a, b))
    except JitgradError:
        return False
    return len(xs) == len(ys) and all(map(close, xs, ys))


def random_array(type: TensorType, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Numbers that most functions are defined for: small, positive and negative, valid as indices."""
    if type.dtype.kind == "bool":
        return random.integers(0, 2, type.shape).astype(np.bool_)
    if type.dtype.kind == "int":
        return np.zeros(type.shape, type.dtype.np)
    found = random.standard_normal(type.shape)
    if type.dtype.is_complex:
        found = found + 1j * random.standard_normal(type.shape)
    return np.asarray(found).astype(type.dtype.np)


def close(x: Any, y: Any) -> bool:
    """Equal but for rounding."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind in "biu":
        return bool(np.array_equal(x, y))
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    tolerance = _TOLERANCE_OF_HALVES if x.dtype.itemsize == 2 else _TOLERANCE
    return bool(np.allclose(x.astype(kind), y.astype(kind), tolerance, tolerance, equal_nan=True))
