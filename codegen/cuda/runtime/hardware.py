"""The CUDA driver as a `Runtime`: cuda-core for launches, cuda-bindings for memory, streams and graphs, CuPy for cuBLAS.

Beside the compiler's toolchain this is the only file that imports any of them.
"""

from __future__ import annotations


def open_hardware() -> tuple[None, str]:
    """No hardware yet."""
    return None, "the packages cuda-core and cuda-bindings are missing"
