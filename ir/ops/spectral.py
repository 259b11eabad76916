"""Eigenvalues and singular values. Gradients assume that they are distinct wherever vectors are differentiated.

Eigenvectors and singular vectors are determined up to a factor of absolute value 1 only; the gradient is that of
functions for which this factor does not matter. The formulas are those of Giles 2008 and of Boeddeker et al. 2017
(arXiv:1701.00392).
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes, lapack
from ..builder import Builder
from ..graph import Value
from ..op import Array, Cotangents, Op, Values, op
from ..types import TensorType
from .check import CheckFinite
from .host import HostOp
from .matrices import Matrix, check_matrices
from .solve import solution

__all__ = ["Eig", "EigVals", "Eigh", "EighVals", "Svd", "SvdVals"]


def _row(b: Builder, value: Value | None) -> Matrix | None:
    """A vector for each matrix as a matrix of one row."""
    return None if value is None else Matrix(b, value).unsqueezed(-2)


def _optional(b: Builder, value: Value | None) -> Matrix | None:
    return None if value is None else Matrix(b, value)


def _values_type(x: TensorType) -> TensorType:
    """One real number for each row or column, of which there are fewer."""
    return TensorType((*x.shape[:-2], min(x.shape[-2:])), dtypes.to_real(x.dtype), x.device)


def _differences(values: Matrix) -> Matrix:
    """The value of the column less that of the row, and 1 on the diagonal."""
    between = values - values.mT
    return between.with_diagonal(between.ones())


def _skew(x: Matrix) -> Matrix:
    return x - x.mH


class _Spectrum(HostOp):
    of = "linalg.eigh"

    def value_checks(self, *operands: TensorType) -> Sequence[tuple[int, Op]]:
        """Finite numbers: with others, iterations don't converge."""
        return ((0, CheckFinite(self.of, self._part())),)

    def _part(self) -> str:
        """What is read of the operand."""
        return "all"


@op
class Eigh(_Spectrum):
    """Real eigenvalues, ascending, and orthonormal eigenvectors (columns) of Hermitian matrices.

    Of the operand only the lower triangle is read, or the upper one.

    >>> import jitgrad as jg
    >>> jg.linalg.eigh(jg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """

    upper: bool = False
    name = "eigh"

    def _part(self) -> str:
        """One triangle."""
        return "upper" if self.upper else "lower"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        check_matrices(self.name, operands, square=True)
        return _values_type(operands[0]), operands[0]

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `syevd` or `heevd`."""
        return lapack.eigh(operands[0], self.upper)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`V (diag(g_values) + skew(Vᴴ g_vectors) / 2E) Vᴴ`, E the differences of eigenvalues."""
        g_values, g_vectors = _row(b, cotangents[0]), _optional(b, cotangents[1])
        vectors = Matrix(b, results[1])
        if g_vectors is None:
            assert g_values is not None
            return ((vectors * g_values @ vectors.mH).value,)
        values = Matrix(b, results[0]).unsqueezed(-2)
        inner = _skew(vectors.mH @ g_vectors) * 0.5 / _differences(values)
        diagonal = values * 0.0 if g_values is None else g_values
        diagonal = diagonal.to_complex() if vectors.is_complex else diagonal
        inner = inner.with_diagonal(diagonal.expand(inner.shape))
        return ((vectors @ inner @ vectors.mH).value,)


@op
class EighVals(_Spectrum):
    """The eigenvalues of `Eigh` alone."""

    upper: bool = False
    name = "eigvalsh"
    copies_on_write = True

    def _part(self) -> str:
        """One triangle."""
        return "upper" if self.upper else "lower"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        check_matrices(self.name, operands, square=True)
        return (_values_type(operands[0]),)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `syevd` or `heevd`."""
        return lapack.eigvalsh(operands[0], self.upper)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`V diag(g) Vᴴ`."""
        g = _row(b, cotangents[0])
        assert g is not None
        vectors = Matrix(b, b.emit(Eigh(self.upper), operands[0])[1])
        return ((vectors * g @ vectors.mH).value,)


@op
class Eig(_Spectrum):
    """Complex eigenvalues, in no particular order, and eigenvectors of norm 1 (columns) of square matrices.

    >>> import jitgrad as jg
    >>> jg.linalg.eig(jg.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([2.+0.j, 1.+0.j])
    """

    name = "eig"
    of = "linalg.eig"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        (x,) = operands
        check_matrices(self.name, operands, square=True)
        vectors = x.with_dtype(dtypes.to_complex(x.dtype))
        return vectors.with_shape(x.shape[:-1]), vectors

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `geev`."""
        return lapack.eig(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`V⁻ᴴ (diag(g_values) + (Vᴴ g_vectors - Vᴴ V Re diag(Vᴴ g_vectors)) / Eᴴ) Vᴴ`."""
        g_values, g_vectors = _row(b, cotangents[0]), _optional(b, cotangents[1])
        vectors = Matrix(b, results[1])
        if g_vectors is None:
            assert g_values is not None
            return (_eig_gradient(vectors, g_values.as_diagonal(), operands[0]).value,)
        values = Matrix(b, results[0]).unsqueezed(-2)
        inner = vectors.mH @ g_vectors
        inner = inner - vectors.mH @ (vectors * inner.diagonal().real)
        inner = inner / _differences(values).conj
        diagonal = values * 0.0 if g_values is None else g_values
        inner = inner.with_diagonal(diagonal.expand(inner.shape))
        return (_eig_gradient(vectors, inner, operands[0]).value,)


