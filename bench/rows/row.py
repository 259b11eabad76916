"""What a row of the table is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Params = Mapping[str, Any]
Program = Callable[[], Any]
"""One call of the work; its result is a tensor, or a tuple of them, or nothing."""


@dataclass(frozen=True)
class Tools:
    """What a program in PyTorch's API is written with.

    `m` is `torch` or `jitgrad`. `forward` compiles a function without `backward()` inside, and `step` one with it:
    torch.compile takes the first, jitgrad the second, eager contestants neither.
    """

    m: Any
    forward: Callable[[Any], Any]
    step: Callable[[Any], Any]


@dataclass(frozen=True)
class Row:
    """A piece of work, written once for PyTorch's API and once for JAX.

    `sizes` names its sizes; the first is the table's. `flops` and `traffic` give floating-point operations and the
    bytes that must move between memory and the cores, for one call. `goal` is the wanted ratio to the best peer.
    """

    name: str
    title: str
    goal: float
    sizes: Mapping[str, Params]
    torch_like: Callable[[Tools, Params], Program]
    jax: Callable[[Params], Program] | None = None
    flops: Callable[[Params], float] = lambda p: 0.0
    traffic: Callable[[Params], float] = lambda p: 0.0
    eager: bool = False
    tolerance: float = 1e-3
    first_call_of: tuple[str, ...] = field(default=("jitgrad", "torch.compile", "jax"))


def item_size(dtype: str) -> int:
    """Bytes of an element."""
    return {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}[dtype]


def tensor(m: Any, array: Any, dtype: str) -> Any:
    """A tensor of `m` (`torch` or `jitgrad`) from a NumPy array."""
    return m.from_numpy(array).to(getattr(m, dtype))
