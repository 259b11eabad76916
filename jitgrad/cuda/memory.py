"""How much device memory tensors have, and how much the pool holds."""

from __future__ import annotations

import dataclasses
from typing import Any

from jitgrad.ir.errors import OutOfMemoryError

from ..backend import gpus
from .devices import device_count, gpu


def _statistics(device: Any) -> Any:
    """The pool's statistics; None without a device."""
    return gpu(device).pool.current() if device_count() else None


def _bytes(device: Any, field: str) -> int:
    found = _statistics(device)
    return 0 if found is None else getattr(found, field)


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors have on a device.

    >>> import jitgrad as jg
    >>> jg.cuda.memory_allocated() >= 0
    True
    """
    return _bytes(device, "allocated")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors have had, since the start or `reset_peak_memory_stats`."""
    return _bytes(device, "peak_allocated")


def memory_reserved(device: Any = None) -> int:
    """Bytes that the pool has of the driver, used or not."""
    return _bytes(device, "reserved")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pool has had of the driver."""
    return _bytes(device, "peak_reserved")


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start again from where things are."""
    if device_count():
        gpu(device).pool.reset_peaks()


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the counts of allocations start again from zero."""
    found = _statistics(device)
    if found is not None:
        found.allocations = found.frees = found.driver_allocations = found.retries = 0


def memory_stats(device: Any = None) -> dict[str, int]:
    """All statistics of the pool, under PyTorch's names where it has the same ones."""
    found = _statistics(device)
    if found is None:
        return {}
    return {
        "allocated_bytes.all.current": found.allocated,
        "allocated_bytes.all.peak": found.peak_allocated,
        "reserved_bytes.all.current": found.reserved,
        "reserved_bytes.all.peak": found.peak_reserved,
        "allocation.all.allocated": found.allocations,
        "allocation.all.freed": found.frees,
        "num_device_alloc": found.driver_allocations,
        "num_alloc_retries": found.retries,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as a table in text."""
    found = _statistics(device)
    if found is None:
        return "no CUDA device"
    rows = dataclasses.asdict(found).items()
    return "\n".join([f"{name.replace('_', ' '):<20}{value:>16,}" for name, value in rows])


def empty_cache() -> None:
    """Give memory that no tensor has back to the driver."""
    for g in gpus().machine.gpus or ():
        g.pool.release_cached()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device, as the driver sees them."""
    g = gpu(device)
    return g.runtime.memory_info(g.index)  # type: ignore[no-any-return]


__all__ = ["OutOfMemoryError"]

memory_cached = memory_reserved
max_memory_cached = max_memory_reserved
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats
