"""Random numbers: generators and what is drawn from them.

A `Generator` is a seed and an offset, the number of Philox counters used so far. Every function here takes
the next ones in program order; an element's value depends on seed, offset and place alone, so that eager and
compiled runs agree whatever the number of threads.
"""

from __future__ import annotations

import math
import os
from typing import Any

import ml_dtypes
import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Add, Div, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import Le, Lt
from jitgrad.ir.ops.math import Log1p
from jitgrad.ir.ops.random import RandomInt, RandomNormal, RandomOp, RandomUniform
from jitgrad.ir.ops.scan import CumSum
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.ops.sorting import Sort

from .aliasing import check_writable, write
from .creation import check_dtype
from .device import as_device
from .dispatch import apply, apply_all
from .errors import located
from .functions.dims import sizes
from .functions.pointwise import broadcast_shape, check_tensor, convert, expand, filled, pointwise
from .functions.registry import public, write_out
from .mode import local
from .tensor import Tensor, to_array, wrap

_DEFAULT_SEED = 67280421310721  # PyTorch's
_SPAN = 1 << 64


def _signed(seed: int) -> int:
    """`seed` modulo 2**64 as an int64."""
    seed %= _SPAN
    return seed - _SPAN if seed >= _SPAN // 2 else seed


def _end_trace() -> None:
    """A stream that starts anew is not part of a graph."""
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.materialise("a random generator was given another state")


class Generator:
    """A stream of random numbers: a seed and how many counters have been used.

    >>> import jitgrad as jg
    >>> g = jg.Generator().manual_seed(3)
    >>> bool((jg.rand(2, generator=g) == jg.rand(2, generator=jg.Generator().manual_seed(3))).all())
    True
    """

    __slots__ = ("__weakref__", "offset", "seed_value")

    def __init__(self, device: Any = None) -> None:
        as_device(device)
        self.seed_value = _DEFAULT_SEED
        self.offset = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` anew."""
        _end_trace()
        if not -_SPAN // 2 <= seed < _SPAN:
            raise located(ArgumentError(f"Overflow when attempting to convert a seed: {seed} is not a 64-bit number"))
        self.seed_value = _signed(int(seed))
        self.offset = 0
        return self

    def seed(self) -> int:
        """Start the stream of a seed that nobody can predict, and return that."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.initial_seed()

    def initial_seed(self) -> int:
        """The seed, from 0 to 2**64 - 1."""
        return self.seed_value % _SPAN

    def get_state(self) -> Tensor:
        """Seed and offset, for `set_state`."""
        return wrap(np.array([self.seed_value, self.offset], np.int64).view(np.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on where a stream was when `get_state` was called."""
        _end_trace()
        state = to_array(new_state)
        if state.dtype != np.uint8 or state.shape != (16,):
            raise located(ArgumentTypeError("set_state: a state from get_state is needed"))
        self.seed_value, self.offset = (int(x) for x in state.view(np.int64))
        return self

    def clone_state(self) -> Generator:
        """A generator that goes on as this one will."""
        other = Generator()
        other.seed_value, other.offset = self.seed_value, self.offset
        return other

    @property
    def device(self) -> Any:
        """The CPU."""
        return as_device(None)

    def __repr__(self) -> str:
        return f"<jitgrad.Generator seed={self.initial_seed()} offset={self.offset}>"


default_generator = Generator()


def random_state(generator: Generator | None, draws: int) -> tuple[Tensor, Tensor]:
    """Seed and offset as 0-d int64 tensors, for an op that takes `draws` counters, now used up."""
    source = default_generator if generator is None else generator
    tracer = local.mode.tracer
    if tracer is not None:
        return tracer.random_state(source, draws)
    state = np.array([source.seed_value, source.offset], np.int64)
    source.offset += draws
    return wrap(state[0:1].reshape(())), wrap(state[1:2].reshape(()))


def draw(op: RandomOp, generator: Generator | None = None) -> Tensor:
    """What `op` draws from the generator's next counters."""
    return apply(op, *random_state(generator, op.draws))


@public(method=False)
def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed` anew, and return that generator.

    >>> import jitgrad as jg
    >>> jg.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(int(seed))


