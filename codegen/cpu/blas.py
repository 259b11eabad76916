"""Matrix products: addresses of BLAS functions, and the argument blocks that the driver hands to them.

The functions are SciPy's (`scipy.linalg.cython_blas`), the OpenBLAS that its wheels carry. OpenBLAS has threads of its own
for large products, runs small ones on the calling thread, and restarts its threads after fork.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from dataclasses import dataclass
from typing import Final

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import InternalError
from jitgrad.ir.graph import Node, Value

from ..fuse.strided import MatrixLayout, contiguous_strides, matrix_layout, product_operand

_NAMES: Final = {dtypes.float32: "sgemm", dtypes.float64: "dgemm"}
BLOCK_CELLS: Final = 10  # transa transb m n k lda ldb ldc alpha beta


@functools.cache
def gemm_address(dtype: DType) -> int:
    """Where `sgemm` or `dgemm` starts."""
    from scipy.linalg import cython_blas  # lazy: loads SciPy

    capsule = cython_blas.__pyx_capi__[_NAMES[dtype]]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    if not address:
        raise InternalError(f"SciPy exports no address of {_NAMES[dtype]}")
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
