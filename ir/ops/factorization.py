"""Factorisations of matrices by LAPACK: Cholesky, QR, LU, LDL.

`info` is int32, one for each matrix: 0, or where LAPACK found that the factorisation does not exist. The gradients
are those of Murray 2016 (arXiv:1602.07527), Walter and Lehmann 2010 (arXiv:1001.1654), and de Hoog et al. 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, lapack
from ..builder import Builder
from ..errors import AutogradError, ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..types import TensorType
from .broadcast import BroadcastTo
from .host import HostOp
from .indexing import Gather
from .matrices import Matrix, check_matrices
from .shape import Reshape
from .solve import triangular_solution

__all__ = ["Cholesky", "Geqrf", "LdlFactor", "LdlSolve", "LuFactor", "Permutation", "Qr"]


def _per_matrix(x: TensorType) -> TensorType:
    """The type of `info`."""
    return TensorType(x.shape[:-2], dtypes.int32, x.device)


def _half_of_adjoint(x: Matrix) -> Matrix:
    """For a lower triangle: half of it and of its strictly lower part's adjoint."""
    return (x + x.tril(-1).mH) * 0.5


@op
class Cholesky(HostOp):
    """The lower triangular `L` with `L @ L.mH` the Hermitian matrix whose lower triangle is read; and `info`.

    With `upper`, the upper triangle is read. The gradient is that with respect to a Hermitian operand, Hermitian too.

    >>> import jitgrad as jg
    >>> jg.linalg.cholesky(jg.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """

    upper: bool = False
    name = "cholesky"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        check_matrices(self.name, operands, square=True)
        return operands[0], _per_matrix(operands[0])

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `potrf`."""
        return lapack.cholesky(lapack.adjoint(operands[0]) if self.upper else operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`L⁻ᴴ Φ L⁻¹`, with Φ half of the lower triangle of `Lᴴ g` and of its adjoint."""
        if cotangents[0] is None:
            return (None,)
        factor, g = Matrix(b, results[0]), Matrix(b, cotangents[0])
        inner = _half_of_adjoint((factor.mH @ g).tril())
        left = triangular_solution(factor.mH, inner, upper=True)
        return (triangular_solution(factor.mH, left.mH, upper=True).mH.value,)