@public(method=False)
def seed() -> int:
    """Seed the default generator with a number that nobody can predict, and return that."""
    return default_generator.seed()


@public(method=False)
def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


@public(method=False)
def get_rng_state() -> Tensor:
    """The default generator's state."""
    return default_generator.get_state()


@public(method=False)
def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state to one that `get_rng_state` gave."""
    default_generator.set_state(new_state)


# ----------------------------------------------------------------------------------------------- new tensors


def _float_dtype(name: str, dtype: DType | None, otherwise: DType | None = None) -> DType:
    want = check_dtype(dtype, otherwise or local.mode.default_dtype)
    if not want.is_differentiable:
        raise located(DTypeError(f"{name}: not implemented for {want.name}; a floating point dtype is needed"))
    return want


def _sample(name: str, cls: type[RandomOp], shape: tuple[int, ...], dtype: DType, g: Generator | None) -> Tensor:
    """Floats, or complex numbers of independent parts."""
    if any(n < 0 for n in shape):
        raise located(ShapeError(f"{name}: negative dimension in {list(shape)}"))
    if not dtype.is_complex:
        return draw(cls(shape, dtype), g)
    real, imag = (draw(cls(shape, dtypes.to_real(dtype)), g) for _ in range(2))
    made = pointwise(Add(), real, pointwise(Mul(), convert(imag, dtype), 1j))
    return pointwise(Mul(), made, math.sqrt(0.5)) if cls is RandomNormal else made


def _sampled(
    name: str, cls: Any, size: Any, dtype: DType | None, generator: Generator | None, requires_grad: bool,
    out: Tensor | None,
) -> Tensor:  # fmt: skip
    made = _sample(name, cls, sizes(size, f"{name}: size"), _float_dtype(name, dtype), generator)
    if out is not None:
        return write_out(made, out, name, warn=False)
    return made.requires_grad_() if requires_grad else made


@public(method=False)
def rand(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Numbers drawn evenly from [0, 1).

    >>> import jitgrad as jg
    >>> jg.rand(2, 3).shape
    jitgrad.Size([2, 3])
    """
    as_device(device)
    return _sampled("rand", RandomUniform, size, dtype, generator, requires_grad, out)


