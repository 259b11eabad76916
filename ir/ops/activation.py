"""Activation functions, elementwise on floats. Half types are computed in float32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .. import dtypes, scalar, special
from ..builder import Builder
from ..errors import ArgumentError
from ..op import Array, Cotangents, Pointwise, Values, op
from ..scalar import Expr, Fn
from .broadcast import accumulator_dtype
from .formula import Term
from .math import Erf, Exp, Sigmoid, Tanh

__all__ = [
    "Elu", "Gelu", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyRelu", "LogSigmoid", "Mish", "Relu", "Silu",
    "Softplus",
]  # fmt: skip

_SQRT_HALF = math.sqrt(0.5)
_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)  # of the normal distribution
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_GELU_EXPONENT = 2 * _SQRT_2_OVER_PI, 2 * _SQRT_2_OVER_PI * 0.044715  # of x and x³


def _number(value: float, like: Expr) -> Expr:
    """A user's number."""
    return scalar.const(value, like.dtype, runtime=True)


_ZEROS = {np.dtype(t): np.zeros((), t) for t in (np.float32, np.float64)}


class _Activation(Pointwise):
    """A function of one float, given three times: in NumPy, as a scalar expression, and by its derivative."""

    promotes = "float"
    accepts: ClassVar[tuple[str, ...]] = ("float",)
    inplace = False
    fast = False

    def compute(self, x: Array) -> Array:
        """The function of a float32 or float64 array."""
        raise NotImplementedError

    def formula(self, x: Expr) -> Expr:
        """The function of a float32 or float64 element."""
        raise NotImplementedError

    def from_result(self) -> bool:
        """Whether the gradient is taken from the result and not from the operand."""
        return False

    def pull(self, g: Term, at: Term) -> Term:
        """The cotangent `g` times the derivative, given the operand (or the result, if `from_result`)."""
        raise NotImplementedError

    def reference(self, *operands: Array) -> Array:
        """`compute`, in float32 for the half types."""
        (x,) = operands
        wide = accumulator_dtype(dtypes.FROM_NUMPY[x.dtype]).np
        with np.errstate(all="ignore"):
            return np.asarray(self.compute(x.astype(wide, copy=False)), dtype=x.dtype)

    def scalar(self, *xs: Expr) -> Expr:
        """`formula`, in float32 for the half types."""
        (x,) = xs
        return scalar.convert(self.formula(scalar.convert(x, accumulator_dtype(x.dtype))), x.dtype)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """The cotangent times the derivative, in float32 for the half types."""
        (g,) = cotangents
        assert g is not None
        at = results[0] if self.from_result() else operands[0]
        wide = accumulator_dtype(at.type.dtype)
        pulled = self.pull(Term(b, g).convert(wide), Term(b, at).convert(wide))
        return (pulled.convert(at.type.dtype).value,)


@op
class Relu(_Activation):
    """max(x, 0), elementwise; NaN stays NaN. The derivative at 0 is 0.

    >>> import jitgrad as jg
    >>> jg.relu(jg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    name = "relu"
    public = ("relu",)
    promotes = "common"
    accepts = ("int", "float")
    inplace = True
    fast = True

    @staticmethod
    def ufunc(x: Array) -> Array:
        """`numpy.maximum` with 0, which as an array takes half the time of a Python number."""
        return np.maximum(x, _ZEROS.get(x.dtype, 0))

    def reference(self, *operands: Array) -> Array:
        """`ufunc`."""
        return self.ufunc(operands[0])

    def scalar(self, *xs: Expr) -> Expr:
        """The larger of the element and 0."""
        return scalar.maximum(xs[0], 0)

    def from_result(self) -> bool:
        """From the result: positive where the operand is."""
        return True

    def pull(self, g: Term, at: Term) -> Term:
        """The cotangent where the result is positive (or NaN)."""
        return (at <= 0).choose(0, g)


@op
class LeakyRelu(_Activation):
    """x where it is positive, else `negative_slope * x`."""

    negative_slope: float = 0.01
    name = "leaky_relu"
    copies_on_write = True

    def compute(self, x: Array) -> Array:
        """By `numpy.where`."""
        return np.where(x > 0, x, x * x.dtype.type(self.negative_slope))

    def formula(self, x: Expr) -> Expr:
        """A select."""
        return scalar.where(x > 0, x, x * _number(self.negative_slope, x))

    def from_result(self) -> bool:
        """From the result, where its sign tells the operand's."""
        return self.negative_slope >= 0

    def pull(self, g: Term, at: Term) -> Term:
        """The cotangent, times the slope where the operand was not positive."""
        return (at > 0).choose(g, g * self.negative_slope)


