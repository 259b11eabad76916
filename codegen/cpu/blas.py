"""Matrix products: addresses of BLAS functions, and the argument blocks that the driver hands to them.

The functions are those of the OpenBLAS in SciPy's wheel, found without importing SciPy (which takes ten times
longer), or else of whatever library SciPy was built with (`scipy.linalg.cython_blas`). OpenBLAS has threads of its
own for large products, runs small ones on the calling thread, and restarts its threads after fork.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Node, Value

from ..fuse.strided import MatrixLayout, contiguous_strides, matrix_layout, product_operand
from .threads import pool

_NAMES: Final = {dtypes.float32: "sgemm", dtypes.float64: "dgemm"}


@functools.cache
def gemm_address(dtype: DType) -> int:
    """Where `sgemm` or `dgemm` starts."""
    library = openblas()
    if library is not None:
        return int(ctypes.cast(getattr(library, f"scipy_{_NAMES[dtype]}_"), ctypes.c_void_p).value or 0)
    return _from_scipy(_NAMES[dtype])


@functools.cache
def openblas() -> ctypes.CDLL | None:
    """The OpenBLAS in SciPy's wheel, if that is what SciPy has."""
    spec = importlib.util.find_spec("scipy")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    for folder in (package.parent / "scipy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("libscipy_openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            if all(hasattr(library, f"scipy_{name}_") for name in _NAMES.values()):
                pool.on_change(functools.partial(_limit_threads, library))
                return library
    return None


def _limit_threads(library: ctypes.CDLL, count: int) -> None:
    library.scipy_openblas_set_num_threads(ctypes.c_int(count))


def _from_scipy(name: str) -> int:
    """The address in the capsule that SciPy exports for Cython."""
    from scipy.linalg import cython_blas  # lazy: loads SciPy

    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    if not address:
        raise InternalError(f"SciPy exports no address of {name}")
    return int(address)


@dataclass(frozen=True, slots=True)
class Product:
    """One BLAS call, or one per batch entry. Row-major `C = A B` is column-major `C' = B' A'`."""

    dtype: DType
    lhs: Value
    rhs: Value
    lhs_offset: int  # in elements, like all that follow
    rhs_offset: int
    rows: int
    columns: int
    inner: int
    lhs_layout: MatrixLayout
    rhs_layout: MatrixLayout
    offsets: tuple[tuple[int, int, int], ...]  # of lhs, rhs and result, per batch entry

    def block(self) -> list[int]:
        """The arguments that are the same for all entries, one 8-byte cell each."""
        alpha, beta = (self._scalar(x) for x in (1.0, 0.0))
        flag = {False: ord("N"), True: ord("T")}
        return [
            flag[self.rhs_layout.transposed], flag[self.lhs_layout.transposed],
            self.columns, self.rows, self.inner,
            self.rhs_layout.leading, self.lhs_layout.leading, max(1, self.columns), alpha, beta,
        ]  # fmt: skip

    def _scalar(self, x: float) -> int:
        data = struct.pack("<f", x) + bytes(4) if self.dtype is dtypes.float32 else struct.pack("<d", x)
        return int(struct.unpack("<q", data)[0])


def product_of(node: Node) -> Product:
    """How BLAS runs a `MatMul` node."""
    x, y = node.operands
    left, right = product_operand(x), product_operand(y)
    lhs, rhs = matrix_layout(x.shape, left.strides), matrix_layout(y.shape, right.strides)
    if lhs is None or rhs is None:
        raise InternalError(f"matmul of operands without a contiguous axis: {x.type}, {y.type}")
    batch = x.shape[:-2]
    result = contiguous_strides(node.result.shape)
    offsets = [(0, 0, 0)]
    for n, a, b, c in zip(batch, left.strides, right.strides, result):
        offsets = [(i + k * a, j + k * b, m + k * c) for i, j, m in offsets for k in range(n)]
    return Product(
        x.type.dtype, left.source, right.source, left.offset, right.offset,
        x.shape[-2], y.shape[-1], x.shape[-1], lhs, rhs, tuple(offsets),
    )  # fmt: skip
