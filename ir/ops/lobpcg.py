"""`Lobpcg`: a few extreme eigenvalues of large symmetric matrices, by iteration."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes, lapack
from ..builder import Builder
from ..errors import AutogradError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..types import TensorType
from .arithmetic import Add
from .comparison import Eq
from .creation import Full, Iota
from .host import HostOp
from .matrices import Matrix, check_matrices
from .select import Where
from .spectral import Eigh

__all__ = ["Lobpcg"]


@op
class Lobpcg(HostOp):
    """The `count` largest (or smallest) eigenvalues of symmetric matrices, and their eigenvectors.

    Operands: the matrices, the vectors to start from, and perhaps a positive-definite matrix `B` for the generalised
    problem. The iteration is Knyazev's (2001); it ends when residuals are below `tol`, or after `steps`.

    >>> import jitgrad as jg
    >>> jg.lobpcg(jg.diag(jg.arange(9.0)), k=2)[0]
    tensor([8., 7.])
    """

    count: int
    largest: bool
    steps: int
    tol: float
    name = "lobpcg"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices, and as many rows to start from."""
        a, start, *_ = operands
        check_matrices(self.name, operands, square=True)
        if start.shape[-2] != a.shape[-1] or not 0 < self.count <= start.shape[-1]:
            raise ShapeError(f"lobpcg: the operands do not fit {self.count} eigenvectors{operand_lines(operands)}")
        batch = a.shape[:-2]
        return a.with_shape((*batch, self.count)), a.with_shape((*batch, a.shape[-1], self.count))

    def reference(self, *operands: Array) -> Array:
        """`scipy.sparse.linalg.lobpcg`, one matrix after another."""
        return lapack.lobpcg(operands, self.count, self.largest, self.steps, self.tol)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`X diag(g_e) Xᵀ`, and for each vector `(e - A)⁺ g_x xᵀ`, by all eigenvectors of the matrix."""
        if len(operands) > 2:
            raise AutogradError("lobpcg: no derivative of the generalised problem")
        values, vectors = Matrix(b, results[0]).unsqueezed(-2), Matrix(b, results[1])
        found = None
        if cotangents[0] is not None:
            found = vectors * Matrix(b, cotangents[0]).unsqueezed(-2) @ vectors.mT
        if cotangents[1] is not None:
            all_values, basis = (Matrix(b, x) for x in b.emit(Eigh(), operands[0]))
            distance = values - all_values.unsqueezed(-1)
            own = self._own(b, distance)
            ones, zeros = distance.ones(), distance * 0.0
            safe = Matrix(b, b(Where(), own, ones.value, distance.value))
            share = basis.mT @ Matrix(b, cotangents[1]) / safe
            share = Matrix(b, b(Where(), own, zeros.value, share.value))
            turned = basis @ share @ vectors.mT
            found = turned if found is None else found + turned
        return (None if found is None else found.value, None)

    def _own(self, b: Builder, distance: Matrix) -> Value:
        """Where a row (of all eigenvalues, ascending) is that of a column (one of those found)."""
        shape = distance.shape
        row, column = b(Iota(shape, len(shape) - 2)), b(Iota(shape, len(shape) - 1))
        if self.largest:  # the first is the last of all
            last = b(Full(shape, dtypes.int64, shape[-2] - 1))
            return b(Eq(), b(Add(), row, column), last)
        return b(Eq(), row, column)