@public(method=False)
def randn(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Numbers drawn from the normal distribution of mean 0 and variance 1.

    >>> import jitgrad as jg
    >>> jg.randn(2, 3).shape
    jitgrad.Size([2, 3])
    """
    as_device(device)
    return _sampled("randn", RandomNormal, size, dtype, generator, requires_grad, out)


@public(method=False)
def rand_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    generator: Generator | None = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """`rand` in the shape and dtype of `input`."""
    return rand(tuple(input.shape), dtype=check_dtype(dtype, input.dtype), device=device,
                requires_grad=requires_grad, generator=generator)  # fmt: skip


@public(method=False)
def randn_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    generator: Generator | None = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """`randn` in the shape and dtype of `input`."""
    return randn(tuple(input.shape), dtype=check_dtype(dtype, input.dtype), device=device,
                 requires_grad=requires_grad, generator=generator)  # fmt: skip


def _integers(low: int, high: int, shape: tuple[int, ...], dtype: DType, g: Generator | None) -> Tensor:
    if low >= high:
        raise located(OperationError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"))
    direct = dtype if dtype.kind == "int" else dtypes.int64
    return convert(draw(RandomInt(shape, low, high, direct), g), dtype)


@public(method=False)
def randint(
    *args: Any, low: int = 0, high: int | None = None, size: Any = None, generator: Generator | None = None,
    dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers drawn evenly from `low` to `high - 1`: `randint(high, size)` or `randint(low, high, size)`.

    >>> import jitgrad as jg
    >>> jg.randint(3, (2, 2)).shape
    jitgrad.Size([2, 2])
    """
    as_device(device)
    given = list(args)
    if size is None:
        if not given:
            raise located(ArgumentTypeError("randint: size is missing"))
        size = given.pop()
    if len(given) == 2:
        low, high = given
    elif given:
        low, high = (low, given[0]) if high is None else (given[0], high)
    if high is None:
        raise located(ArgumentTypeError("randint: high is missing"))
    made = _integers(int(low), int(high), sizes((size,), "randint: size"), check_dtype(dtype, dtypes.int64), generator)
    return made.requires_grad_() if requires_grad else made


@public(method=False)
def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """`randint` in the shape and dtype of `input`."""
    as_device(device)
    bounds = (0, low) if high is None else (low, high)
    return _integers(*bounds, tuple(input.shape), check_dtype(dtype, input.dtype), None)


@public(method=False)
def randperm(
    n: int, *, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers from 0 to `n - 1` in random order.

    >>> import jitgrad as jg
    >>> jg.randperm(5).shape
    jitgrad.Size([5])
    """
    as_device(device)
    if n < 0:
        raise located(OperationError(f"randperm: n must be non-negative, not {n}"))
    keys = draw(RandomInt((n,), -(1 << 63), 1 << 63), generator)
    made = convert(apply_all(Sort(0), keys)[1], check_dtype(dtype, dtypes.int64))
    return made.requires_grad_() if requires_grad else made


# ---------------------------------------------------------------------------------------------- distributions


def _check_probability(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise located(OperationError(f"{name} expects p to be in [0, 1], but got p={p}"))


@public()
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Ones and zeros: one with the probability that `input` has there, or `p`.

    >>> import jitgrad as jg
    >>> jg.bernoulli(jg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    x = check_tensor(input, "bernoulli")
    shape = tuple(x.shape)
    if p is not None:
        _check_probability("bernoulli", p)
        chances = filled(shape, dtypes.float64, p)
    else:
        if not x.dtype.is_floating_point:
            raise located(DTypeError(f"bernoulli: not implemented for {x.dtype.name}"))
        chances = convert(x.detach(), dtypes.float64)  # type: ignore[attr-defined]
    made = convert(apply(Lt(), draw(RandomUniform(shape, dtypes.float64), generator), chances), x.dtype)
    return made if out is None else write_out(made, out, "bernoulli", warn=False)


@public(method=False)
def normal(
    mean: Tensor | float, std: Tensor | float = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: DType | None = None, device: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers, with `mean` and `std` for each element, or two numbers and a `size`.

    >>> import jitgrad as jg
    >>> jg.normal(jg.zeros(3), 1.0).shape
    jitgrad.Size([3])
    """
    as_device(device)
    if not isinstance(std, Tensor) and std < 0:
        raise located(OperationError(f"normal expects std >= 0.0, but found std {std}"))
    if size is not None:
        shape = sizes((size,), "normal: size")
        want = _float_dtype("normal", dtype)
    else:
        given = [x for x in (mean, std) if isinstance(x, Tensor)]
        if not given:
            raise located(ArgumentTypeError("normal: size is missing"))
        shape, want = broadcast_shape("normal", given), _float_dtype("normal", None, given[0].dtype)
    made = _sample("normal", RandomNormal, shape, want, generator)
    made = pointwise(Add(), pointwise(Mul(), made, std), mean)
    return made if out is None else write_out(made, out, "normal", warn=False)


@public()
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
    if not x.dtype.is_floating_point or x.ndim not in (1, 2):
        raise located(OperationError(f"multinomial: probabilities must be floats in 1 or 2 dimensions, not {x.type_}"))
    count = x.shape[-1]
    if num_samples < 1 or (num_samples > count and not replacement):
        raise located(OperationError(f"multinomial: cannot sample {num_samples} of {count} without replacement"))
    weights = convert(x.detach(), dtypes.float64)  # type: ignore[attr-defined]
    axis = x.ndim - 1
    if not replacement:
        uniform = draw(RandomUniform(tuple(x.shape), dtypes.float64), generator)
        race = pointwise(Div(), apply(Log1p(), pointwise(Mul(), uniform, -1.0)), pointwise(Mul(), weights, -1.0))
        order = apply_all(Sort(axis), race)[1]
        return apply(Slice((0,) * x.ndim, (*x.shape[:-1], num_samples), (1,) * x.ndim), order)
    bounds = apply(CumSum(axis), weights)
    total = apply(Slice((0,) * axis + (count - 1,), (*x.shape[:-1], 1), (1,) * x.ndim), bounds)
    uniform = draw(RandomUniform((*x.shape[:-1], num_samples), dtypes.float64), generator)
    aims = apply(Reshape((*uniform.shape, 1)), pointwise(Mul(), uniform, total))
    passed = pointwise(Le(), apply(Reshape((*x.shape[:-1], 1, count)), bounds), aims)
    return apply(Sum((x.ndim,), False), convert(passed, dtypes.int64))


def _overwrite(self: Tensor, name: str, values: Tensor) -> Tensor:
    return write(self, convert(values, self.dtype), name)


@public(function=False)
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn evenly from `from_` to `to`."""
    check_writable(self, "uniform_")
    if from_ > to:
        raise located(
            OperationError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
        )
    x = _sample("uniform_", RandomUniform, tuple(self.shape), _float_dtype("uniform_", self.dtype), generator)
    if (from_, to) != (0.0, 1.0):
        x = pointwise(Add(), pointwise(Mul(), x, float(to - from_)), float(from_))
    return _overwrite(self, "uniform_", x)


@public(function=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn from the normal distribution of that mean and standard deviation."""
    check_writable(self, "normal_")
    dtype = _float_dtype("normal_", self.dtype)
    made = normal(mean, std, tuple(self.shape), dtype=dtype, generator=generator)
    return _overwrite(self, "normal_", made)


@public(function=False)
def bernoulli_(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones, with probability `p`, and zeros."""
    check_writable(self, "bernoulli_")
    shape = tuple(self.shape)
    if isinstance(p, Tensor):
        chances = expand(convert(p.detach(), dtypes.float64), shape)  # type: ignore[attr-defined]
    else:
        _check_probability("bernoulli_", p)
        chances = filled(shape, dtypes.float64, p)
    return _overwrite(self, "bernoulli_", bernoulli(chances, generator=generator))


@public(function=False)
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fill with integers drawn evenly from `from_` (0) to `to - 1` (what the dtype holds)."""
    check_writable(self, "random_")
    if to is None and from_ is not None:
        from_, to = 0, from_
    if to is None:
        to = _largest(self.dtype) + 1
    return _overwrite(self, "random_", _integers(from_ or 0, to, tuple(self.shape), self.dtype, generator))


def _largest(dtype: DType) -> int:
    """The largest integer up to which `dtype` holds all of them."""
    if dtype.is_differentiable:
        return 1 << int(ml_dtypes.finfo(dtypes.to_real(dtype).np).nmant + 1)
    return 1 if dtype.kind == "bool" else int(np.iinfo(dtype.np).max)


@public(function=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers drawn from the exponential distribution of rate `lambd`."""
    check_writable(self, "exponential_")
    if lambd <= 0:
        raise located(OperationError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}"))
    shape, dtype = tuple(self.shape), _float_dtype("exponential_", self.dtype)
    x = _sample("exponential_", RandomUniform, shape, dtype, generator)
    x = apply(Log1p(), pointwise(Mul(), x, -1.0))
    return _overwrite(self, "exponential_", pointwise(Mul(), x, -1.0 / lambd))
