"""Random numbers: generators and what is drawn from them.

A `Generator` is a seed and an offset, the number of Philox counters used so far. Every function here takes
the next ones in program order; an element's value depends on seed, offset and place alone, so that eager and
compiled runs agree whatever the number of threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DTypeError, OperationError, ShapeError
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.random import RandomInt, RandomNormal, RandomOp, RandomUniform
from jitgrad.ir.ops.sorting import Sort
from jitgrad.ir.types import CPU, TensorType

from . import hot_path
from .creation import check_dtype
from .device import as_device, place
from .dispatch import apply, apply_all, data_op, infer
from .errors import located
from .functions.dims import sizes
from .functions.pointwise import convert, pointwise
from .functions.registry import public, write_out
from .memo import Memo
from .mode import local
from .tensor import Tensor, to_array, wrap

_DEFAULT_SEED = 67280421310721  # PyTorch's
_SPAN = 1 << 64
_SCALAR = TensorType((), dtypes.int64)
_SHORT = 64  # elements, up to which ops draw by themselves
_few: Memo[int] = Memo(limit=1024)  # how many counters ops use that draw so few; -1 for those that draw more


def _signed(seed: int) -> int:
    """`seed` modulo 2**64 as an int64."""
    seed %= _SPAN
    return seed - _SPAN if seed >= _SPAN // 2 else seed


def _end_trace(what: str) -> None:
    """A stream that starts anew is not part of a graph."""
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.materialise(f"a random generator was {what}")


class Generator:
    """A stream of random numbers: a seed and how many counters have been used.

    >>> import jitgrad as jg
    >>> g = jg.Generator().manual_seed(3)
    >>> bool((jg.rand(2, generator=g) == jg.rand(2, generator=jg.Generator().manual_seed(3))).all())
    True
    """

    __slots__ = ("__weakref__", "_device", "offset", "seed_value")

    def __init__(self, device: Any = None) -> None:
        self._device = CPU if device is None else as_device(device)
        self.seed_value = _DEFAULT_SEED
        self.offset = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` anew."""
        _end_trace("given another state")
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
        """Seed and offset, for `set_state`. While tracing, this ends the trace: draws wait for its end."""
        _end_trace("asked for its state")
        return wrap(np.array([self.seed_value, self.offset], np.int64).view(np.uint8))

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on where a stream was when `get_state` was called."""
        _end_trace("given another state")
        state = to_array(new_state)
        if state.dtype != np.uint8 or state.shape != (16,):
            raise located(ArgumentTypeError("set_state: a state from get_state is needed"))
        self.seed_value, self.offset = (int(x) for x in state.view(np.int64))
        return self

    def clone_state(self) -> Generator:
        """A generator that goes on as this one will."""
        other = Generator(self._device)
        other.seed_value, other.offset = self.seed_value, self.offset
        return other

    @property
    def device(self) -> Any:
        """The device it was made for; it serves all."""
        return self._device

    def __repr__(self) -> str:
        return f"<jitgrad.Generator seed={self.initial_seed()} offset={self.offset}>"


default_generator = Generator()


class _DeviceGenerators:
    """The streams of CUDA devices, made when first asked for."""

    def __init__(self) -> None:
        self.made: dict[int, Generator] = {}
        self.seed = _DEFAULT_SEED


_devices = _DeviceGenerators()


def device_generator(index: int) -> Generator:
    """The stream of a CUDA device."""
    found = _devices.made.get(index)
    if found is None:
        found = _devices.made.setdefault(index, Generator())
        found.seed_value = _devices.seed
    return found


def generators() -> list[Generator]:
    """The default streams: that of the CPU, and those of CUDA devices in use."""
    return [default_generator, *_devices.made.values()]


def seed_devices(seed: int) -> None:
    """Seed the streams of all CUDA devices, those to come too."""
    for generator in list(_devices.made.values()):
        generator.manual_seed(seed)
    _devices.seed = _signed(seed)


def random_state(generator: Generator | None, draws: int) -> tuple[Tensor, Tensor]:
    """Seed and offset as 0-d int64 tensors, for an op that takes `draws` counters, now used up."""
    source = default_generator if generator is None else generator
    tracer = local.mode.tracer
    if tracer is not None:
        return tracer.random_state(source, draws)
    state = np.array([source.seed_value, source.offset], np.int64)
    source.offset += draws
    return wrap(state[0:1].reshape(())), wrap(state[1:2].reshape(()))


def draw(op: RandomOp, generator: Generator | None = None, like: Tensor | None = None) -> Tensor:
    """What `op` draws from the generator's next counters, on the device of `like` or the default one."""
    mode = local.mode
    if mode.levels:
        return mode.levels[-1].draw(op, lambda o: draw(o, generator, like))
    if (
        mode.tracer is None
        and hot_path.SMALL >= 0
        and (mode.place is None if like is None else like._data.__class__ is np.ndarray)
    ):
        count = _few.get(op)
        if count is None:
            infer(op, (_SCALAR, _SCALAR))  # raises what is wrong with it
            count = _few.add(op, op.draws if op.draws <= _SHORT else -1)
        if count >= 0:
            source = default_generator if generator is None else generator
            offset = source.offset
            source.offset = offset + count
            return wrap(op.drawn(source.seed_value, offset, _computed))
    where = local.mode.place if like is None else like.device
    if where is None or where.type == "cpu":
        return apply(op, *random_state(generator, op.draws))
    with place(where):
        return apply(op, *random_state(generator or device_generator(where.index or 0), op.draws))


