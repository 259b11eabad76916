"""Small programs in primitives that the tests of fusion, lowering and execution share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.ops.argmax import ArgMax
from jitgrad.ir.ops.arithmetic import Add, Div, Maximum, Mul, Neg, Sub
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.comparison import Gt
from jitgrad.ir.ops.creation import Full, Iota, full_like
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Exp, Log, Rsqrt, Tanh
from jitgrad.ir.ops.reduction import Amax
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.ops.slicing import Concat, Slice
from jitgrad.ir.types import TensorType

Formula = Callable[..., Any]


def f32(*shape: int) -> TensorType:
    """A float32 type."""
    return TensorType(shape, dtypes.float32)


def build(types: Sequence[TensorType], formula: Formula) -> Graph:
    """The graph of `formula(b, *inputs)`, which gives a value or a tuple of them."""
    b = Builder()
    out = formula(b, *[b.input(t) for t in types])
    return b.build(out if isinstance(out, tuple) else (out,))


def arrays(types: Sequence[TensorType], seed: int = 0) -> list[Any]:
    """Normal numbers, or small integers, of those types."""
    rng = np.random.default_rng(seed)
    made = []
    for t in types:
        floats = t.dtype.is_floating_point
        x = rng.standard_normal(t.shape) if floats else rng.integers(0, 3, t.shape)
        made.append(np.asarray(x).astype(t.dtype.np))
    return made


def gelu(b: Builder, x: Value) -> Value:
    """GELU by tanh."""
    cube = b(Mul(), b(Mul(), x, x), x)
    inner = b(Mul(), b(Add(), x, b(Mul(), cube, full_like(b, x, 0.044715))), full_like(b, x, 0.7978845608))
    return b(Mul(), b(Mul(), x, full_like(b, x, 0.5)), b(Add(), b(Tanh(), inner), full_like(b, x, 1.0)))


def spread(b: Builder, small: Value, like: Value) -> Value:
    """`small` broadcast to the shape of `like`."""
    return b(BroadcastTo(like.shape), small) if small.shape != like.shape else small


def softmax(b: Builder, x: Value, axes: tuple[int, ...] = (1,)) -> Value:
    """Softmax over `axes`."""
    e = b(Exp(), b(Sub(), x, spread(b, b(Amax(axes, True), x), x)))
    return b(Div(), e, spread(b, b(Sum(axes, True), e), x))


def layer_norm(b: Builder, x: Value) -> Value:
    """Normalised over the last axis."""
    axes, n = (len(x.shape) - 1,), x.shape[-1]

    def mean(v: Value) -> Value:
        return b(Mul(), b(Sum(axes, True), v), b(Full((*x.shape[:-1], 1), x.type.dtype, 1 / n)))

    centred = b(Sub(), x, spread(b, mean(x), x))
    variance = mean(b(Mul(), centred, centred))
    scale = b(Rsqrt(), b(Add(), variance, full_like(b, variance, 1e-5)))
    return b(Mul(), centred, spread(b, scale, x))


def log_softmax_sum(b: Builder, x: Value) -> tuple[Value, Value]:
    """Log-softmax, and minus the sum of all of it."""
    z = b(Sub(), x, spread(b, b(Amax((1,), True), x), x))
    logs = b(Sub(), z, spread(b, b(Log(), b(Sum((1,), True), b(Exp(), z))), x))
    return logs, b(Neg(), b(Sum((0, 1), False), logs))


def relu_backward(b: Builder, x: Value, g: Value) -> tuple[Value, Value]:
    """A bias gradient, and what it sums."""
    masked = b(Where(), b(Gt(), x, full_like(b, x, 0)), g, full_like(b, g, 0))
    return b(Sum((0,), False), masked), masked


def perceptron(b: Builder, x: Value, w1: Value, b1: Value, w2: Value) -> Value:
    """Two layers, the weights transposed."""
    hidden = b(MatMul(), x, b(Permute((1, 0)), w1))
    hidden = b(Add(), hidden, spread(b, b1, hidden))
    return b(MatMul(), b(Maximum(), hidden, full_like(b, hidden, 0)), b(Permute((1, 0)), w2))


def moments(b: Builder, x: Value, w: Value) -> tuple[Value, Value]:
    """Sums over all axes but the channels', and a scaling by channel."""
    channels = b(Reshape((1, *w.shape, 1, 1)), w)
    return b(Sum((0, 2, 3), False), b(Mul(), x, x)), b(Mul(), x, spread(b, channels, x))


