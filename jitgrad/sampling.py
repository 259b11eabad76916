"""Numbers drawn from distributions: functions of their parameters, and methods that fill a tensor in place.

All of them turn the uniform or normal numbers of `random` into others, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentTypeError, DTypeError, OperationError
from jitgrad.ir.ops.arithmetic import Div, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.check import CheckBetween, CheckPositiveSum
from jitgrad.ir.ops.comparison import Le, Lt
from jitgrad.ir.ops.math import Exp, Log1p
from jitgrad.ir.ops.quantile_functions import BinomialQuantile, GammaQuantile, PoissonQuantile
from jitgrad.ir.ops.random import RandomNormal, RandomUniform
from jitgrad.ir.ops.rounding import Ceil
from jitgrad.ir.ops.scan import CumSum
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.ops.sorting import Sort
from jitgrad.ir.ops.trigonometry import Tan

from .aliasing import check_writable, replace_plainly, write
from .device import as_device
from .dispatch import apply, apply_all
from .errors import located
from .functions.dims import sizes
from .functions.pointwise import broadcast_shape, check_tensor, convert, expand, filled, pointwise
from .functions.registry import public, write_out
from .hot_path import hot
from .random import Generator, draw, float_dtype, integers, sample
from .tensor import Tensor


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise located(OperationError(message))


def _wide(x: Tensor) -> Tensor:
    """`x` in float64, apart from its history."""
    return convert(x.detach(), dtypes.float64)  # type: ignore[attr-defined]


def _floats(name: str, x: Any) -> Tensor:
    t = check_tensor(x, name)
    if not t.dtype.is_floating_point:
        raise located(DTypeError(f"{name}: not implemented for {t.dtype.name}; a floating point dtype is needed"))
    return t


# ------------------------------------------------------------------------------------------------- functions


@public()
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Ones and zeros: one with the probability that `input` has there, or `p`.

    >>> import jitgrad as jg
    >>> jg.bernoulli(jg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    x = check_tensor(input, "bernoulli")
    if p is None:
        made = _coins("bernoulli", _floats("bernoulli", x), generator)
    else:
        made = _coins("bernoulli", _chances("bernoulli", p, tuple(x.shape)), generator)
    if out is not None:  # of any dtype
        return write_out(convert(made, out.dtype), out, "bernoulli", warn=False)
    return convert(made, x.dtype)


def _coins(name: str, chances: Tensor, generator: Generator | None) -> Tensor:
    """True with the probabilities `chances`, which are checked."""
    wide = apply(CheckBetween(name, "p", 0.0, 1.0), _wide(chances))
    return apply(Lt(), draw(RandomUniform(tuple(chances.shape), dtypes.float64), generator, chances), wide)


def _chances(name: str, p: Any, shape: tuple[int, ...]) -> Tensor:
    if isinstance(p, Tensor):
        return expand(_wide(p), shape)
    _require(0.0 <= p <= 1.0, f"{name} expects p to be in [0, 1], but got p={p}")
    return filled(shape, dtypes.float64, p)


@public(method=False)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: DType | None = None, device: Any = None, layout: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers, with `mean` and `std` for each element, or two numbers and a `size`.

    >>> import jitgrad as jg
    >>> jg.normal(jg.zeros(3), 1.0).shape
    jitgrad.Size([3])
    """
    as_device(device)
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if isinstance(std, Tensor):
        if std.dtype.is_complex:
            raise located(DTypeError("normal expects standard deviation to be non-complex"))
        std = apply(CheckBetween("normal", "std", 0.0, math.inf), std.detach())  # type: ignore[attr-defined]
    else:
        _require(std >= 0, f"normal expects std >= 0.0, but found std {std}")
    if not given and size is None:
        raise located(ArgumentTypeError("normal: size is missing"))
    shape = broadcast_shape("normal", given) if given else sizes((size,), "normal: size")
    want = float_dtype("normal", given[0].dtype if given else dtype)
    center = mean.detach() if isinstance(mean, Tensor) else mean  # type: ignore[attr-defined]
    made = convert(_scaled(sample("normal", RandomNormal, shape, want, generator), std, center), want)
    if out is not None:
        return write_out(made, out, "normal", warn=bool(given))
    return made.requires_grad_() if requires_grad else made


def _scaled(x: Tensor, factor: Any, offset: Any) -> Tensor:
    return x * factor + offset  # type: ignore[operator, no-any-return]