def _computed(op: RandomOp, seed: int, first: int) -> Any:
    """The elements that an op draws, natively where it does so often."""
    return data_op(op, np.array(seed, np.uint64).view(np.int64), np.array(first, np.uint64).view(np.int64))


@public(method=False)
def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed` anew, and return that generator.

    >>> import jitgrad as jg
    >>> jg.manual_seed(0).initial_seed()
    0
    """
    seed_devices(int(seed))
    return default_generator.manual_seed(int(seed))


@public(method=False)
def seed() -> int:
    """Seed the default generators with a number that nobody can predict, and return that."""
    number = default_generator.seed()
    seed_devices(number)
    return number


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


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """A block after which the default generators, of the CPU and of all devices, are where they were before it.

    >>> import jitgrad as jg
    >>> with jg.random.fork_rng():
    ...     a = jg.rand(2)
    >>> (a == jg.rand(2)).all()
    tensor(True)
    """
    before = [g.get_state() for g in generators()] if enabled else []
    try:
        yield
    finally:
        for g, state in zip(generators(), before):
            g.set_state(state)


# ----------------------------------------------------------------------------------------------- new tensors


def float_dtype(name: str, dtype: DType | None, otherwise: DType | None = None) -> DType:
    """`dtype`, or another for None, which must be of a floating point or complex type."""
    want = check_dtype(dtype, otherwise or local.mode.default_dtype)
    if not want.is_differentiable:
        raise located(DTypeError(f"{name}: not implemented for {want.name}; a floating point dtype is needed"))
    return want


def sample(
    name: str, cls: type[RandomOp], shape: tuple[int, ...], dtype: DType, g: Generator | None,
    like: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Floats, or complex numbers of independent parts, on the device of `like` or the default one."""
    if shape and min(shape) < 0:
        raise located(ShapeError(f"{name}: negative dimension in {list(shape)}"))
    if not dtype.is_complex:
        return draw(cls(shape, dtype), g, like)
    real, imag = (draw(cls(shape, dtypes.to_real(dtype)), g, like) for _ in range(2))
    made = pointwise(Add(), real, pointwise(Mul(), convert(imag, dtype), 1j))
    return pointwise(Mul(), made, math.sqrt(0.5)) if cls is RandomNormal else made


def _sampled(
    name: str, cls: Any, size: Any, dtype: DType | None, generator: Generator | None, requires_grad: bool,
    out: Tensor | None,
) -> Tensor:  # fmt: skip
    made = sample(name, cls, sizes(size, f"{name}: size"), float_dtype(name, dtype), generator)
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
    generator: Generator | None = None, layout: Any = None, pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """`rand` in the shape and dtype of `input`."""
    return rand(tuple(input.shape), dtype=check_dtype(dtype, input.dtype), device=device,
                requires_grad=requires_grad, generator=generator)  # fmt: skip


@public(method=False)
def randn_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
    generator: Generator | None = None, layout: Any = None, pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """`randn` in the shape and dtype of `input`."""
    return randn(tuple(input.shape), dtype=check_dtype(dtype, input.dtype), device=device,
                 requires_grad=requires_grad, generator=generator)  # fmt: skip


def integers(low: int, high: int, shape: tuple[int, ...], dtype: DType, g: Generator | None) -> Tensor:
    """Integers from `low` to `high - 1`, as `dtype`."""
    if low >= high:
        raise located(OperationError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"))
    direct = dtype if dtype.kind == "int" else dtypes.int64
    return convert(draw(RandomInt(shape, low, high, direct), g), dtype)


@public(method=False)
def randint(
    *args: Any, low: int = 0, high: int | None = None, size: Any = None, generator: Generator | None = None,
    dtype: DType | None = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False, out: Tensor | None = None,
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
    made = integers(int(low), int(high), sizes((size,), "randint: size"), check_dtype(dtype, dtypes.int64), generator)
    if out is not None:
        return write_out(made, out, "randint", warn=False)
    return made.requires_grad_() if requires_grad else made


@public(method=False)
def randint_like(
    input: Tensor, low: Any = 0, high: Any = None, *, generator: Generator | None = None, dtype: DType | None = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """`randint` in the shape and dtype of `input`."""
    as_device(device)
    bounds = (0, int(low)) if high is None else (int(low), int(high))
    made = integers(*bounds, tuple(input.shape), check_dtype(dtype, input.dtype), generator)
    return made.requires_grad_() if requires_grad else made


def _order(keys: Tensor) -> Tensor:
    """What sorts integers, of which hardly ever two are equal: NumPy's quick sort serves then."""
    if local.mode.tracer is None and keys._data.__class__ is np.ndarray:
        order = np.argsort(keys._data)
        ordered = keys._data[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return wrap(order)
    return apply_all(Sort(0), keys)[1]


@public(method=False)
def randperm(
    n: int, *, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The numbers from 0 to `n - 1` in random order.

    >>> import jitgrad as jg
    >>> jg.randperm(5).shape
    jitgrad.Size([5])
    """
    as_device(device)
    if n < 0:
        raise located(OperationError(f"randperm: n must be non-negative, not {n}"))
    made = convert(_order(draw(RandomInt((n,), -(1 << 63), 1 << 63), generator)), check_dtype(dtype, dtypes.int64))
    if out is not None:
        return write_out(made, out, "randperm", warn=False)
    return made.requires_grad_() if requires_grad else made
