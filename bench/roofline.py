"""What this machine can do: the rates of copying and of multiply-adds, measured, and the bound they put on a row."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rates:
    """Bytes a second read and written by a large copy, by two threads, and float32 operations a second in products."""

    copy: float
    flops: float

    def bound_ms(self, flops: float, traffic: float, dtype: str | None = None) -> float:
        """The least time in ms for so many operations and bytes, whichever takes longer."""
        rate = self.flops / 2 if dtype == "float64" else self.flops
        return 1e3 * max(flops / rate, traffic / self.copy)

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"copy {self.copy / 1e9:.0f} GB/s, multiply-adds {self.flops / 1e9:.0f} GFLOP/s"


def _best(f: Callable[[], Any], calls: int) -> float:
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


@functools.cache
def measured_rates() -> Rates:
    """With jitgrad's own kernels and BLAS, on all its threads; on an idle machine."""
    import jitgrad as jg

    x = jg.ones(1 << 25)
    scale = jg.compile(lambda x: x * 2)
    a = jg.ones(1536, 1536)
    product = jg.compile(lambda a: a @ a)
    for f in (lambda: scale(x), lambda: product(a)):
        f()
    return Rates(
        copy=2 * 4 * (1 << 25) / _best(lambda: scale(x), 15), flops=2 * 1536**3 / _best(lambda: product(a), 10)
    )


def cpu_name() -> str:
    """The processor, as the system names it, with its widest vectors."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown processor"
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "unknown")
    return f"{name} ({'AVX-512' if 'avx512f' in text else 'AVX2' if 'avx2' in text else 'no AVX2'})"


if __name__ == "__main__":
    print(cpu_name(), measured_rates(), np.__version__)
