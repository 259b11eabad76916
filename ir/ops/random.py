"""Counter-based random numbers: Philox4x32-10.

Every op takes a seed and an offset, both 0-d int64. Element `i`, in row-major order, is made of the four
words that Philox gives for the 128-bit counter `offset + i` (its upper half is zero) under the 64-bit key
`seed`. So its value depends on the seed, the offset and its place alone: not on threads, backends, fusion or
recomputation. An op uses `draws` counters; the next op's offset is that much further.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from .. import dtypes, scalar
from ..dtypes import DType
from ..errors import ArgumentError, DTypeError, ShapeError, operand_lines
from ..normal_numbers import normal, normal_of
from ..op import Array, IndexMap, Load, op
from ..scalar import Expr, Fn
from ..types import Shape, TensorType

__all__ = [
    "RandomBits", "RandomInt", "RandomNormal", "RandomOp", "RandomUniform", "first_word", "least_word", "philox",
]  # fmt: skip

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF
_SPAN = 1 << 64
_BLOCK = 8192  # counters at a time, so that ten rounds of words stay in cache
_SHORT = 64  # elements; a shorter draw comes out of a block that the next draws will use too
_AHEAD = 256  # counters in the first such block of a stream
_FURTHER = 1024  # and in others
_UNIFORM_BITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


Compute = Callable[["RandomOp", int, int], Array]  # the elements of an op of one axis, under a key from a counter on


def philox(counter: tuple[Array, ...], key: tuple[Array, ...]) -> tuple[Array, ...]:
    """The four 32-bit words for a counter of four and a key of two, as uint64 arrays of values below 2**32.

    >>> [hex(w) for w in philox((0, 0, 0, 0), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    u64 = np.uint64
    shape = np.broadcast_shapes(*(np.shape(w) for w in counter))
    ones = (1,) * len(shape)
    # Words 0 and 2, and 1 and 3, as rows of one array: half as many NumPy calls, which is what short draws cost.
    even, odd = np.empty((2, *shape), u64), np.empty((2, *shape), u64)
    even[0], odd[0], even[1], odd[1] = counter
    factors, low, half = np.array(_MULTIPLIERS, u64).reshape(2, *ones), u64(_LOW), u64(32)
    keys = [[(int(k) + n * step) & _LOW for k, step in zip(key, _KEY_STEPS, strict=True)] for n in range(_ROUNDS)]
    for round_key in np.array(keys, u64).reshape(_ROUNDS, 2, *ones):
        products = even * factors
        even = (products >> half)[::-1]
        even ^= odd
        even ^= round_key
        products &= low
        odd = products[::-1]
    return even[0], odd[0], even[1], odd[1]


def _words(seed: int, counter: Array) -> tuple[Array, ...]:
    """The words for 64-bit counters under a 64-bit key."""
    low, half, zero = np.uint64(_LOW), np.uint64(32), np.uint64(0)
    return philox((counter & low, counter >> half, zero, zero), (np.uint64(seed & _LOW), np.uint64(seed >> 32)))


def _philox_exprs(seed: Expr, counter: Expr) -> tuple[Expr, ...]:
    """The same words as int64 expressions; products wrap at 64 bits, as they should."""
    zero = scalar.const(0)
    c0, c1, c2, c3 = counter & _LOW, scalar.lshr(counter, 32), zero, zero
    k0, k1 = seed & _LOW, scalar.lshr(seed, 32)
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = scalar.lshr(p1, 32) ^ c1 ^ k0, scalar.lshr(p0, 32) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def first_word(seed: Expr, counter: Expr) -> Expr:
    """The word that `RandomUniform` makes float32 numbers of, as int64."""
    return _philox_exprs(seed, counter)[0]


def least_word(p: float) -> int:
    """The smallest first word whose number, in float32, is at least `p`.

    >>> least_word(0.5) == 1 << 31, least_word(1.0) == 1 << 32
    (True, True)
    """
    spare = 32 - _UNIFORM_BITS[dtypes.float32]
    return math.ceil(float(np.float32(p)) * 2.0 ** (32 - spare)) << spare


def _row_major(index: Sequence[Expr], shape: Shape) -> Expr:
    position = scalar.const(0)
    for axis, i in enumerate(index):
        position = i if axis == 0 else position * scalar.size(shape[axis]) + i
    return position


def _by_numpy(op: RandomOp, seed: int, first: int) -> Array:
    """The elements of `op`, of one axis, under a key from a counter on."""
    return op._values(seed, np.uint64(first) + np.arange(op.draws, dtype=np.uint64))


@functools.lru_cache(16)
def _ahead(op: RandomOp, seed: int, first: int, count: int, compute: Compute) -> Array:
    """The elements that `op` draws with `count` counters from `first` on; not to be written to."""
    return compute(dataclasses.replace(op, shape=(count,)), seed, first)  # type: ignore[type-var]


class RandomOp(IndexMap):
    """A tensor of `shape` and `dtype` drawn from (seed, offset)."""

    shape: Shape
    dtype: DType
    random = True
    differentiable = False
    kinds: ClassVar[tuple[str, ...]] = ("float",)
    is_exact: ClassVar[bool] = True  # the same bits by the reference and in kernels

    @property
    def draws(self) -> int:
        """How many counters the op uses: one for each element."""
        return math.prod(self.shape)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Two 0-d int64 operands."""
        if any(n < 0 for n in self.shape):
            raise ArgumentError(f"{self.name}: negative length in shape {list(self.shape)}")
        for t in operands:
            if t.shape != ():
                raise ShapeError(f"{self.name}: seed and offset must be 0-d{operand_lines(operands)}")
            if t.dtype is not dtypes.int64:
                raise DTypeError(f"{self.name}: seed and offset must be int64{operand_lines(operands)}")
        if self.dtype.kind not in self.kinds:
            raise DTypeError(f"{self.name}: not defined for {self.dtype.name}")
        return (TensorType(self.shape, self.dtype, operands[0].device),)

    def reference(self, *operands: Array) -> Array:
        """The words of each element's counter, made into its value."""
        seed, offset = (int(x) for x in operands)
        return self.drawn(seed, offset)

    def drawn(self, seed: int, offset: int, compute: Compute = _by_numpy) -> Array:
        """The same from Python's numbers; few elements come from longer draws, which `compute` makes."""
        seed, offset, count = seed % _SPAN, offset % _SPAN, self.draws
        if count <= _SHORT and offset < _SPAN - 2 * _FURTHER:
            return self._from_blocks(seed, offset, count, compute).reshape(self.shape)
        out = np.empty(count, self.dtype.np)
        for start in range(0, count, _BLOCK):
            stop = min(start + _BLOCK, count)
            out[start:stop] = self._values(seed, np.uint64(offset) + np.arange(start, stop, dtype=np.uint64))
        return out.reshape(self.shape)

    def _values(self, seed: int, counters: Array) -> Array:
        """The elements with these counters."""
        return np.asarray(self.from_words(*_words(seed, counters))).astype(self.dtype.np)

    def _from_blocks(self, seed: int, offset: int, count: int, compute: Compute) -> Array:
        """A few elements, out of blocks made ahead."""
        size = _AHEAD if offset < _AHEAD else _FURTHER
        first = offset - offset % size
        at = offset - first
        block = _ahead(self._of_any_shape, seed, first, size, compute)
        if at + count <= size:
            return block[at : at + count].copy()
        if size == _AHEAD:  # behind the first block comes what lies further on in a longer one
            following = _ahead(self._of_any_shape, seed, 0, _FURTHER, compute)[size:]
        else:
            following = _ahead(self._of_any_shape, seed, first + size, _FURTHER, compute)
        return np.concatenate((block[at:], following[: at + count - size]))

    @functools.cached_property
    def _of_any_shape(self) -> RandomOp:
        return dataclasses.replace(self, shape=())  # type: ignore[type-var]

    def element(self, index: tuple[Expr, ...], operands: Sequence[Load]) -> Expr:
        """The same as an expression."""
        seed, offset = (load(()) for load in operands)
        return self.from_exprs(*_philox_exprs(seed, offset + _row_major(index, self.shape)))

    def from_words(self, w0: Array, w1: Array, w2: Array, w3: Array) -> Array:
        """The values made of four arrays of 32-bit words (as uint64)."""
        raise NotImplementedError

    def from_exprs(self, w0: Expr, w1: Expr, w2: Expr, w3: Expr) -> Expr:
        """The same as an expression of four words (as int64)."""
        raise NotImplementedError


def _uniform(high: Array, low: Array, dtype: DType) -> Array:
    """In [0, 1), multiples of 2**-bits: exact in `dtype`, whatever the type it is computed in."""
    bits = _UNIFORM_BITS[dtype]
    if bits <= 32:
        return (high >> np.uint64(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)
    return ((high << np.uint64(32) | low) >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits


def _uniform_expr(high: Expr, low: Expr, dtype: DType) -> Expr:
    bits = _UNIFORM_BITS[dtype]
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    word = scalar.lshr(high, 32 - bits) if bits <= 32 else scalar.lshr((high << 32) | low, 64 - bits)
    return scalar.convert(word, wide) * 2.0**-bits


@op
class RandomBits(RandomOp):
    """32 random bits in every element: 0 to 2**32 - 1 as int64, or all values of int32."""

    shape: Shape
    dtype: DType = dtypes.int64
    name = "random_bits"
    kinds = ("int",)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """An integer type that has room for 32 bits."""
        if self.dtype not in (dtypes.int32, dtypes.int64):
            raise DTypeError(f"random_bits: not defined for {self.dtype.name}")
        return super().infer(*operands)

    def from_words(self, w0: Array, w1: Array, w2: Array, w3: Array) -> Array:
        """The first word."""
        return w0.astype(np.uint32).view(np.int32) if self.dtype is dtypes.int32 else w0

    def from_exprs(self, w0: Expr, w1: Expr, w2: Expr, w3: Expr) -> Expr:
        """The first word."""
        return scalar.convert(w0, self.dtype)


@op
class RandomUniform(RandomOp):
    """Floats in [0, 1), multiples of 2**-24; in float64 of 2**-53, float16 2**-11, bfloat16 2**-8."""

    shape: Shape
    dtype: DType = dtypes.float32
    name = "random_uniform"

    def from_words(self, w0: Array, w1: Array, w2: Array, w3: Array) -> Array:
        """The first word's upper bits, or those of the first two."""
        return _uniform(w0, w1, self.dtype)

    def from_exprs(self, w0: Expr, w1: Expr, w2: Expr, w3: Expr) -> Expr:
        """The first word's upper bits, or those of the first two."""
        return scalar.convert(_uniform_expr(w0, w1, self.dtype), self.dtype)


@op
class RandomNormal(RandomOp):
    """Floats from the normal distribution of mean 0 and variance 1 (the method of Box and Muller, 1958)."""

    shape: Shape
    dtype: DType = dtypes.float32
    name = "random_normal"

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """Not in float64, whose logarithms are each backend's own."""
        return self.dtype is not dtypes.float64

    def from_words(self, w0: Array, w1: Array, w2: Array, w3: Array) -> Array:
        """√(-2 log u) cos(2πv) of two uniform numbers, u in (0, 1]."""
        if self.is_exact:
            return normal_of(1 - _uniform(w0, w1, dtypes.float32), _uniform(w2, w3, dtypes.float32))
        u, v = 1.0 - _uniform(w0, w1, self.dtype), _uniform(w2, w3, self.dtype)
        return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * math.pi * v)

    def from_exprs(self, w0: Expr, w1: Expr, w2: Expr, w3: Expr) -> Expr:
        """√(-2 log u) cos(2πv) of two uniform numbers, u in (0, 1]."""
        if self.is_exact:
            numbers = 1.0 - _uniform_expr(w0, w1, dtypes.float32), _uniform_expr(w2, w3, dtypes.float32)
            return scalar.convert(normal(*numbers), self.dtype)
        u, v = 1.0 - _uniform_expr(w0, w1, self.dtype), _uniform_expr(w2, w3, self.dtype)
        return scalar.sqrt(-2.0 * scalar.log(u)) * scalar.apply(Fn.COS, v * (2.0 * math.pi))


@op
class RandomInt(RandomOp):
    """Integers from `low` to `high - 1`, each as likely as the others to within 2**-64 times their number.

    64 random bits are multiplied by the number of values; the product's upper half is taken (Lemire, 2019).
    """

    shape: Shape
    low: int
    high: int
    dtype: DType = dtypes.int64
    name = "random_int"
    kinds = ("int",)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """A range that is not empty and fits the type."""
        limits = np.iinfo(self.dtype.np) if self.dtype.kind == "int" else np.iinfo(np.int64)
        if self.low >= self.high:
            raise ArgumentError(f"random_int: no integers from {self.low} to below {self.high}")
        if self.low < limits.min or self.high - 1 > limits.max:
            raise ArgumentError(f"random_int: {self.low} to below {self.high} does not fit {self.dtype.name}")
        return super().infer(*operands)

    def from_words(self, w0: Array, w1: Array, w2: Array, w3: Array) -> Array:
        """The upper half of (w0, w1) times the number of values, on 32-bit digits."""
        half, low = np.uint64(32), np.uint64(_LOW)
        count = (self.high - self.low) & (2**64 - 1)
        n0, n1 = np.uint64(count & _LOW), np.uint64(count >> 32)
        if self.high - self.low == 2**64:
            picked = w0 << half | w1
        else:
            middle = w0 * n0 + (w1 * n0 >> half)
            picked = w0 * n1 + (middle >> half) + (((middle & low) + w1 * n1) >> half)
        return (picked + np.uint64(self.low & (2**64 - 1))).view(np.int64)

    def from_exprs(self, w0: Expr, w1: Expr, w2: Expr, w3: Expr) -> Expr:
        """The upper half of (w0, w1) times the number of values, on 32-bit digits."""
        count = self.high - self.low
        if count == 2**64:
            picked = (w0 << 32) | w1
        else:
            n0, n1 = scalar.size(count & _LOW), scalar.size(count >> 32)
            middle = w0 * n0 + scalar.lshr(w1 * n0, 32)
            picked = w0 * n1 + scalar.lshr(middle, 32) + scalar.lshr((middle & _LOW) + w1 * n1, 32)
        return scalar.convert(picked + scalar.size(self.low), self.dtype)
