"""What kernels are compiled for: chosen once, and asked by all that lays out threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of device.

    `capability` is the compute capability, `threads` the most threads in a block (a power of two), `blocks` the most
    blocks of one launch (loops go on in strides of the grid beyond that), `simulated` whether kernels run as Python
    functions in Numba's simulator.

    >>> Target((9, 0)).architecture
    'sm_90'
    """

    capability: tuple[int, int]
    threads: int = 256
    blocks: int = 2112
    simulated: bool = False

    @property
    def architecture(self) -> str:
        """The name that linkers use."""
        major, minor = self.capability
        return f"sm_{major}{minor}"


BLOCKS_PER_MULTIPROCESSOR: Final = 16
"""Of 256 threads, eight are resident at a time; twice as many even out what blocks take."""

SIMULATOR: Final = Target((0, 0), threads=8, blocks=3, simulated=True)
"""Few threads, because each is one of Python's."""


def device_target(capability: tuple[int, int], multiprocessors: int) -> Target:
    """The target for a device of that compute capability and number of multiprocessors."""
    return Target(capability, blocks=BLOCKS_PER_MULTIPROCESSOR * multiprocessors)
