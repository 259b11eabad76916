"""The older names for mixed precision on the CPU: `jitgrad.cpu.amp.autocast()` is `jitgrad.autocast("cpu")`."""

from __future__ import annotations

from typing import Any

from ..amp import autocast as _autocast
from ..amp.grad_scaler import GradScaler as _GradScaler


class autocast(_autocast):
    """`jitgrad.autocast("cpu")`.

    >>> import jitgrad as jg
    >>> with jg.cpu.amp.autocast():
    ...     (jg.ones(2, 2) @ jg.ones(2, 2)).dtype
    jitgrad.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """`jitgrad.amp.GradScaler("cpu")`."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
