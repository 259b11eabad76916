"""Results so large that they go past the caches: the same, wherever they lie."""

import numpy as np
import pytest

from jitgrad.codegen import compile_graph
from jitgrad.codegen.cpu.emit_stream import STREAMED_FROM
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.comparison import Gt
from jitgrad.ir.ops.math import Tanh
from jitgrad.ir.types import TensorType


def graph_of(n, dtype, make):
    """A graph of two operands of a type."""
    b = Builder()
    x, y = (b.input(TensorType((n,), dtype)) for _ in range(2))
    return b.build(make(b, x, y))


def numbers(n, dtype):
    """Two arrays, quickly made."""
    x = np.arange(n, dtype=np.float32) % 1013 - 500
    return x.astype(dtype.np), (x[::-1] * np.float32(0.5)).astype(dtype.np)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.uint8], ids=str)
@pytest.mark.parametrize("more", [0, 1, 77])
def test_small_bodies(dtype, more):
    n = STREAMED_FROM // (3 * dtype.itemsize) + more
    x, y = numbers(n, dtype)
    (got,) = compile_graph(graph_of(n, dtype, lambda b, x, y: [b(Add(), x, y)]))([x, y])
    np.testing.assert_array_equal(got, x + y)


def test_large_bodies_and_several_results():
    n = STREAMED_FROM // 16 + 5
    x, y = numbers(n, dtypes.float32)
    x, y = x / 400, y / 400

    def make(b, x, y):
        t = b(Tanh(), b(Add(), x, y))
        return [t, b(Mul(), t, x), b(Gt(), t, y)]

    small = compile_graph(graph_of(1013, dtypes.float32, make))([x[:1013], y[:1013]])
    for got, want in zip(compile_graph(graph_of(n, dtypes.float32, make))([x, y]), small, strict=True):
        np.testing.assert_array_equal(got[:1013], want)
    t, product, above = compile_graph(graph_of(n, dtypes.float32, make))([x, y])
    np.testing.assert_allclose(t, np.tanh(x + y), rtol=1e-6, atol=1e-30)
    np.testing.assert_array_equal(product, t * x)
    np.testing.assert_array_equal(above, t > y)


@pytest.mark.parametrize("offset", [0, 4, 32, 60])
def test_memory_of_any_alignment(offset):
    n = STREAMED_FROM // 12 + 3
    x, _ = numbers(n, dtypes.float32)
    memory = np.zeros(4 * n + 128, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64 + offset
    target = memory[start : start + 4 * n].view(np.float32)
    run = compile_graph(graph_of(n, dtypes.float32, lambda b, x, y: [b(Add(), x, x)]), aliases={0: 1})
    run([x, target])
    np.testing.assert_array_equal(target, x + x)