@op
class Qr(HostOp):
    """`Q` with orthonormal columns and upper triangular `R` with `Q @ R` the operand, `[..., m, n]`.

    `Q` has `min(m, n)` columns, or `m` if `complete`. Then the columns beyond those have no derivative.

    >>> import jitgrad as jg
    >>> jg.linalg.qr(jg.tensor([[3.0, 0.0], [4.0, 5.0]])).R
    tensor([[-5., -4.],
            [ 0.,  3.]])
    """

    complete: bool = False
    name = "qr"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices."""
        (x,) = operands
        check_matrices(self.name, operands)
        *batch, m, n = x.shape
        columns = m if self.complete else min(m, n)
        return x.with_shape((*batch, m, columns)), x.with_shape((*batch, columns, n))

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `geqrf`, then `orgqr`."""
        return lapack.qr(operands[0], self.complete)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Of the square part as of a square matrix; columns beyond it are `Q @ R` with `Q` known."""
        q, r = (Matrix(b, x) for x in results)
        m, n = operands[0].shape[-2:]
        if self.complete and m > n:
            raise AutogradError("qr: The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
        g_q = None if cotangents[0] is None else Matrix(b, cotangents[0])
        g_r = None if cotangents[1] is None else Matrix(b, cotangents[1])
        if m >= n:
            return (_tall_qr_gradient(q, r, g_q, g_r).value,)
        square, rest = r.part(-1, 0, m), r.part(-1, m, n - m)
        if g_r is None:
            zeros = rest * 0.0
            return (_tall_qr_gradient(q, square, g_q, None).beside(zeros).value,)
        g_rest = g_r.part(-1, m, n - m)
        through = q @ rest @ g_rest.mH
        g_q = through if g_q is None else g_q + through
        first = _tall_qr_gradient(q, square, g_q, g_r.part(-1, 0, m))
        return (first.beside(q @ g_rest).value,)


def _tall_qr_gradient(q: Matrix, r: Matrix, g_q: Matrix | None, g_r: Matrix | None) -> Matrix:
    """`(g_q + Q M) R⁻ᴴ`, M the Hermitian matrix with the upper triangle of `g_r Rᴴ - Qᴴ g_q`."""
    inner = None if g_r is None else g_r @ r.mH
    if g_q is not None:
        turned = q.mH @ g_q
        inner = -turned if inner is None else inner - turned
    assert inner is not None
    upper = inner.triu()
    hermitian = upper.triu(1) + upper.triu(1).mH + upper.diagonal().real.as_diagonal()
    out = q @ hermitian
    out = out if g_q is None else out + g_q
    return triangular_solution(r, out.mH, upper=True).mH


@op
class LuFactor(HostOp):
    """`L` (below the diagonal, with ones on it) and `U` in one matrix, the pivots from 1 on as int32, and `info`.

    >>> import jitgrad as jg
    >>> jg.linalg.lu_factor(jg.tensor([[1.0, 2.0], [4.0, 4.0]])).pivots
    tensor([2, 2], dtype=jitgrad.int32)
    """

    name = "lu_factor"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices."""
        (x,) = operands
        check_matrices(self.name, operands)
        pivots = TensorType((*x.shape[:-2], min(x.shape[-2:])), dtypes.int32, x.device)
        return x, pivots, _per_matrix(x)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `getrf`."""
        return lapack.lu_factor(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """Of the square part `L⁻ᴴ [Lᴴ g_l, strictly lower, + g_u Uᴴ, upper] U⁻ᴴ`; the rest follows from that."""
        if cotangents[0] is None:
            return (None,)
        factor, g = Matrix(b, results[0]), Matrix(b, cotangents[0])
        m, n = factor.shape[-2:]
        k = min(m, n)
        square, g_square = factor.part(-2, 0, k).part(-1, 0, k), g.part(-2, 0, k).part(-1, 0, k)
        low = square.tril(-1) + square.ones().tril().triu()
        up = square.triu()
        inner_low, inner_up = low.mH @ g_square.tril(-1), g_square.triu() @ up.mH
        below = right = None
        if m > k:  # L's lower rows are those of the operand times the inverse of U
            low_rows, g_rows = factor.part(-2, k, m - k), g.part(-2, k, m - k)
            inner_up = inner_up - low_rows.mH @ g_rows
            below = triangular_solution(up, g_rows.mH, upper=True).mH
        if n > k:  # U's last columns are the inverse of L times those of the operand
            up_columns, g_columns = factor.part(-1, k, n - k), g.part(-1, k, n - k)
            inner_low = inner_low - g_columns @ up_columns.mH
            right = triangular_solution(low.mH, g_columns, upper=True, unit=True)
        inner = inner_low.tril(-1) + inner_up.triu()
        out = triangular_solution(low.mH, inner, upper=True, unit=True)
        out = triangular_solution(up, out.mH, upper=True).mH
        out = out if right is None else out.beside(right)
        out = out if below is None else out.beside(below, -2)
        return (_rows_back(b, out.value, results[1]),)


def _rows_back(b: Builder, x: Value, pivots: Value) -> Value:
    """The rows of a matrix where they were before the exchanges."""
    rows = x.shape[-2]
    place = b(Permutation(rows, inverse=True), pivots)
    index = b(BroadcastTo(x.shape), b(Reshape((*place.shape, 1)), place))
    return b(Gather(x.ndim - 2), x, index)


@op
class Permutation(HostOp):
    """The order in which LAPACK's pivots (from 1 on) put `size` rows: which row is at each place, as int64.

    With `inverse`, at which place each row is.

    >>> import numpy as np
    >>> Permutation(3).reference(np.array([3, 3, 3], np.int32))
    array([2, 0, 1])
    """

    size: int
    inverse: bool = False
    name = "permutation"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """int32 pivots, at most as many as rows."""
        (pivots,) = operands
        if pivots.ndim < 1 or pivots.shape[-1] > self.size or pivots.dtype is not dtypes.int32:
            raise ShapeError(f"permutation: not pivots of {self.size} rows{operand_lines(operands)}")
        return (TensorType((*pivots.shape[:-1], self.size), dtypes.int64, pivots.device),)

    def reference(self, *operands: Array) -> Array:
        """The exchanges carried out on the row numbers."""
        order = lapack.permutation(operands[0], self.size)
        return np.argsort(order, -1) if self.inverse else order


@op
class Geqrf(HostOp):
    """`R`, below its diagonal the Householder vectors of `Q`, and their factors `tau`.

    >>> import jitgrad as jg
    >>> jg.geqrf(jg.tensor([[3.0], [4.0]])).tau
    tensor([1.6000])
    """

    name = "geqrf"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices."""
        (x,) = operands
        check_matrices(self.name, operands)
        return x, x.with_shape((*x.shape[:-2], min(x.shape[-2:])))

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `geqrf`."""
        return lapack.geqrf(operands[0])


@op
class LdlFactor(HostOp):
    """`L` and the block diagonal `D` of a symmetric (or Hermitian) matrix in one, pivots, and `info`."""

    hermitian: bool = False
    name = "ldl_factor"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        (x,) = operands
        check_matrices(self.name, operands, square=True)
        return x, TensorType(x.shape[:-1], dtypes.int32, x.device), _per_matrix(x)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `sytrf` or `hetrf`."""
        return lapack.ldl_factor(operands[0], self.hermitian)


@op
class LdlSolve(HostOp):
    """`X` with `A @ X = B`, from `LdlFactor`'s factor and pivots of `A`, and `B`."""

    hermitian: bool = False
    name = "ldl_solve"
    differentiable = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A square factor, its pivots, and matrices with as many rows."""
        factor, pivots, rhs = operands
        check_matrices(self.name, (factor, rhs), square=True)
        if pivots.dtype is not dtypes.int32 or pivots.shape != factor.shape[:-1] or rhs.shape[-2] != factor.shape[-1]:
            raise ShapeError(f"ldl_solve: the operands do not fit each other{operand_lines(operands)}")
        return (rhs,)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `sytrs` or `hetrs`."""
        factor, pivots, rhs = operands
        return lapack.ldl_solve(factor, pivots, rhs, self.hermitian)
