"""Orthogonal polynomials of degree `n`, elementwise in both operands: `x` first, then `n`, cut to a whole number.

A negative degree gives 0. They have no gradient, as in PyTorch.
"""

from __future__ import annotations

from .. import orthogonal
from ..op import Pointwise, op
from ..types import TensorType

__all__ = [
    "ChebyshevT", "ChebyshevU", "ChebyshevV", "ChebyshevW", "HermiteH", "HermiteHe", "LaguerreL", "LegendreP",
    "ShiftedChebyshevT", "ShiftedChebyshevU", "ShiftedChebyshevV", "ShiftedChebyshevW",
]  # fmt: skip


class _Polynomial(Pointwise):
    """Two float operands, the place and the degree; by its recurrence."""

    arity = 2
    promotes = "float"
    accepts = ("float",)
    inplace = False
    differentiable = False
    fast = False

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: the recurrence runs by NumPy, as many steps as the highest degree."""
        return False


@op
class ChebyshevT(_Polynomial):
    """The Chebyshev polynomial of the first kind of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.chebyshev_polynomial_t(jg.tensor([0.5, 2.0]), 3)
    tensor([-1., 26.])
    """

    name = "chebyshev_polynomial_t"
    ufunc = orthogonal.chebyshev_polynomial_t


@op
class ChebyshevU(_Polynomial):
    """The Chebyshev polynomial of the second kind of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.chebyshev_polynomial_u(jg.tensor([0.5, 2.0]), 3)
    tensor([-1., 56.])
    """

    name = "chebyshev_polynomial_u"
    ufunc = orthogonal.chebyshev_polynomial_u


@op
class ChebyshevV(_Polynomial):
    """The Chebyshev polynomial of the third kind of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.chebyshev_polynomial_v(jg.tensor([0.5, 2.0]), 3)
    tensor([-1., 41.])
    """

    name = "chebyshev_polynomial_v"
    ufunc = orthogonal.chebyshev_polynomial_v


@op
class ChebyshevW(_Polynomial):
    """The Chebyshev polynomial of the fourth kind of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.chebyshev_polynomial_w(jg.tensor([0.5, 2.0]), 3)
    tensor([-1., 71.])
    """

    name = "chebyshev_polynomial_w"
    ufunc = orthogonal.chebyshev_polynomial_w


@op
class ShiftedChebyshevT(_Polynomial):
    """The Chebyshev polynomial of the first kind at `2x - 1` of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.shifted_chebyshev_polynomial_t(jg.tensor([0.5, 2.0]), 3)
    tensor([-0., 99.])
    """

    name = "shifted_chebyshev_polynomial_t"
    ufunc = orthogonal.shifted_chebyshev_polynomial_t


@op
class ShiftedChebyshevU(_Polynomial):
    """The Chebyshev polynomial of the second kind at `2x - 1` of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.shifted_chebyshev_polynomial_u(jg.tensor([0.5, 2.0]), 3)
    tensor([ -0., 204.])
    """

    name = "shifted_chebyshev_polynomial_u"
    ufunc = orthogonal.shifted_chebyshev_polynomial_u


@op
class ShiftedChebyshevV(_Polynomial):
    """The Chebyshev polynomial of the third kind at `2x - 1` of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.shifted_chebyshev_polynomial_v(jg.tensor([0.5, 2.0]), 3)
    tensor([  1., 169.])
    """

    name = "shifted_chebyshev_polynomial_v"
    ufunc = orthogonal.shifted_chebyshev_polynomial_v


@op
class ShiftedChebyshevW(_Polynomial):
    """The Chebyshev polynomial of the fourth kind at `2x - 1` of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.shifted_chebyshev_polynomial_w(jg.tensor([0.5, 2.0]), 3)
    tensor([ -1., 239.])
    """

    name = "shifted_chebyshev_polynomial_w"
    ufunc = orthogonal.shifted_chebyshev_polynomial_w


@op
class HermiteH(_Polynomial):
    """The Hermite polynomial, as physicists define it of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.hermite_polynomial_h(jg.tensor([0.5, 2.0]), 3)
    tensor([-5., 40.])
    """

    name = "hermite_polynomial_h"
    ufunc = orthogonal.hermite_polynomial_h


@op
class HermiteHe(_Polynomial):
    """The Hermite polynomial, as used with the normal distribution of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.hermite_polynomial_he(jg.tensor([0.5, 2.0]), 3)
    tensor([-1.3750,  2.0000])
    """

    name = "hermite_polynomial_he"
    ufunc = orthogonal.hermite_polynomial_he


@op
class LaguerreL(_Polynomial):
    """The Laguerre polynomial of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.laguerre_polynomial_l(jg.tensor([0.5, 2.0]), 3)
    tensor([-0.1458, -0.3333])
    """

    name = "laguerre_polynomial_l"
    ufunc = orthogonal.laguerre_polynomial_l


@op
class LegendreP(_Polynomial):
    """The Legendre polynomial of degree `n`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.legendre_polynomial_p(jg.tensor([0.5, 2.0]), 3)
    tensor([-0.4375, 17.0000])
    """

    name = "legendre_polynomial_p"
    ufunc = orthogonal.legendre_polynomial_p
