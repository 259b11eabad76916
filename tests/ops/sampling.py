"""What a sample is, and how the numbers in it are drawn: always the same ones."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.op import Op
from jitgrad.ir.types import TensorType

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTEGERS = (dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.int64)
UNSIGNED = dtypes.UNSIGNED  # for which PyTorch has few operators
COMPLEX = (dtypes.complex64, dtypes.complex128)
BY_KIND = {"bool": (dtypes.bool_,), "int": (*UNSIGNED, *INTEGERS), "float": FLOATS, "complex": COMPLEX}

SPECIAL_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 7.0, 1e-3, 20.0, -20.0,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One application of an op.

    `torch` computes the same from PyTorch tensors (None: nothing to compare with). `smooth` operands may be
    differentiated numerically: no kinks or jumps nearby. `ulps` is how far results may be from the oracle's,
    in units of the result dtype's last place at the largest magnitude in play. `differentiated` builds what is to be
    differentiated in place of the op alone: for ops that read a triangle, or whose results are unique up to a phase.
    `order` is how often it may be differentiated.
    """

    op: Op
    arrays: tuple[Any, ...]
    torch: Callable[..., Any] | None = None
    smooth: bool = False
    ulps: float = 4.0
    label: str = field(default="")
    differentiated: Callable[..., Any] | None = None
    order: int = 2

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The operands' types."""
        return tuple(TensorType(a.shape, dtypes.FROM_NUMPY[a.dtype]) for a in self.arrays)

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.types))}){self.label}"


def rng(seed: int = 0) -> np.random.Generator:
    """A generator that starts at the same place every time."""
    return np.random.default_rng(1234 + seed)


def uniform(shape: tuple[int, ...], dtype: DType, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    """Random numbers of a float or complex dtype, both parts from `low` to `high`."""
    random = rng(seed)
    x = random.uniform(low, high, shape)
    if dtype.is_complex:
        x = x + 1j * random.uniform(low, high, shape)
    return np.asarray(x).astype(dtype.np)


def integers(shape: tuple[int, ...], dtype: DType, low: int = -9, high: int = 10, seed: int = 0) -> Any:
    """Random integers of `dtype` (or bools)."""
    if dtype.kind == "bool":
        return np.asarray(rng(seed).integers(0, 2, shape)).astype(bool)
    return np.asarray(rng(seed).integers(low if dtype.is_signed else 0, high, shape)).astype(dtype.np)


def numbers(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Any:
    """Random numbers of any dtype."""
    return (uniform if dtype.is_differentiable else integers)(shape, dtype, seed=seed)


def special_values(dtype: DType, arity: int) -> tuple[Any, ...]:
    """Zeros, infinities, NaN, extremes: for several operands, every combination of them."""
    if dtype.kind == "bool":
        values = np.array([False, True])
    elif dtype.kind == "int":
        limits = np.iinfo(dtype.np)
        values = np.array([limits.min, limits.max, 0, 1, 2, 3, 7] + [-1, -2, -7] * dtype.is_signed, dtype.np)
    else:
        values = np.array(SPECIAL_FLOATS)
    combined = list(itertools.product(values, repeat=arity))
    return tuple(np.array(column).astype(dtype.np) for column in zip(*combined, strict=True))
