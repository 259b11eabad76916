"""What compiling a graph took and what a call of it does, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """What compiling took and what a call does. Times are in milliseconds."""

    kernels: int = 0
    compiled: int = 0
    reused: int = 0
    stages_ms: dict[str, float] = field(default_factory=dict)
    bytes: int = 0
    flops: int = 0
    arena_bytes: int = 0
    host_steps: int = 0

    @property
    def total_ms(self) -> float:
        """All stages together."""
        return sum(self.stages_ms.values())