@public(out="exact")
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn with the probabilities that each row of `input` is proportional to.

    Without replacement no index comes twice (exponential races: Efraimidis and Spirakis, 2006).

    >>> import jitgrad as jg
    >>> jg.multinomial(jg.tensor([0.0, 1.0, 0.0]), 1)
    tensor([1])
    """
    x = check_tensor(input, "multinomial")
    _require(x.ndim in (1, 2), "prob_dist must be 1 or 2 dim")
    _require(
        x.dtype.is_floating_point,
        f"multinomial only supports floating-point dtypes for input, got: {x.dtype.name}",
    )
    count = x.shape[-1]
    _require(num_samples > 0, "cannot sample n_sample <= 0 samples")
    _require(
        replacement or num_samples <= count, "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    )
    weights = apply(CheckBetween("multinomial", "the probabilities", 0.0, 1.7976931348623157e308), _wide(x))
    weights = apply(CheckPositiveSum("multinomial"), weights)
    if not replacement:
        return _without_replacement(weights, num_samples, generator)
    axis, rest = x.ndim - 1, tuple(x.shape[:-1])
    bounds = apply(CumSum(axis), weights)
    total = apply(Slice((0,) * axis + (count - 1,), (*rest, 1), (1,) * x.ndim), bounds)
    uniform = draw(RandomUniform((*rest, num_samples), dtypes.float64), generator, weights)
    aims = apply(Reshape((*uniform.shape, 1)), pointwise(Mul(), uniform, total))
    passed = pointwise(Le(), apply(Reshape((*rest, 1, count)), bounds), aims)
    return apply(Sum((x.ndim,), False), convert(passed, dtypes.int64))


def _without_replacement(weights: Tensor, num_samples: int, generator: Generator | None) -> Tensor:
    shape, rank = tuple(weights.shape), weights.ndim
    uniform = draw(RandomUniform(shape, dtypes.float64), generator, weights)
    race = pointwise(Div(), apply(Log1p(), pointwise(Mul(), uniform, -1.0)), pointwise(Mul(), weights, -1.0))
    order = apply_all(Sort(rank - 1), race)[1]
    return apply(Slice((0,) * rank, (*shape[:-1], num_samples), (1,) * rank), order)


@public(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers drawn from Poisson's distribution with the rates `input`, by inverting its distribution function.

    >>> import jitgrad as jg
    >>> jg.poisson(jg.zeros(2))
    tensor([0., 0.])
    """
    rates = apply(CheckBetween("poisson", "the rates", 0.0, math.inf), _wide(_floats("poisson", input)))
    uniform = draw(RandomUniform(tuple(rates.shape), dtypes.float64), generator, rates)
    return convert(apply(PoissonQuantile(), uniform, rates), input.dtype)