@op
class Elu(_Activation):
    """`scale` times: x where it is positive, else `alpha * (exp(input_scale * x) - 1)`.

    With scales of 1 it is ELU (Clevert et al. 2016, arXiv:1511.07289); SELU and CELU have others.
    """

    alpha: float = 1.0
    scale: float = 1.0
    input_scale: float = 1.0
    name = "elu"
    copies_on_write = True

    def compute(self, x: Array) -> Array:
        """By `numpy.expm1`."""
        number = x.dtype.type
        below = np.expm1(np.minimum(x, 0) * number(self.input_scale)) * number(self.alpha * self.scale)
        return np.where(x > 0, x * number(self.scale), below)

    def formula(self, x: Expr) -> Expr:
        """A select."""
        least = scalar.minimum(x, 0)
        if self.input_scale != 1:
            least = least * _number(self.input_scale, x)
        below = scalar.apply(Fn.EXPM1, least) * _number(self.alpha * self.scale, x)
        return scalar.where(x > 0, x if self.scale == 1 else x * _number(self.scale, x), below)

    def from_result(self) -> bool:
        """From the result, where its sign tells the operand's."""
        return self.alpha >= 0 and self.scale > 0

    def pull(self, g: Term, at: Term) -> Term:
        """`g scale`, or for negative operands `g alpha scale input_scale exp(input_scale x)`, from the result too."""
        peak = self.alpha * self.scale
        slope = at + peak if self.from_result() else peak * (at * self.input_scale).apply(Exp())
        if self.input_scale != 1:
            slope = slope * self.input_scale
        return (at > 0).choose(g if self.scale == 1 else g * self.scale, g * slope)


@op
class Gelu(_Activation):
    """x Φ(x), Φ being the normal distribution function (Hendrycks and Gimpel 2016, arXiv:1606.08415).

    `approximate` is "none", or "tanh" for `x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2`. That is computed as `x σ(2 u)`,
    u being what the hyperbolic tangent is of, which loses nothing beside 1.
    """

    approximate: str = "none"
    name = "gelu"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', not {self.approximate!r}")

    def compute(self, x: Array) -> Array:
        """The formula in NumPy."""
        one = x.dtype.type(1)
        if self.approximate == "none":
            return x * x.dtype.type(0.5) * (one + special.erf(x * x.dtype.type(_SQRT_HALF)))
        first, third = map(x.dtype.type, _GELU_EXPONENT)
        return x / (np.exp(x * (x * x * -third - first)) + one)

    def formula(self, x: Expr) -> Expr:
        """The formula."""
        if self.approximate == "none":
            return x * 0.5 * (scalar.apply(Fn.ERF, x * _SQRT_HALF) + 1.0)
        first, third = _GELU_EXPONENT
        return x / (scalar.exp(x * (x * x * -third - first)) + 1.0)

    def pull(self, g: Term, at: Term) -> Term:
        """`g (Φ(x) + x φ(x))`, or the derivative of the approximation."""
        x = at
        if self.approximate == "none":
            phi = 0.5 * ((x * _SQRT_HALF).apply(Erf()) + 1.0)
            density = (x * x * -0.5).apply(Exp()) * _DENSITY_AT_0
            return g * (phi + x * density)
        (first, third), square = _GELU_EXPONENT, x * x
        s = (x * (square * third + first)).apply(Sigmoid())
        return g * s * (1 + (1 - s) * x * (square * (3 * third) + first))


@op
class Silu(_Activation):
    """x σ(x), σ being the logistic function; also called swish."""

    name = "silu"

    def compute(self, x: Array) -> Array:
        """`x / (1 + exp(-x))`."""
        return x / (1 + np.exp(-x))

    def formula(self, x: Expr) -> Expr:
        """`x / (1 + exp(-x))`."""
        return x / (scalar.exp(-x) + 1.0)

    def pull(self, g: Term, at: Term) -> Term:
        """`g σ (1 + x (1 - σ))`."""
        s = at.apply(Sigmoid())
        return g * (s * (1 + at * (1 - s)))


def _log1p_exp_of_minus_abs(x: Expr) -> Expr:
    return scalar.apply(Fn.LOG1P, scalar.exp(-scalar.absolute(x)))


