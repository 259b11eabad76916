"""Special functions: `jitgrad.special`, with `torch.special`'s names.

Elementwise functions of floats; integers become the default dtype first. Those that PyTorch differentiates are
differentiable any number of times; the others (Bessel functions of the first and second kind, Airy's, orthogonal
polynomials) give results without gradients, as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops import bessel, normal, polynomial
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.gamma import Zeta
from jitgrad.ir.ops.logical import LogicalAnd
from jitgrad.ir.ops.math import Erfc, Log1p
from jitgrad.ir.ops.select import Where

from .dispatch import apply
from .functions import arithmetic as _arithmetic
from .functions import composed as _composed
from .functions import pointwise as _pointwise
from .functions import special as _special
from .functions import statistics as _statistics
from .functions.pointwise import Operand, broadcast, check_tensor, check_tensors, filled, operand, pointwise
from .functions.registry import FUNCTIONS, with_out
from .nn import functional as _functional
from .promotion import float_dtype, result_dtype
from .tensor import Tensor

_MODULES = (_arithmetic, _composed, _pointwise, _special, _statistics)  # they fill FUNCTIONS

digamma = psi = FUNCTIONS["digamma"]
erf = FUNCTIONS["erf"]
erfc = FUNCTIONS["erfc"]
erfinv = FUNCTIONS["erfinv"]
exp2 = FUNCTIONS["exp2"]
expit = FUNCTIONS["sigmoid"]
expm1 = FUNCTIONS["expm1"]
gammainc = FUNCTIONS["igamma"]
gammaincc = FUNCTIONS["igammac"]
gammaln = FUNCTIONS["lgamma"]
i0 = modified_bessel_i0 = FUNCTIONS["i0"]
log1p = FUNCTIONS["log1p"]
logit = FUNCTIONS["logit"]
logsumexp = FUNCTIONS["logsumexp"]
multigammaln = FUNCTIONS["mvlgamma"]
polygamma = FUNCTIONS["polygamma"]
round = FUNCTIONS["round"]
sinc = FUNCTIONS["sinc"]
xlogy = FUNCTIONS["xlogy"]


def _of_one(op: Pointwise) -> Callable[..., Any]:
    """The function of an op with one operand."""

    def function(input: Tensor) -> Tensor:
        return pointwise(op, check_tensor(input, op.name))

    return _named(function, op)


def _polynomial(op: Pointwise) -> Callable[..., Any]:
    """The function of a polynomial: a place and a degree, one of which may be a number."""

    def function(input: Operand, n: Operand) -> Tensor:
        check_tensors(op.name, input, n, "either")
        return pointwise(op, input, n)

    return _named(function, op)


def _named(function: Callable[..., Any], op: Pointwise) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = type(op).__doc__
    return with_out(function)


airy_ai = _of_one(bessel.AiryAi())
bessel_j0 = _of_one(bessel.BesselJ0())
bessel_j1 = _of_one(bessel.BesselJ1())
bessel_y0 = _of_one(bessel.BesselY0())
bessel_y1 = _of_one(bessel.BesselY1())
entr = _of_one(normal.Entr())
erfcx = _of_one(normal.Erfcx())
i0e = _of_one(bessel.I0e())
i1 = _of_one(bessel.I1())
modified_bessel_i1 = _of_one(bessel.ModifiedBesselI1())
i1e = _of_one(bessel.I1e())
log_ndtr = _of_one(normal.LogNdtr())
modified_bessel_k0 = _of_one(bessel.ModifiedBesselK0())
modified_bessel_k1 = _of_one(bessel.ModifiedBesselK1())
ndtri = _of_one(normal.Ndtri())
scaled_modified_bessel_k0 = _of_one(bessel.ScaledModifiedBesselK0())
scaled_modified_bessel_k1 = _of_one(bessel.ScaledModifiedBesselK1())
spherical_bessel_j0 = _of_one(bessel.SphericalBesselJ0())

chebyshev_polynomial_t = _polynomial(polynomial.ChebyshevT())
chebyshev_polynomial_u = _polynomial(polynomial.ChebyshevU())
chebyshev_polynomial_v = _polynomial(polynomial.ChebyshevV())
chebyshev_polynomial_w = _polynomial(polynomial.ChebyshevW())
hermite_polynomial_h = _polynomial(polynomial.HermiteH())
hermite_polynomial_he = _polynomial(polynomial.HermiteHe())
laguerre_polynomial_l = _polynomial(polynomial.LaguerreL())
legendre_polynomial_p = _polynomial(polynomial.LegendreP())
shifted_chebyshev_polynomial_t = _polynomial(polynomial.ShiftedChebyshevT())
shifted_chebyshev_polynomial_u = _polynomial(polynomial.ShiftedChebyshevU())
shifted_chebyshev_polynomial_v = _polynomial(polynomial.ShiftedChebyshevV())
shifted_chebyshev_polynomial_w = _polynomial(polynomial.ShiftedChebyshevW())


@with_out
def zeta(input: Operand, other: Operand) -> Tensor:
    """The Hurwitz zeta function `sum((k + other)**-input for k from 0 on)`, elementwise; one may be a number.

    Infinite for `input` 1 and where `other` is a whole number up to 0; NaN for `input` below 1. Differentiable in
    `other`.

    >>> import jitgrad as jg
    >>> jg.special.zeta(jg.tensor([2.0]), 1)
    tensor([1.6449])
    """
    check_tensors("zeta", input, other, "either")
    return pointwise(Zeta(), input, other)


@with_out
def ndtr(input: Tensor) -> Tensor:
    """The normal distribution function, elementwise: the probability of being below `input`.

    >>> import jitgrad as jg
    >>> jg.special.ndtr(jg.tensor([0.0, 1.96]))
    tensor([0.5000, 0.9750])
    """
    tail = pointwise(Erfc(), pointwise(Mul(), check_tensor(input, "ndtr"), -math.sqrt(0.5)))
    return pointwise(Mul(), tail, 0.5)


@with_out
def xlog1py(input: Operand, other: Operand) -> Tensor:
    """`input * log1p(other)`, elementwise; 0 where `input` is 0 and `other` is not NaN.

    >>> import jitgrad as jg
    >>> jg.special.xlog1py(jg.tensor([0.0, 1.0]), jg.tensor([-1.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    check_tensors("xlog1py", input, other, "either")
    given = [operand(x, "xlog1py", i) for i, x in enumerate((input, other), 1)]
    x, y = broadcast("xlog1py", float_dtype(result_dtype(*given)), *given)
    zero = filled(x._data.shape, x.dtype, 0)
    empty = apply(LogicalAnd(), apply(Eq(), x, zero), apply(Eq(), y, y))
    return apply(Mul(), x, apply(Log1p(), apply(Where(), empty, zero, y)))


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """`exp(input)` over its sum along `dim`.

    >>> import jitgrad as jg
    >>> jg.special.softmax(jg.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _functional.softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """`log(softmax(input))` along `dim`.

    >>> import jitgrad as jg
    >>> jg.special.log_softmax(jg.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return _functional.log_softmax(input, dim, dtype=dtype)
