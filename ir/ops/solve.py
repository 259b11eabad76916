"""Linear equations: `SolveTriangular`, `Solve`, `Inverse`, and least squares: `Lstsq`, `Pinv`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, lapack
from ..builder import Builder
from ..dtypes import DType
from ..errors import ShapeError, operand_lines
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..types import TensorType
from .creation import Full
from .host import HostOp
from .matrices import Matrix, check_matrices

__all__ = ["CholeskySolve", "Inverse", "Lstsq", "Pinv", "Solve", "SolveTriangular", "solution", "triangular_solution"]


def _check_equations(name: str, operands: Sequence[TensorType]) -> None:
    """Square matrices, and right-hand sides with as many rows."""
    a, rhs = operands
    check_matrices(name, operands, square=True)
    if a.shape[-1] != rhs.shape[-2]:
        raise ShapeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B: {a.shape[-1]} columns and "
            f"{rhs.shape[-2]} rows{operand_lines(operands)}"
        )


def triangular_solution(a: Matrix, rhs: Matrix, upper: bool, unit: bool = False) -> Matrix:
    """`X` with `a @ X = rhs`, of a triangle of `a`."""
    return Matrix(a.b, a.b(SolveTriangular(upper, unit), a.value, rhs.value))


def solution(a: Matrix, rhs: Matrix) -> Matrix:
    """`X` with `a @ X = rhs`."""
    return Matrix(a.b, a.b.emit(Solve(), a.value, rhs.value)[0])


@op
class SolveTriangular(HostOp):
    """`X` with `A @ X = B`, for the upper or lower triangle of `A`, with ones on its diagonal if `unit`.

    Zeros on the diagonal give infinity and NaN.

    >>> import jitgrad as jg
    >>> a, b = jg.tensor([[2.0, 1.0], [0.0, 1.0]]), jg.tensor([[4.0], [2.0]])
    >>> jg.linalg.solve_triangular(a, b, upper=True)
    tensor([[1.],
            [2.]])
    """

    upper: bool
    unit: bool = False
    name = "solve_triangular"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices and as many rows."""
        _check_equations(self.name, operands)
        return operands[1:]

    def reference(self, *operands: Array) -> Array:
        """BLAS's `trsm`."""
        a, rhs = operands
        return lapack.solve_triangular(a, rhs, self.upper, self.unit)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`A⁻ᴴ g` for `B`, and minus that times `Xᴴ`, of the triangle, for `A`."""
        (g,) = cotangents
        assert g is not None
        a, x = Matrix(b, operands[0]), Matrix(b, results[0])
        g_rhs = triangular_solution(a.mH, Matrix(b, g), not self.upper, self.unit)
        if not needs[0]:
            return None, g_rhs.value
        g_a = -(g_rhs @ x.mH)
        g_a = g_a.triu(int(self.unit)) if self.upper else g_a.tril(-int(self.unit))
        return g_a.value, g_rhs.value if needs[1] else None


@op
class CholeskySolve(HostOp):
    """`X` with `L @ L.mH @ X = B`, from the lower triangle of `L`.

    The gradient for `L` is PyTorch's, that of the product `L @ L.mH`: it is not cut to the triangle.

    >>> import jitgrad as jg
    >>> jg.cholesky_solve(jg.tensor([[4.0]]), jg.tensor([[2.0]]))
    tensor([[1.]])
    """

    name = "cholesky_solve"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A square factor, and as many rows."""
        _check_equations(self.name, operands)
        return operands[1:]

    def reference(self, *operands: Array) -> Array:
        """BLAS's `trsm`, twice."""
        factor, rhs = operands
        inner = lapack.solve_triangular(factor, rhs, False, False)
        return lapack.solve_triangular(lapack.adjoint(factor), inner, True, False)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """With S the solution for the cotangent times `Xᴴ`: the former for `B`, and `-(S + Sᴴ) L` for `L`."""
        (g,) = cotangents
        assert g is not None
        g_rhs = Matrix(b, b(self, operands[0], g))
        if not needs[0]:
            return None, g_rhs.value
        inner = g_rhs @ Matrix(b, results[0]).mH
        g_factor = -((inner + inner.mH) @ Matrix(b, operands[0]))
        return g_factor.value, g_rhs.value if needs[1] else None


