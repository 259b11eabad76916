"""Which launches are shared out among threads, and in what portions.

Portions depend on the problem's size alone, never on the number of threads; and since the iterations of a parallel loop
are independent, they do not matter to results at all.
"""

from __future__ import annotations

from typing import Final

from .cpu.blas import Product
from .loops.ir import Kernel, Loop
from .lower import Launch

_SERIAL_BELOW: Final = 40_000.0  # nanoseconds of work; handing out costs about 5000
_PORTION: Final = 12_000.0
_MAX_PORTIONS: Final = 64
_FLOPS_PER_NANOSECOND: Final = 50.0
_BLAS_IS_SERIAL_BELOW: Final = 2 * 64**3  # flops up to which OpenBLAS uses no threads of its own
_VECTOR_ALIGNMENT: Final = 256  # elements, so that portions start on cache lines


def grain(launch: Launch) -> int:
    """Iterations in one portion of the parallel loop; 0 for a launch that runs on the calling thread."""
    if launch.extent < 2 or launch.work < _SERIAL_BELOW:
        return 0
    portions = min(_MAX_PORTIONS, max(2, int(launch.work / _PORTION)))
    size = -(-launch.extent // portions)
    if _is_flat(launch.kernel):
        size = -(-size // _VECTOR_ALIGNMENT) * _VECTOR_ALIGNMENT
    return size if size < launch.extent else 0


def batch_grain(product: Product) -> int:
    """Entries of a batch of matrix products in one portion; 0 for a batch that runs on the calling thread.

    Large products are left to BLAS's own threads, one after another.
    """
    flops = 2 * product.rows * product.columns * product.inner
    entries = len(product.offsets)
    if flops > _BLAS_IS_SERIAL_BELOW or entries * flops < _SERIAL_BELOW * _FLOPS_PER_NANOSECOND:
        return 0
    size = max(1, int(_PORTION * _FLOPS_PER_NANOSECOND / max(1, flops)))
    size = max(size, -(-entries // _MAX_PORTIONS))
    return size if size < entries else 0


def _is_flat(kernel: Kernel) -> bool:
    return any(isinstance(s, Loop) and s.kind == "parallel_vector" for s in kernel.body)
