"""The gamma function's logarithm, its derivatives, the zeta function and the incomplete gamma functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import approximations, single_precision, special
from ..builder import Builder
from ..errors import AutogradError
from ..graph import Value
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr, Fn
from ..types import TensorType
from .formula import Term
from .math import Exp, Log, SmoothPointwise
from .special_function import SinglePrecisionFunction, SpecialFunction

__all__ = ["Digamma", "Igamma", "Igammac", "Lgamma", "Polygamma", "Zeta"]


@op
class Lgamma(SmoothPointwise):
    """The logarithm of |gamma(x)|, elementwise; infinite at 0, -1, -2, ...

    >>> import jitgrad as jg
    >>> jg.lgamma(jg.tensor([1.0, 3.0]))
    tensor([0.0000, 0.6931])
    """

    name = "lgamma"
    quick = False
    public = ("lgamma",)
    accepts: ClassVar[tuple[str, ...]] = ("float",)
    ufunc = special.lgamma
    fn = Fn.LGAMMA

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """digamma(x)."""
        return b(Digamma(), x)


@op
class Digamma(SinglePrecisionFunction):
    """The derivative of log gamma, elementwise; minus infinity at 0 (plus, at -0), NaN at -1, -2, ...

    >>> import jitgrad as jg
    >>> jg.digamma(jg.tensor([1.0, 0.5]))
    tensor([-0.5772, -1.9635])
    """

    name = "digamma"
    public = ("digamma",)
    ufunc = special.digamma

    def formula(self, x: Expr) -> Expr:
        """By the recurrence and the asymptotic series."""
        return approximations.digamma(x)

    def single(self, x: Expr) -> Expr:
        """The same in float32."""
        return single_precision.digamma(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """The trigamma function."""
        return b(Polygamma(1), x)


@op
class Polygamma(SpecialFunction):
    """The `n`-th derivative of digamma, elementwise, for `n` from 1 on."""

    n: int
    name = "polygamma"
    fast = False

    def reference(self, *operands: Array) -> Array:
        """By the zeta function."""
        return special.polygamma(self.n, operands[0])

    def can_emit(self, *operands: TensorType) -> bool:
        """The first derivative alone; others run by SciPy."""
        return self.n == 1

    def formula(self, x: Expr) -> Expr:
        """The trigamma function."""
        return approximations.trigamma(x)

    def derivative(self, b: Builder, x: Value, y: Value) -> Value:
        """The next one."""
        return b(Polygamma(self.n + 1), x)


class _HostPair(Pointwise):
    """Two float operands, by SciPy."""

    arity = 2
    promotes = "float"
    accepts = ("float",)
    inplace = False

    def can_emit(self, *operands: TensorType) -> bool:
        """Never: it runs by SciPy."""
        return False


@op
class Zeta(_HostPair):
    """The Hurwitz zeta function `sum((k + q)**-x for k from 0 on)`, elementwise.

    Infinite at `x = 1` and where `q` is a whole number up to 0; NaN for `x < 1`. Differentiable in `q`.

    >>> import jitgrad as jg
    >>> jg.special.zeta(jg.tensor([2.0]), 1)
    tensor([1.6449])
    """

    name = "zeta"
    ufunc = special.zeta
    fast = False

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`-x zeta(x + 1, q)` for the second operand."""
        if needs[0]:
            raise AutogradError("zeta: the derivative for the first argument is not implemented.")
        (g,) = cotangents
        assert g is not None
        x = Term(b, operands[0])
        return None, (-(Term(b, g) * x) * Term(b, b(self, (x + 1.0).value, operands[1]))).value


class _IncompleteGamma(_HostPair):
    inplace = True
    numbers = "none"
    fast = False
    sign: ClassVar[float]

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """`x^(a-1) exp(-x) / gamma(a)` for the second operand, or its negative."""
        if needs[0]:
            raise AutogradError(f"{self.name}: the derivative for the first argument is not implemented.")
        (g,) = cotangents
        assert g is not None
        a, x = (Term(b, v) for v in operands)
        density = ((a - 1.0) * x.apply(Log()) - x - a.apply(Lgamma())).apply(Exp())
        return None, (Term(b, g) * density * self.sign).value


@op
class Igamma(_IncompleteGamma):
    """The regularised lower incomplete gamma function of `a` and `x`, elementwise. Differentiable in `x`.

    >>> import jitgrad as jg
    >>> jg.igamma(jg.tensor([1.0]), jg.tensor([1.0]))
    tensor([0.6321])
    """

    name = "igamma"
    public = ("igamma",)
    ufunc = special.gammainc
    sign = 1.0


@op
class Igammac(_IncompleteGamma):
    """The regularised upper incomplete gamma function of `a` and `x`, elementwise. Differentiable in `x`.

    >>> import jitgrad as jg
    >>> jg.igammac(jg.tensor([1.0]), jg.tensor([1.0]))
    tensor([0.3679])
    """

    name = "igammac"
    public = ("igammac",)
    ufunc = special.gammaincc
    sign = -1.0