@op
class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta, and x itself where `beta x` is above `threshold`."""

    beta: float = 1.0
    threshold: float = 20.0
    name = "softplus"

    def compute(self, x: Array) -> Array:
        """Without overflow: `max(t, 0) + log1p(exp(-|t|))` of `t = beta x`."""
        t = x * x.dtype.type(self.beta)
        soft = (np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t)))) / x.dtype.type(self.beta)
        return np.where(t > self.threshold, x, soft)

    def formula(self, x: Expr) -> Expr:
        """The same."""
        beta = _number(self.beta, x)
        t = x * beta
        soft = (scalar.maximum(t, 0) + _log1p_exp_of_minus_abs(t)) / beta
        return scalar.where(t > _number(self.threshold, x), x, soft)

    def pull(self, g: Term, at: Term) -> Term:
        """`g σ(beta x)`, or `g` above the threshold."""
        t = at * self.beta
        return (t > self.threshold).choose(g, g * t.apply(Sigmoid()))


@op
class LogSigmoid(_Activation):
    """log σ(x), σ being the logistic function, without overflow or cancellation."""

    name = "log_sigmoid"

    def compute(self, x: Array) -> Array:
        """`min(x, 0) - log1p(exp(-|x|))`."""
        return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))

    def formula(self, x: Expr) -> Expr:
        """The same."""
        return scalar.minimum(x, 0) - _log1p_exp_of_minus_abs(x)

    def pull(self, g: Term, at: Term) -> Term:
        """`g σ(-x)`."""
        return g * (-at).apply(Sigmoid())


@op
class Hardtanh(_Activation):
    """x, limited to between `min_val` and `max_val`. The derivative at the limits is 0."""

    min_val: float = -1.0
    max_val: float = 1.0
    name = "hardtanh"
    copies_on_write = True

    def __post_init__(self) -> None:
        if not self.min_val <= self.max_val:
            raise ArgumentError(f"hardtanh: min_val {self.min_val} is above max_val {self.max_val}")

    def compute(self, x: Array) -> Array:
        """Minimum and maximum."""
        return np.minimum(np.maximum(x, x.dtype.type(self.min_val)), x.dtype.type(self.max_val))

    def formula(self, x: Expr) -> Expr:
        """Minimum and maximum."""
        return scalar.minimum(scalar.maximum(x, _number(self.min_val, x)), _number(self.max_val, x))

    def from_result(self) -> bool:
        """From the result, strictly between the limits where the operand is."""
        return True

    def pull(self, g: Term, at: Term) -> Term:
        """The cotangent strictly between the limits (or at NaN)."""
        return (at <= self.min_val).choose(0, (at >= self.max_val).choose(0, g))


@op
class Hardsigmoid(_Activation):
    """x / 6 + 1/2, limited to between 0 and 1."""

    name = "hardsigmoid"
    copies_on_write = True

    def compute(self, x: Array) -> Array:
        """`min(max(x + 3, 0), 6) / 6`."""
        return np.minimum(np.maximum(x + 3, 0), 6) / 6

    def formula(self, x: Expr) -> Expr:
        """The same."""
        return scalar.minimum(scalar.maximum(x + 3.0, 0.0), 6.0) / 6.0

    def from_result(self) -> bool:
        """From the result, strictly between 0 and 1 where the operand is between the limits."""
        return True

    def pull(self, g: Term, at: Term) -> Term:
        """A sixth of the cotangent between the limits."""
        return (at > 0).choose((at < 1).choose(g / 6, 0), 0)


@op
class Hardswish(_Activation):
    """x times hardsigmoid(x) (Howard et al. 2019, arXiv:1905.02244)."""

    name = "hardswish"

    def compute(self, x: Array) -> Array:
        """`x * min(max(x + 3, 0), 6) / 6`."""
        return x * np.minimum(np.maximum(x + 3, 0), 6) / 6

    def formula(self, x: Expr) -> Expr:
        """The same."""
        return x * scalar.minimum(scalar.maximum(x + 3.0, 0.0), 6.0) / 6.0

    def pull(self, g: Term, at: Term) -> Term:
        """0 below -3, `g` above 3, and `g (x / 3 + 1/2)` between."""
        return (at > -3).choose((at < 3).choose(g * (at / 3 + 0.5), g), 0)


@op
class Mish(_Activation):
    """x tanh(softplus(x)) (Misra 2019, arXiv:1908.08681)."""

    name = "mish"

    def compute(self, x: Array) -> Array:
        """The formula in NumPy."""
        return x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))

    def formula(self, x: Expr) -> Expr:
        """The formula."""
        return x * scalar.tanh(scalar.maximum(x, 0) + _log1p_exp_of_minus_abs(x))

    def pull(self, g: Term, at: Term) -> Term:
        """`g (t + x σ(x) (1 - t²))` with `t = tanh(softplus(x))`."""
        t = at.apply(Softplus()).apply(Tanh())
        return g * (t + at * at.apply(Sigmoid()) * (1 - t * t))
