"""Determinants: `Det`, `SlogDet`, and `Cofactors`, the derivative of the first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import dtypes, lapack
from ..builder import Builder
from ..graph import Value
from ..op import Array, Cotangents, Values, op
from ..types import TensorType
from .host import HostOp
from .matrices import Matrix, check_matrices
from .reduction import Prod
from .shape import Permute
from .solve import Inverse
from .spectral import Svd

__all__ = ["Cofactors", "Det", "SlogDet"]


def _whole(b: Builder, value: Value) -> Matrix:
    """A number for each matrix as a matrix of one row and column."""
    return Matrix(b, value).unsqueezed(-1).unsqueezed(-1)


@op
class Det(HostOp):
    """The determinant of square matrices.

    >>> import jitgrad as jg
    >>> jg.linalg.det(jg.tensor([[1.0, 2.0], [3.0, 4.0]])).round(decimals=4)
    tensor(-2.)
    """

    name = "det"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        (x,) = operands
        check_matrices(self.name, operands, square=True)
        return (x.with_shape(x.shape[:-2]),)

    def reference(self, *operands: Array) -> Array:
        """The product of the diagonal of LAPACK's LU factorisation."""
        with np.errstate(all="ignore"):
            return np.asarray(np.linalg.det(operands[0]))

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The conjugate cofactors times the cotangent, for singular matrices too."""
        (g,) = cotangents
        assert g is not None
        return ((Matrix(b, b(Cofactors(), operands[0])).conj * _whole(b, g)).value,)


@op
class Cofactors(HostOp):
    """The derivative of the determinant by each element: `det(A) * inv(A).mT`, which exists for singular `A` too.

    >>> import numpy as np
    >>> Cofactors().reference(np.array([[1.0, 0.0], [0.0, 0.0]]))
    array([[0., 0.],
           [0., 1.]])
    """

    name = "cofactors"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        check_matrices(self.name, operands, square=True)
        return operands

    def reference(self, *operands: Array) -> Array:
        """By the inverse, and where that is inexact by the singular value decomposition, without a division."""
        return lapack.cofactors(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """By the second derivatives of the determinant of a diagonal matrix, which `U` and `V` turn to this one.

        With P[i, j] the product of all singular values but the i-th and j-th these are P[i, j] by elements (i, i) and
        (j, j), and -P[i, j] by (i, j) and (j, i).
        """
        (g,) = cotangents
        assert g is not None
        u, s, vh = b.emit(Svd(), operands[0])
        left, right = Matrix(b, u), Matrix(b, vh)
        turn = _whole(b, b(Det(), u)) * _whole(b, b(Det(), vh))
        inner = (left.mT @ Matrix(b, g) @ right.mT) * turn.conj
        rest = _products_of_others(Matrix(b, s).unsqueezed(-2))
        rest = rest.to_complex() if inner.is_complex else rest
        diagonal = inner.diagonal() @ rest
        out = (-(rest * inner.mT)).with_diagonal(diagonal.expand(inner.shape))
        return ((left @ out @ right).value,)


def _products_of_others(row: Matrix) -> Matrix:
    """For each pair of different places the product of the row's other elements; zeros on the diagonal."""
    n = row.shape[-1]
    batch = row.shape[:-2]
    rank = len(batch) + 3
    spread = row.unsqueezed(-2).expand((*batch, n, n, n))  # [i, j, k]: the k-th
    ones = spread.ones()
    without_second = spread.with_diagonal(ones)
    swap = Permute((*range(rank - 3), rank - 2, rank - 3, rank - 1))
    turned = Matrix(row.b, row.b(swap, without_second.value))
    product = row.b(Prod((rank - 1,), False), turned.with_diagonal(ones).value)
    product_matrix = Matrix(row.b, product)
    return product_matrix.with_diagonal(product_matrix * 0.0)


@op
class SlogDet(HostOp):
    """The sign of the determinant (of absolute value 1, or 0) and the logarithm of its absolute value.

    >>> import jitgrad as jg
    >>> jg.linalg.slogdet(jg.tensor([[1.0, 0.0], [0.0, -1.0]])).sign
    tensor(-1.)
    """

    name = "slogdet"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        (x,) = operands
        check_matrices(self.name, operands, square=True)
        sign = x.with_shape(x.shape[:-2])
        return sign, sign.with_dtype(dtypes.to_real(x.dtype))

    def reference(self, *operands: Array) -> Array:
        """By LAPACK's LU factorisation."""
        with np.errstate(all="ignore"):
            sign, logarithm = np.linalg.slogdet(operands[0])
        return np.asarray(sign), np.asarray(logarithm)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`(g_log + i Im(g_sign conj(sign))) A⁻ᴴ`."""
        factor = None if cotangents[1] is None else _whole(b, cotangents[1])
        if cotangents[0] is not None and operands[0].type.dtype.is_complex:
            turned = (_whole(b, cotangents[0]) * _whole(b, results[0]).conj).imag_i
            factor = turned if factor is None else turned + factor
        if factor is None:
            return (None,)
        return ((Matrix(b, b.emit(Inverse(), operands[0])[0]).mH * factor).value,)
