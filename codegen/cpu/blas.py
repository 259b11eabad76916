"""Matrix products: addresses of BLAS functions, and the calls that the driver makes.

The functions are those of an OpenBLAS of our own, from the wheel `scipy-openblas32`, which is told once to use no
threads: large products are cut into tiles that depend on the shape alone and shared out among our own threads, because
two pools would fight over the cores. NumPy and SciPy carry other copies, whose settings stay as they are. Where the
wheel is missing, it is the OpenBLAS in SciPy's wheel, found without importing SciPy (which takes ten times longer) and
switched to one thread during a product only, or else whatever SciPy was built with (`scipy.linalg.cython_blas`).
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

from ..conv.factor_ops import TileProduct
from ..fuse.strided import MatrixLayout, Strided, contiguous_strides, matrix_layout, product_operand

_NAMES: Final = {dtypes.float32: "sgemm", dtypes.float64: "dgemm"}
_MAX_TILES: Final = 16  # each tile packs its operands anew
_MIN_FLOPS: Final = 8_000_000
_MIN_SIDE: Final = 64
_SIDE_MULTIPLE: Final = 16
_VECTOR_TILE: Final = 1 << 15  # elements of the matrix, of a product with one row or column: what it takes is memory
_MOST_OF_A_VECTOR: Final = 1 << 19  # what OpenBLAS does without packing the matrix, which takes ten times as long


@functools.cache
def gemm_address(dtype: DType) -> int:
    """Where `sgemm` or `dgemm` starts."""
    library = openblas()
    if library is not None:
        return int(ctypes.cast(getattr(library, f"scipy_{_NAMES[dtype]}_"), ctypes.c_void_p).value or 0)
    return _from_scipy(_NAMES[dtype])


@functools.cache
def openblas() -> ctypes.CDLL | None:
    """Our own OpenBLAS, or that in SciPy's wheel, if there is one."""
    return own_openblas() or _scipy_openblas()