def mixed_sum(b: Builder, x: Value, w: Value) -> Value:
    """A sum over axes 0 and 2 of four."""
    channels = b(Reshape((1, *w.shape, 1, 1)), w)
    return b(Sum((0, 2), True), b(Mul(), x, spread(b, channels, x)))


def pieces(b: Builder, x: Value) -> Value:
    """Slices with steps, reversed, put together with computed ones."""
    n, m = x.shape
    y = b(Mul(), x, x)
    left = b(Slice((n - 1, 0), (n // 2, m), (-2, 1)), y)
    return b(Exp(), b(Concat(0), left, b(Flip((1,)), x), y))


def positions(b: Builder, x: Value) -> Value:
    """Indices as numbers."""
    return b(Add(), x, b(Iota(x.shape, 1, x.type.dtype)))


N, C = 37, 23
CASES: dict[str, tuple[Sequence[TensorType], Formula]] = {
    "gelu": ([f32(N, C)] * 2, lambda b, x, y: gelu(b, b(Add(), x, y))),
    "softmax rows": ([f32(N, C)], softmax),
    "softmax short rows": ([f32(N, 5)], softmax),
    "layer norm short rows": ([f32(4, N, 3)], layer_norm),
    "softmax columns": ([f32(N, C)], lambda b, x: softmax(b, x, (0,))),
    "softmax middle": ([f32(5, N, C)], lambda b, x: softmax(b, x, (1,))),
    "softmax all": ([f32(N, C)], lambda b, x: softmax(b, x, (0, 1))),
    "layer norm": ([f32(4, 9, C)], layer_norm),
    "log softmax": ([f32(N, C)], log_softmax_sum),
    "sum columns": ([f32(300, C)], lambda b, x: b(Sum((0,), False), b(Mul(), x, x))),
    "sum all": ([f32(300, C)], lambda b, x: b(Sum((0, 1), False), b(Mul(), x, x))),
    "sum broadcast": (
        [f32(N, C), f32(C)],
        lambda b, x, y: b(Sum((0, 1), False), b(Mul(), x, spread(b, y, x))),
    ),
    "bias": ([f32(N, C), f32(C)], lambda b, x, y: b(Add(), x, spread(b, y, x))),
    "relu backward": ([f32(200, C)] * 2, relu_backward),
    "perceptron": ([f32(N, C), f32(11, C), f32(11), f32(3, 11)], perceptron),
    "moments": ([f32(8, 5, 6, 6), f32(5)], moments),
    "mixed sum": ([f32(8, 5, 6, 9), f32(5)], mixed_sum),
    "permute": ([f32(7, 8, 9), f32(8, 7, 9)], lambda b, x, y: b(Add(), b(Permute((1, 0, 2)), x), y)),
    "transposed": (
        [f32(70, 9, 50), f32(50, 9, 70)],
        lambda b, x, y: b(Add(), b(Permute((2, 1, 0)), x), b(Exp(), y)),
    ),
    "pieces": ([f32(9, 12)], pieces),
    "positions": ([f32(9, 12)], positions),
    "scalar": ([f32(), f32()], lambda b, x, y: b(Mul(), x, y)),
    "reshape": (
        [f32(6, 8), f32(48)],
        lambda b, x, y: b(Exp(), b(Add(), b(Reshape((48,)), b(Exp(), x)), y)),
    ),
    "few columns": ([f32(3000, 3)], lambda b, x: (b(Sum((0,), False), x), b(Amax((0,), True), b(Mul(), x, x)))),
    "argmax": (
        [f32(300, 5)],
        lambda b, x: (b(ArgMax((0,), False), x), b(ArgMax((1,), True), x), b(ArgMax((0, 1), False), x)),
    ),
    "empty": ([f32(5, 0)], lambda b, x: (b(Sum((1,), False), x), b(Sum((0,), False), x), b(Exp(), x))),
    "views": (
        [f32(N, C)],
        lambda b, x: (x, b(Reshape((C, N)), x), b(Permute((1, 0)), x), b(Exp(), x)),
    ),
    "no axes": ([f32(N, C)], lambda b, x: b(Sum((), False), b(Exp(), x))),
}