def _eig_gradient(vectors: Matrix, inner: Matrix, operand: Value) -> Matrix:
    """`V⁻ᴴ inner Vᴴ`, real for a real operand."""
    out = solution(vectors.mH, inner @ vectors.mH)
    return out if operand.type.dtype.is_complex else out.real


@op
class EigVals(_Spectrum):
    """The eigenvalues of `Eig` alone."""

    name = "eigvals"
    of = "linalg.eig"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        (x,) = operands
        check_matrices(self.name, operands, square=True)
        return (TensorType(x.shape[:-1], dtypes.to_complex(x.dtype), x.device),)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `geev`."""
        return lapack.eigvals(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`V⁻ᴴ diag(g) Vᴴ`, with eigenvalues and vectors found anew, so that their order is the same."""
        g = _row(b, cotangents[0])
        assert g is not None
        vectors = Matrix(b, b.emit(Eig(), operands[0])[1])
        return (_eig_gradient(vectors, g.as_diagonal(), operands[0]).value,)


@op
class Svd(_Spectrum):
    """`U`, the singular values (real, descending) and `Vh` with `U @ diag(S) @ Vh` the operand, `[..., m, n]`.

    `U` and `Vh` have `min(m, n)` columns and rows, or are square if `full_matrices`; what they have more then is not
    differentiated.

    >>> import jitgrad as jg
    >>> jg.linalg.svd(jg.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """

    full_matrices: bool = False
    name = "svd"
    of = "linalg.svd"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices."""
        (x,) = operands
        check_matrices(self.name, operands)
        *batch, m, n = x.shape
        rows, columns = (m, n) if self.full_matrices else (min(m, n),) * 2
        return x.with_shape((*batch, m, rows)), _values_type(x), x.with_shape((*batch, columns, n))

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `gesdd`."""
        return lapack.svd(operands[0], self.full_matrices)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """See `_svd_gradient`."""
        k = min(operands[0].shape[-2:])
        u, vh = Matrix(b, results[0]).part(-1, 0, k), Matrix(b, results[2]).part(-2, 0, k)
        g_u, g_s, g_vh = _optional(b, cotangents[0]), _row(b, cotangents[1]), _optional(b, cotangents[2])
        if g_u is None and g_vh is None:
            assert g_s is not None
            return ((u * g_s @ vh).value,)
        g_u = None if g_u is None else g_u.part(-1, 0, k)
        g_vh = None if g_vh is None else g_vh.part(-2, 0, k)
        return (_svd_gradient((u, Matrix(b, results[1]).unsqueezed(-2), vh), (g_u, g_s, g_vh)).value,)


def _svd_gradient(
    results: tuple[Matrix, Matrix, Matrix], cotangents: tuple[Matrix | None, Matrix | None, Matrix | None]
) -> Matrix:
    """`U [skew(Uᴴ g_u)/E S + S skew(Vᴴ g_v)/E + diag(g_s + i Im diag(Uᴴ g_u) / S)] Vᴴ`, E the differences of squares.

    To which come, where there are more rows or columns than singular values, the parts of `g_u` and `g_v` outside
    the spaces of `U` and `V`.
    """
    (u, s, vh), (g_u, g_s, g_vh) = results, cotangents
    turn_u = None if g_u is None else _skew(u.mH @ g_u)
    turn_v = None if g_vh is None else _skew(vh @ g_vh.mH)
    squares = _differences(s * s)
    inner = None if turn_u is None else turn_u * s
    if turn_v is not None:
        inner = turn_v * s.mT if inner is None else inner + turn_v * s.mT
    assert inner is not None
    inner = inner / squares
    if g_s is not None:
        inner = inner + g_s.as_diagonal()
    if turn_u is not None and turn_v is not None and u.is_complex:
        # on the diagonal, where the differences are 1, stands what depends on the vectors' phase
        inner = inner - (turn_u.diagonal() * s + turn_v.diagonal() * s).as_diagonal()
        inner = inner + (turn_u.diagonal() / (s * 2.0)).as_diagonal()
    m, k, n = u.shape[-2], s.shape[-1], vh.shape[-1]
    left = u @ inner
    if m > k and g_u is not None:
        outside = g_u / s
        left = left + outside - u @ (u.mH @ outside)
    out = left @ vh
    if n > k and g_vh is not None:
        outside = g_vh / s.mT
        out = out + u @ (outside - (outside @ vh.mH) @ vh)
    return out


@op
class SvdVals(_Spectrum):
    """The singular values of `Svd` alone."""

    name = "svdvals"
    copies_on_write = True
    of = "linalg.svd"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Matrices."""
        check_matrices(self.name, operands)
        return (_values_type(operands[0]),)

    def reference(self, *operands: Array) -> Array:
        """LAPACK's `gesdd`."""
        return lapack.svdvals(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`U diag(g) Vᴴ`."""
        g = _row(b, cotangents[0])
        assert g is not None
        u, _, vh = (Matrix(b, x) for x in b.emit(Svd(), operands[0]))
        return ((u * g @ vh).value,)