@functools.cache
def own_openblas() -> ctypes.CDLL | None:
    """The OpenBLAS in the wheel `scipy-openblas32`, set to one thread."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    library = _load_from(Path(spec.origin).parent / "lib")
    if library is not None:
        library.scipy_openblas_set_num_threads(ctypes.c_int(1))
    return library


def _scipy_openblas() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("scipy")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return _load_from(package.parent / "scipy.libs") or _load_from(package / ".dylibs")


def _load_from(folder: Path) -> ctypes.CDLL | None:
    """The first library in `folder` that has the functions."""
    for path in sorted(folder.glob("libscipy_openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        if all(hasattr(library, f"scipy_{name}_") for name in _NAMES.values()):
            return library
    return None


@functools.cache
def thread_switch() -> tuple[int, int] | None:
    """For a library that others use too: the function that sets its number of threads, and the number it came with."""
    library = openblas()
    if library is None or library is own_openblas():
        return None
    setter = ctypes.cast(library.scipy_openblas_set_num_threads, ctypes.c_void_p).value
    return None if setter is None else (setter, int(library.scipy_openblas_get_num_threads()))


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
class Tile:
    """One BLAS call: a block of one result of a batch. Offsets are in elements."""

    lhs: int
    rhs: int
    result: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Product:
    """A batch of products of `[rows, inner]` and `[inner, columns]`, cut into tiles."""

    dtype: DType
    lhs: Value
    rhs: Value
    rows: int
    columns: int
    inner: int
    lhs_layout: MatrixLayout
    rhs_layout: MatrixLayout
    tiles: tuple[Tile, ...]

    @property
    def is_by_vector(self) -> bool:
        """Whether a factor is a row or a column, so that each element of the other is used once."""
        return 1 in (self.rows, self.columns)

    def block(self) -> list[int]:
        """The arguments that all calls share, one 8-byte cell each.

        Row-major `C = A B` is column-major `C' = B' A'`, so that the right operand comes first.
        """
        alpha, beta = (self._scalar(x) for x in (1.0, 0.0))
        flag = {False: ord("N"), True: ord("T")}
        return [
            flag[self.rhs_layout.transposed], flag[self.lhs_layout.transposed], self.inner,
            self.rhs_layout.leading, self.lhs_layout.leading, max(1, self.columns), alpha, beta,
        ]  # fmt: skip

    def cells(self) -> list[int]:
        """Per tile: three byte offsets, columns, rows."""
        size = self.dtype.itemsize
        return [x for t in self.tiles for x in (size * t.lhs, size * t.rhs, size * t.result, t.columns, t.rows)]

    def _scalar(self, x: float) -> int:
        data = struct.pack("<f", x) + bytes(4) if self.dtype is dtypes.float32 else struct.pack("<d", x)
        return int(struct.unpack("<q", data)[0])


def product_of(node: Node) -> Product:
    """How BLAS runs a `MatMul` node, or a `TileProduct`."""
    (of_x, left), (of_y, right) = _factors(node)
    lhs, rhs = matrix_layout(of_x, left.strides), matrix_layout(of_y, right.strides)
    if lhs is None or rhs is None:
        x, y = node.operands
        raise InternalError(f"matmul of operands without a contiguous axis: {x.type}, {y.type}")
    starts = [(left.offset, right.offset, 0)]
    batch = zip(of_x[:-2], left.strides, right.strides, contiguous_strides(node.result.shape))
    for n, a, b, c in batch:
        starts = [(i + k * a, j + k * b, m + k * c) for i, j, m in starts for k in range(n)]
    rows, columns, inner = of_x[-2], of_y[-1], of_x[-1]
    down, across = cuts(rows, columns, inner, len(starts))
    by_row = 1 if lhs.transposed else lhs.leading
    by_column = rhs.leading if rhs.transposed else 1
    tiles = tuple(
        Tile(a + r * by_row, b + c * by_column, at + r * columns + c, h, w)
        for a, b, at in starts
        for r, h in _pieces(rows, down)
        for c, w in _pieces(columns, across)
    )
    return Product(node.result.type.dtype, left.source, right.source, rows, columns, inner, lhs, rhs, tiles)


def _factors(node: Node) -> list[tuple[tuple[int, ...], Strided]]:
    """Shape and memory of both factors. Those of a `TileProduct` are its operands' own, turned or not."""
    if not isinstance(node.op, TileProduct):
        return [(v.shape, product_operand(v)) for v in node.operands]
    found = []
    for v, turned in zip(node.operands, node.op.turned, strict=True):
        strides = contiguous_strides(v.shape)
        shape, seen = (v.shape[::-1], strides[::-1]) if turned else (v.shape, strides)
        found.append((shape, Strided(v, 0, seen)))
    return found


def cuts(rows: int, columns: int, inner: int, batch: int) -> tuple[int, int]:
    """Into how many pieces the rows and the columns of each result are cut.

    >>> cuts(64, 64, 64, 1), cuts(1024, 1024, 1024, 1), cuts(1024, 1024, 1024, 32), cuts(1, 1024, 256, 1)
    ((1, 1), (4, 4), (1, 1), (1, 8))
    >>> cuts(1, 4096, 4096, 1)
    (1, 32)
    """
    if rows == 1 or columns == 1:
        elements = rows * columns * inner
        pieces = min(_MAX_TILES // max(1, batch), elements // _VECTOR_TILE)
        pieces = max(1, pieces, -(-elements // _MOST_OF_A_VECTOR))
        return (1, pieces) if rows == 1 else (pieces, 1)
    down = across = 1
    while batch * down * across < _MAX_TILES and 2 * rows * columns * inner > 2 * _MIN_FLOPS * down * across:
        height, width = rows / down, columns / across
        if max(height, width) < 2 * _MIN_SIDE:
            break
        if height >= width:
            down *= 2
        else:
            across *= 2
    return down, across


def _pieces(length: int, count: int) -> list[tuple[int, int]]:
    """Starts and lengths of `count` pieces, all but the last of equal length and a multiple of `_SIDE_MULTIPLE`."""
    each = -(-length // count)
    if count > 1:
        each = -(-each // _SIDE_MULTIPLE) * _SIDE_MULTIPLE
    return [(at, min(each, length - at)) for at in range(0, length, max(1, each))]