@op
class Solve(HostOp):
    """`X` with `A @ X = B`, and `info`: 0, or the first zero pivot of a singular `A`, counted from 1.

    >>> import jitgrad as jg
    >>> jg.linalg.solve(jg.tensor([[2.0, 0.0], [0.0, 4.0]]), jg.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """

    name = "solve"
    copies_on_write = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices and as many rows."""
        _check_equations(self.name, operands)
        a, rhs = operands
        return rhs, TensorType(a.shape[:-2], dtypes.int32, a.device)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `gesv`."""
        return lapack.solve(*operands)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`A⁻ᴴ g` for `B`, and minus that times `Xᴴ` for `A`."""
        if cotangents[0] is None:
            return None, None
        a, x = Matrix(b, operands[0]), Matrix(b, results[0])
        g_rhs = Matrix(b, b.emit(self, a.mH.value, cotangents[0])[0])
        g_a = -(g_rhs @ x.mH) if needs[0] else None
        return None if g_a is None else g_a.value, g_rhs.value if needs[1] else None


@op
class Inverse(HostOp):
    """The inverse of square matrices, and `info` as of `Solve`.

    >>> import jitgrad as jg
    >>> jg.linalg.inv(jg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """

    name = "inverse"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        (x,) = operands
        check_matrices(self.name, operands, square=True)
        return x, TensorType(x.shape[:-2], dtypes.int32, x.device)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `gesv`."""
        return lapack.inverse(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`-Xᴴ g Xᴴ`."""
        if cotangents[0] is None:
            return (None,)
        adjoint = Matrix(b, results[0]).mH
        return ((-(adjoint @ Matrix(b, cotangents[0]) @ adjoint)).value,)


@op
class Lstsq(HostOp):
    """`X` with the least `|A @ X - B|`, the rank of `A`, and its singular values (zeros unless the driver has them).

    `driver` is LAPACK's: gels (full rank alone), gelsy (QR with pivots), gelsd or gelss (SVD). Singular values up to
    `rcond` times the largest count as zero.

    >>> import jitgrad as jg
    >>> jg.linalg.lstsq(jg.tensor([[1.0], [1.0]]), jg.tensor([[1.0], [3.0]])).solution.round(decimals=4)
    tensor([[2.]])
    """

    driver: str
    rcond: float
    name = "lstsq"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices with equally many rows."""
        a, rhs = operands
        check_matrices(self.name, operands)
        if a.shape[-2] != rhs.shape[-2]:
            raise ShapeError(f"lstsq: the numbers of rows differ{operand_lines(operands)}")
        *batch, m, n = a.shape
        values = TensorType((*batch, min(m, n)), dtypes.to_real(a.dtype), a.device)
        return (
            a.with_shape((*batch, n, rhs.shape[-1])),
            TensorType(tuple(batch), dtypes.int64, a.device),
            values,
        )

    def reference(self, *operands: Array) -> Array:
        """LAPACK's driver."""
        a, rhs = operands
        return lapack.lstsq(a, rhs, self.rcond, self.driver)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """As of `pinv(A) @ B`; none through rank and singular values."""
        if cotangents[0] is None:
            return None, None
        a, rhs, g = Matrix(b, operands[0]), Matrix(b, operands[1]), Matrix(b, cotangents[0])
        real = dtypes.to_real(operands[0].type.dtype)
        limits = [_limit(b, operands[0], real, 0.0), _limit(b, operands[0], real, max(a.shape[-2:]) * _epsilon(a))]
        p = Matrix(b, b(Pinv(), operands[0], *limits))
        g_a = pinv_gradient(a, p, g @ rhs.mH).value if needs[0] else None
        return g_a, (p.mH @ g).value if needs[1] else None


def _epsilon(x: Matrix) -> float:
    return float(np.finfo(dtypes.to_real(x.value.type.dtype).np).eps)


@op
class Pinv(HostOp):
    """The Moore-Penrose inverse; singular values up to `max(atol, rtol * largest)` count as zero.

    Operands: the matrices, and for each of them `atol` and `rtol`. With `hermitian` the lower triangle is read, and
    absolute eigenvalues are the singular values. The gradient is that at constant rank (Golub and Pereyra 1973).

    >>> import jitgrad as jg
    >>> jg.linalg.pinv(jg.tensor([[1.0], [1.0]]))
    tensor([[0.5000, 0.5000]])
    """

    hermitian: bool = False
    name = "pinv"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices, square if `hermitian`, and real limits for each."""
        x, *limits = operands
        check_matrices(self.name, (x,), square=self.hermitian)
        for t in limits:
            if t.shape != x.shape[:-2] or t.dtype is not dtypes.to_real(x.dtype):
                raise ShapeError(f"pinv: a limit does not fit the matrices{operand_lines(operands)}")
        *batch, m, n = x.shape
        return (x.with_shape((*batch, n, m)),)

    def reference(self, *operands: Array) -> Array:
        """By `eigh` or `svd`."""
        x, atol, rtol = operands
        if not x.size:
            return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
        if self.hermitian:
            values, left = lapack.eigh(x, False)
            right, size = left, np.abs(values)
        else:
            left, values, vh = lapack.svd(x, False)
            right, size = lapack.adjoint(vh), values
        with np.errstate(all="ignore"):
            limit = np.maximum(atol, rtol * size.max(-1))[..., None]
            kept = size > limit
            inverse = np.where(kept, 1, 0) / np.where(kept, values, 1)
            return np.asarray((right * inverse[..., None, :]) @ lapack.adjoint(left), x.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """See `pinv_gradient`."""
        (g,) = cotangents
        assert g is not None
        if not needs[0]:
            return None, None, None
        return pinv_gradient(Matrix(b, operands[0]), Matrix(b, results[0]), Matrix(b, g)).value, None, None


def _limit(b: Builder, x: Value, dtype: DType, number: float) -> Value:
    return b(Full(x.shape[:-2], dtype, number, x.type.device))


def pinv_gradient(a: Matrix, p: Matrix, g: Matrix) -> Matrix:
    """The cotangent of `a` from `g`, that of its pseudo-inverse `p`, the products taken on the smaller side."""
    m, n = a.shape[-2:]
    ph, gh = p.mH, g.mH
    if m <= n:
        k = gh @ p
        k_ph = k @ ph
        return k_ph - (p @ k).mH - (a @ p) @ k_ph + (ph @ p) @ (gh - k @ a)
    k = p @ gh
    ph_k = ph @ k
    return ph_k - (k @ p).mH + ((gh - a @ k) @ p) @ ph - (ph_k @ p) @ a