@public(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`; both are broadcast.

    >>> import jitgrad as jg
    >>> jg.binomial(jg.tensor([3.0]), jg.tensor([1.0]))
    tensor([3.])
    """
    trials, chances = _floats("binomial", count), _floats("binomial", prob)
    _require(
        trials.dtype is chances.dtype,
        f"Found dtype {chances.dtype.name} but expected {trials.dtype.name}: binomial: count and prob must agree",
    )
    shape = broadcast_shape("binomial", [trials, chances])
    n = apply(CheckBetween("binomial", "count", 0.0, math.inf), expand(_wide(trials), shape))
    p = apply(CheckBetween("binomial", "prob", 0.0, 1.0), expand(_wide(chances), shape))
    uniform = draw(RandomUniform(shape, dtypes.float64), generator, p)
    return convert(apply(BinomialQuantile(), uniform, n, p), trials.dtype)


@public("_standard_gamma", method=False)
def standard_gamma(alpha: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers drawn from gamma distributions of shape `alpha` and scale 1; no gradient flows to `alpha`."""
    shape = apply(CheckBetween("_standard_gamma", "alpha", 0.0, math.inf), _wide(_floats("_standard_gamma", alpha)))
    uniform = draw(RandomUniform(tuple(shape.shape), dtypes.float64), generator, shape)
    return convert(apply(GammaQuantile(), uniform, shape), alpha.dtype)


# --------------------------------------------------------------------------------------------------- in place


def _fill(self: Tensor, name: str, make: Callable[[], Tensor]) -> Tensor:
    """Overwrite `self` with what `make` gives, after the checks of in-place writes."""
    check_writable(self, name)
    value = make()
    return self if replace_plainly(self, value) else write(self, convert(value, self.dtype), name)


def _uniform(self: Tensor, dtype: DType, generator: Generator | None) -> Tensor:
    return draw(RandomUniform(tuple(self.shape), dtype), generator, self)


def _real(self: Tensor, name: str) -> DType:
    if not self.dtype.is_floating_point:
        raise located(DTypeError(f"{name} not implemented for {self.dtype.name}; a floating point dtype is needed"))
    return self.dtype


# What methods fill with is native where they are called often; `like` tells shape, dtype and device.


@hot
def _uniforms(like: Tensor, least: float, most: float, generator: Generator | None) -> Tensor:
    x = sample("uniform_", RandomUniform, like._data.shape, like.dtype, generator, like)
    return x if (least, most) == (0.0, 1.0) else _scaled(x, float(most - least), float(least))


@hot
def _normals(like: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    return _scaled(sample("normal_", RandomNormal, like._data.shape, like.dtype, generator, like), std, mean)


@hot
def _log_normals(like: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    drawn = draw(RandomNormal(tuple(like.shape), like.dtype), generator, like)
    return apply(Exp(), _scaled(drawn, float(std), float(mean)))


@hot
def _flips(like: Tensor, p: float, generator: Generator | None) -> Tensor:
    return convert(_coins("bernoulli_", _chances("bernoulli_", p, tuple(like.shape)), generator), like.dtype)


@hot
def _exponentials(like: Tensor, rate: float, generator: Generator | None) -> Tensor:
    x = apply(Log1p(), pointwise(Mul(), _uniform(like, like.dtype, generator), -1.0))
    return pointwise(Mul(), x, -1.0 / rate)


@hot
def _cauchys(like: Tensor, median: float, sigma: float, generator: Generator | None) -> Tensor:
    angle = _scaled(_uniform(like, like.dtype, generator), math.pi, -0.5 * math.pi)
    return _scaled(apply(Tan(), angle), float(sigma), float(median))


@hot
def _trials(like: Tensor, p: float, generator: Generator | None) -> Tensor:
    failures = apply(Log1p(), pointwise(Mul(), _uniform(like, dtypes.float64, generator), -1.0))
    trials = apply(Ceil(), pointwise(Mul(), failures, 1.0 / math.log1p(-p)))
    return convert(trials.clamp(min=1.0), like.dtype)  # type: ignore[attr-defined]


@public(function=False)
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn evenly from `from_` to `to`."""
    _require(from_ <= to, f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
    float_dtype("uniform_", self.dtype)
    return _fill(self, "uniform_", lambda: _uniforms(self, from_, to, generator))


@public(function=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn from the normal distribution of that mean and standard deviation."""
    _require(std >= 0, f"normal expects std >= 0.0, but found std {std}")
    float_dtype("normal_", self.dtype)
    return _fill(self, "normal_", lambda: _normals(self, mean, std, generator))


@public(function=False)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithms are normal, of that mean and standard deviation."""
    _require(std > 0, f"log_normal_ expects std > 0.0, but found std={std}")
    _real(self, "log_normal_")
    return _fill(self, "log_normal_", lambda: _log_normals(self, mean, std, generator))


@public(function=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones, with probability `p` (a number or a tensor), and zeros."""
    if not isinstance(p, Tensor):
        return _fill(self, "bernoulli_", lambda: _flips(self, p, generator))
    chances = _chances("bernoulli_", p, tuple(self.shape))
    return _fill(self, "bernoulli_", lambda: _coins("bernoulli_", chances, generator))


@public(function=False)
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fill with integers drawn evenly from `from_` (0) to `to - 1` (what the dtype holds)."""
    if self.dtype.is_complex:
        raise located(DTypeError(f"random_ not implemented for {self.dtype.name}"))
    low, high = (0, from_) if to is None and from_ is not None else (from_ or 0, to)
    if high is not None:
        _require(low < high, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        if self.dtype.kind in ("int", "bool"):
            least = int(np.iinfo(self.dtype.np).min) if self.dtype.kind == "int" else 0
            for what, n in (("from", low), ("to - 1", high - 1)):
                _require(least <= n <= _largest(self.dtype), f"{what} is out of bounds for {self.dtype.name}")
    end = _largest(self.dtype) + 1 if high is None else high
    return _fill(self, "random_", lambda: integers(low, end, tuple(self.shape), self.dtype, generator))


def _largest(dtype: DType) -> int:
    """The largest integer up to which `dtype` holds all of them."""
    if dtype.is_differentiable:
        return 1 << int(ml_dtypes.finfo(dtypes.to_real(dtype).np).nmant + 1)
    return 1 if dtype.kind == "bool" else int(np.iinfo(dtype.np).max)


@public(function=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn from the exponential distribution of rate `lambd`."""
    _require(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _real(self, "exponential_")
    return _fill(self, "exponential_", lambda: _exponentials(self, lambd, generator))


@public(function=False)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn from Cauchy's distribution of that median and scale."""
    _require(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _real(self, "cauchy_")
    return _fill(self, "cauchy_", lambda: _cauchys(self, median, sigma, generator))


@public(function=False)
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with how many trials there are up to the first success, each succeeding with probability `p`."""
    _require(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p}")
    if self.dtype.kind not in ("int", "float"):
        raise located(DTypeError(f"geometric_ not implemented for {self.dtype.name}"))
    return _fill(self, "geometric_", lambda: _trials(self, p, generator))
