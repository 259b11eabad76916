"""`Matrix`: IR values `[..., m, n]` with the operators of linear algebra, so that gradient rules read as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import dtypes
from ..builder import Builder
from ..errors import DTypeError, ShapeError, operand_lines
from ..graph import Value
from ..types import Shape, TensorType
from .arithmetic import Add, Div, Mul, Neg, Sub
from .broadcast import BroadcastTo
from .comparison import Eq, Ge, Le
from .complex import Imag, MakeComplex, Real, conj
from .creation import Full, Iota, full_like, zeros_like
from .linalg import MatMul, transposed
from .select import Convert, Where
from .shape import Reshape
from .slicing import Concat, Diagonal, Slice
from .write import embedded

__all__ = ["Matrix", "check_matrices"]


def check_matrices(name: str, operands: Sequence[TensorType], square: bool = False) -> None:
    """Raise unless all operands are matrices of one float or complex dtype and equal batch axes."""
    first = operands[0]
    for x in operands:
        if x.ndim < 2 or x.shape[:-2] != first.shape[:-2]:
            raise ShapeError(f"{name}: matrices with equal batch axes are needed{operand_lines(operands)}")
        if x.dtype is not first.dtype:
            raise DTypeError(f"{name}: operand dtypes differ{operand_lines(operands)}")
    if not first.dtype.is_differentiable or first.dtype.itemsize == 2:
        raise DTypeError(f"{name}: not defined for {first.dtype.name}{operand_lines(operands)}")
    if square and first.shape[-1] != first.shape[-2]:
        raise ShapeError(f"{name}: A must be batches of square matrices{operand_lines(operands)}")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A value, and the builder that its uses are appended to. Vectors are matrices of one row or column.

    `*`, `/`, `+` and `-` are elementwise and broadcast; real operands become complex beside complex ones.
    """

    b: Builder
    value: Value

    @property
    def shape(self) -> Shape:
        """The lengths of all axes."""
        return self.value.shape

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self.value.type.dtype.is_complex

    def _with(self, value: Value) -> Matrix:
        return Matrix(self.b, value)

    def _both(self, other: Matrix | float) -> tuple[Value, Value]:
        """Operands of one shape and dtype."""
        if not isinstance(other, Matrix):
            return self.value, full_like(self.b, self.value, other)
        x, y = (self, other.to_complex()) if self.is_complex else (self, other)
        x = x.to_complex() if y.is_complex else x
        shape = tuple(m if n == 1 else n for n, m in zip(x.shape, y.shape, strict=True))
        return x.expand(shape).value, y.expand(shape).value

    def __add__(self, other: Matrix | float) -> Matrix:
        return self._with(self.b(Add(), *self._both(other)))

    def __sub__(self, other: Matrix | float) -> Matrix:
        return self._with(self.b(Sub(), *self._both(other)))

    def __mul__(self, other: Matrix | float) -> Matrix:
        return self._with(self.b(Mul(), *self._both(other)))

    def __truediv__(self, other: Matrix | float) -> Matrix:
        return self._with(self.b(Div(), *self._both(other)))

    def __neg__(self) -> Matrix:
        return self._with(self.b(Neg(), self.value))

    def __matmul__(self, other: Matrix) -> Matrix:
        return self._with(self.b(MatMul(), self.value, other.value))

    def expand(self, shape: Shape) -> Matrix:
        """Repeated to `shape`."""
        return self if self.shape == shape else self._with(self.b(BroadcastTo(shape), self.value))

    def to_complex(self) -> Matrix:
        """The same numbers, complex."""
        dtype = dtypes.to_complex(self.value.type.dtype)
        return self if self.is_complex else self._with(self.b(Convert(dtype), self.value))

    @property
    def conj(self) -> Matrix:
        """The complex conjugate."""
        return self._with(conj(self.b, self.value))

    @property
    def real(self) -> Matrix:
        """The real part."""
        return self._with(self.b(Real(), self.value)) if self.is_complex else self

    @property
    def imag_i(self) -> Matrix:
        """The imaginary part, times `i`."""
        part = self.b(Imag(), self.value)
        return self._with(self.b(MakeComplex(), zeros_like(self.b, part), part))

    @property
    def mT(self) -> Matrix:
        """The transpose."""
        return self._with(transposed(self.b, self.value))

    @property
    def mH(self) -> Matrix:
        """The conjugate transpose."""
        return self.mT.conj

    def _where(self, op: Eq | Ge | Le, offset: int, other: Matrix | None = None) -> Matrix:
        """The elements whose column less their row is `op` (equal to, from, up to) `offset`; else `other`, or zero."""
        plane = self.shape[-2:]
        place = self.b(Sub(), self.b(Iota(plane, 1)), self.b(Iota(plane, 0)))
        kept = self.b(op, place, self.b(Full(plane, dtypes.int64, offset)))
        kept = self.b(BroadcastTo(self.shape), kept)
        no = zeros_like(self.b, self.value) if other is None else other.value
        return self._with(self.b(Where(), kept, self.value, no))

    def tril(self, offset: int = 0) -> Matrix:
        """The lower triangle, up to a diagonal."""
        return self._where(Le(), offset)

    def triu(self, offset: int = 0) -> Matrix:
        """The upper triangle, from a diagonal on."""
        return self._where(Ge(), offset)

    def with_diagonal(self, other: Matrix) -> Matrix:
        """The diagonal of `other`, and all the rest of this one."""
        return other._where(Eq(), 0, self)

    def diagonal(self) -> Matrix:
        """The diagonal as a row."""
        n = self.value.ndim
        return self._with(self.b(Diagonal(0, n - 2, n - 1), self.value)).unsqueezed(-2)

    def as_diagonal(self) -> Matrix:
        """A row put on a diagonal."""
        size = self.shape[-1]
        shape = (*self.shape[:-2], size, size)
        n = len(shape)
        return self._with(embedded(self.b, Diagonal(0, n - 2, n - 1), self.squeezed(-2).value, shape))

    def unsqueezed(self, axis: int) -> Matrix:
        """With an axis of length 1 that is `axis` (counted from the end) of the result."""
        at = self.value.ndim + 1 + axis
        return self._with(self.b(Reshape((*self.shape[:at], 1, *self.shape[at:])), self.value))

    def squeezed(self, axis: int) -> Matrix:
        """Without an axis (counted from the end) of length 1."""
        at = self.value.ndim + axis
        return self._with(self.b(Reshape((*self.shape[:at], *self.shape[at + 1 :])), self.value))

    def part(self, axis: int, start: int, length: int) -> Matrix:
        """`length` rows (axis -2) or columns (axis -1) from `start` on."""
        at = self.value.ndim + axis
        starts = tuple(start if a == at else 0 for a in range(self.value.ndim))
        shape = tuple(length if a == at else n for a, n in enumerate(self.shape))
        if shape == self.shape:
            return self
        return self._with(self.b(Slice(starts, shape, (1,) * len(shape)), self.value))

    def beside(self, other: Matrix, axis: int = -1) -> Matrix:
        """This one and `other` as one, side by side, or one above the other for axis -2."""
        return self._with(self.b(Concat(self.value.ndim + axis), self.value, other.value))

    def ones(self) -> Matrix:
        """Ones in this one's shape and dtype."""
        return self._with(full_like(self.b, self.value, 1))
