"""Which launches are shared out among threads, and in what portions.

Portions depend on the problem's size alone, never on the number of threads; and since the iterations of a parallel loop
are independent, they do not matter to results at all.
"""

from __future__ import annotations

from typing import Final

from .cpu.blas import Product
from .loops.ir import Loop
from .loops.tile import TileKernel
from .lower import AnyKernel, Launch

SERIAL_BELOW: Final = 40_000.0  # nanoseconds of work; handing out costs about 5000
PORTION: Final = 12_000.0
_MAX_PORTIONS: Final = 64
_LOOPS: Final = SERIAL_BELOW, PORTION, _MAX_PORTIONS
_TILES_SERIAL_BELOW: Final = 25_000.0
_TILES: Final = _TILES_SERIAL_BELOW, 4_000.0, 512
"""The same for tile kernels, whose sums need less memory than others to be moved between cores, and whose tasks are cut
to come out even, and so are handed out one by one."""
_FLOPS_PER_NANOSECOND: Final = 50.0
_BYTES_PER_NANOSECOND: Final = 32.0  # of a matrix that is multiplied by a vector
_VECTOR_ALIGNMENT: Final = 256  # elements, so that portions start on cache lines


def grain(launch: Launch) -> int:
    """Iterations in one portion of the parallel loop; 0 for a launch that runs on the calling thread."""
    tiles = isinstance(launch.kernel, TileKernel)
    least, each, most = _TILES if tiles else _LOOPS
    if launch.extent < 2 or launch.work < least:
        return 0
    portions = min(most, max(2, int(launch.work / each)))
    size = -(-launch.extent // portions)
    if _is_flat(launch.kernel):
        size = -(-size // _VECTOR_ALIGNMENT) * _VECTOR_ALIGNMENT
    return size if size < launch.extent else 0


def tile_grain(product: Product) -> int:
    """Tiles of a matrix product in one portion; 0 for a product that runs on the calling thread."""
    tiles = len(product.tiles)
    elements = product.tiles[0].rows * product.tiles[0].columns * product.inner
    if product.is_by_vector:
        work = elements * product.dtype.itemsize / _BYTES_PER_NANOSECOND
        portion = -(-tiles // _MAX_PORTIONS)
        return portion if tiles > portion and tiles * work >= _TILES_SERIAL_BELOW else 0
    work = 2 * elements / _FLOPS_PER_NANOSECOND
    if tiles * work < SERIAL_BELOW:
        return 0
    size = max(1, int(PORTION / max(1.0, work)), -(-tiles // _MAX_PORTIONS))
    return size if size < tiles else 0


def _is_flat(kernel: AnyKernel) -> bool:
    return any(isinstance(s, Loop) and s.kind == "parallel_vector" for s in kernel.body)
