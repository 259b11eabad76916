"""cuDNN's switches. jitgrad's own kernels are deterministic, and chosen without trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False: cuDNN is not used."""
    return False


def version() -> None:
    """None: cuDNN is not used."""
    return


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """A block in which other switches would hold; it changes nothing."""
    yield
