"""Functions of matrices: `MatrixExp`."""

from __future__ import annotations

from collections.abc import Sequence

from .. import lapack
from ..builder import Builder
from ..op import Array, Cotangents, Values, op
from ..types import TensorType
from .host import HostOp
from .matrices import Matrix, check_matrices

__all__ = ["MatrixExp"]


@op
class MatrixExp(HostOp):
    """The exponential of square matrices: the sum of `A**k / k!`.

    >>> import jitgrad as jg
    >>> jg.matrix_exp(jg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    name = "matrix_exp"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Square matrices."""
        check_matrices(self.name, operands, square=True)
        return operands

    def reference(self, *operands: Array) -> Array:
        """SciPy's scaling and squaring (Al-Mohy and Higham 2009)."""
        return lapack.expm(operands[0])

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The upper right block of the exponential of `[[Aᴴ, g], [0, Aᴴ]]` (Mathias 1996)."""
        (g,) = cotangents
        assert g is not None
        a = Matrix(b, operands[0]).mH
        n = a.shape[-1]
        above, below = a.beside(Matrix(b, g)), (a * 0.0).beside(a)
        whole = Matrix(b, b(self, above.beside(below, -2).value))
        return (whole.part(-2, 0, n).part(-1, n, n).value,)
