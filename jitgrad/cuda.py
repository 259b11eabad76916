"""`jitgrad.cuda`: what scripts ask before they choose a device. There are no CUDA devices so far."""

from __future__ import annotations


def is_available() -> bool:
    """Whether tensors can live on a CUDA device: never, so far.

    >>> import jitgrad as jg
    >>> jg.device("cuda" if jg.cuda.is_available() else "cpu")
    device(type='cpu')
    """
    return False


def device_count() -> int:
    """How many CUDA devices there are: none, so far."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the generator of the current CUDA device; nothing without one, as in PyTorch."""


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all CUDA devices; nothing without one, as in PyTorch."""
