"""Bessel functions and Airy's, elementwise. Those of the first kind, modified, have kernels and gradients."""

from __future__ import annotations

from typing import ClassVar

from .. import approximations, single_precision, special
from ..builder import Builder
from ..graph import Value
from ..op import Pointwise, op
from ..scalar import Expr
from ..types import TensorType
from .arithmetic import Sign
from .comparison import Eq
from .formula import Term
from .special_function import SinglePrecisionFunction

__all__ = [
    "I0",
    "I1",
    "AiryAi",
    "BesselJ0",
    "BesselJ1",
    "BesselY0",
    "BesselY1",
    "I0e",
    "I1e",
    "ModifiedBesselI1",
    "ModifiedBesselK0",
    "ModifiedBesselK1",
    "ScaledModifiedBesselK0",
    "ScaledModifiedBesselK1",
    "SphericalBesselJ0",
]  # fmt: skip


def _over_operand(b: Builder, y: Value, x: Value) -> Term:
    """`y / x` of an odd function that is x/2 near 0."""
    at_zero = Term(b, x).apply(Eq(), 0.0)
    return at_zero.choose(0.5, Term(b, y) / at_zero.choose(1.0, Term(b, x)))


@op
class I0(SinglePrecisionFunction):
    """The modified Bessel function of the first kind of order 0, elementwise.

    >>> import jitgrad as jg
    >>> jg.i0(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """

    name = "i0"
    public = ("i0",)
    ufunc = special.i0

    def formula(self, x: Expr) -> Expr:
        """The scaled function times exp|x|."""
        return approximations.unscaled(approximations.i0e(x), x)

    def single(self, x: Expr) -> Expr:
        """By Chebyshev series in float32."""
        return single_precision.i0(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """I1."""
        return b(I1(), x)


@op
class I0e(SinglePrecisionFunction):
    """`exp(-|x|) I0(x)`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.i0e(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """

    name = "i0e"
    ufunc = special.i0e

    def formula(self, x: Expr) -> Expr:
        """By Chebyshev series."""
        return approximations.i0e(x)

    def single(self, x: Expr) -> Expr:
        """By Chebyshev series in float32."""
        return single_precision.i0e(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """I1e(x) - sign(x) y."""
        return (Term(b, x).apply(I1e()) - Term(b, x).apply(Sign()) * Term(b, y)).value


@op
class I1(SinglePrecisionFunction):
    """The modified Bessel function of the first kind of order 1, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.i1(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """

    name = "i1"
    ufunc = special.i1

    def formula(self, x: Expr) -> Expr:
        """The scaled function times exp|x|."""
        return approximations.unscaled(approximations.i1e(x), x)

    def single(self, x: Expr) -> Expr:
        """By Chebyshev series in float32."""
        return single_precision.i1(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """I0(x) - y / x, which is 1/2 at 0."""
        return (Term(b, x).apply(I0()) - _over_operand(b, y, x)).value


@op
class ModifiedBesselI1(I1):
    """The modified Bessel function of the first kind of order 1, elementwise; of float32 closer than `i1`.

    >>> import jitgrad as jg
    >>> jg.special.modified_bessel_i1(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """

    name = "modified_bessel_i1"

    def single(self, x: Expr) -> Expr:
        """By longer series than those of `i1`."""
        return single_precision.modified_bessel_i1(x)


@op
class I1e(SinglePrecisionFunction):
    """`exp(-|x|) I1(x)`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.i1e(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """

    name = "i1e"
    ufunc = special.i1e

    def formula(self, x: Expr) -> Expr:
        """By Chebyshev series."""
        return approximations.i1e(x)

    def single(self, x: Expr) -> Expr:
        """By Chebyshev series in float32."""
        return single_precision.i1e(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """I0e(x) - y (sign(x) + 1/x), which is 1/2 at 0."""
        turned = Term(b, x).apply(Sign()) * Term(b, y)
        return (Term(b, x).apply(I0e()) - turned - _over_operand(b, y, x)).value


class _ByLibrary(Pointwise):
    """A function of one float that SciPy computes, without a gradient, as in PyTorch."""

    promotes = "float"
    accepts: ClassVar[tuple[str, ...]] = ("float",)
    inplace = False
    differentiable = False
    fast = False

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by SciPy."""
        return False


@op
class BesselJ0(_ByLibrary):
    """The Bessel function of the first kind of order 0, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.bessel_j0(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """

    name = "bessel_j0"
    ufunc = special.bessel_j0


@op
class BesselJ1(_ByLibrary):
    """The Bessel function of the first kind of order 1, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.bessel_j1(jg.tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """

    name = "bessel_j1"
    ufunc = special.bessel_j1


@op
class BesselY0(_ByLibrary):
    """The Bessel function of the second kind of order 0, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.bessel_y0(jg.tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """

    name = "bessel_y0"
    ufunc = special.bessel_y0


@op
class BesselY1(_ByLibrary):
    """The Bessel function of the second kind of order 1, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.bessel_y1(jg.tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """

    name = "bessel_y1"
    ufunc = special.bessel_y1


@op
class ModifiedBesselK0(_ByLibrary):
    """The modified Bessel function of the second kind of order 0, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.modified_bessel_k0(jg.tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """

    name = "modified_bessel_k0"
    ufunc = special.modified_bessel_k0


@op
class ModifiedBesselK1(_ByLibrary):
    """The modified Bessel function of the second kind of order 1, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.modified_bessel_k1(jg.tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """

    name = "modified_bessel_k1"
    ufunc = special.modified_bessel_k1


@op
class ScaledModifiedBesselK0(_ByLibrary):
    """`exp(x) K0(x)`, of the modified Bessel function of the second kind, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.scaled_modified_bessel_k0(jg.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """

    name = "scaled_modified_bessel_k0"
    ufunc = special.scaled_modified_bessel_k0


@op
class ScaledModifiedBesselK1(_ByLibrary):
    """`exp(x) K1(x)`, of the modified Bessel function of the second kind, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.scaled_modified_bessel_k1(jg.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """

    name = "scaled_modified_bessel_k1"
    ufunc = special.scaled_modified_bessel_k1


@op
class AiryAi(_ByLibrary):
    """The Airy function Ai, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.airy_ai(jg.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """

    name = "airy_ai"
    ufunc = special.airy_ai


@op
class SphericalBesselJ0(_ByLibrary):
    """The spherical Bessel function of order 0, `sin(x) / x`, elementwise.

    >>> import jitgrad as jg
    >>> jg.special.spherical_bessel_j0(jg.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """

    name = "spherical_bessel_j0"
    ufunc = special.spherical_bessel_j0
