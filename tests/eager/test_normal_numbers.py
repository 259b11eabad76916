"""Normal random numbers are the same to the bit by NumPy, natively, and compiled with any numerics."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.backend import compile_graph
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.normal_numbers import normal_of
from jitgrad.ir.ops.random import RandomNormal
from jitgrad.ir.scalar import Fn
from jitgrad.ir.scalar_eval import apply
from jitgrad.ir.types import TensorType


def test_against_float64():
    """As close as float32 operations get: 4 units in the last place."""
    rng = np.random.default_rng(0)
    u = (rng.integers(1, (1 << 24) + 1, 100_000) * 2.0**-24).astype(np.float32)
    v = (rng.integers(0, 1 << 24, 100_000) * 2.0**-24).astype(np.float32)
    u[:3], v[:4] = (2.0**-24, 1.0, 0.5), (0.25, 0.5, 0.75, 0.0)
    want = np.sqrt(-2 * np.log(u.astype(np.float64))) * np.sin(2 * np.pi * (np.abs(v.astype(np.float64) - 0.5) - 0.25))
    assert np.all(np.abs(normal_of(u, v) - want) <= 4 * np.spacing(np.abs(want).astype(np.float32)))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("numerics", ["default", "strict"])
def test_kernels_equal_the_reference(dtype, numerics):
    op = RandomNormal((5, 4001), dtype)
    b = Builder()
    run = compile_graph(
        b.build(b.emit(op, *[b.input(TensorType((), dtypes.int64)) for _ in range(2)])), numerics=numerics
    )
    state = [np.array(x, np.int64) for x in (-7, (1 << 40) + 3)]
    (got,), want = run(state), op.reference(*state)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("count", [7, 1000, 30_000])
def test_every_call_gives_the_same(count):
    """The first calls go by NumPy, later ones natively."""
    jg.compile(lambda x: x + 1)(jg.ones(2))

    def draw():
        jg.manual_seed(5)
        return jg.randn(count).numpy().tobytes()

    first = draw()
    assert {draw() for _ in range(60)} == {first}
    compiled = jg.compile(lambda: jg.randn(count))
    for _ in range(3):
        jg.manual_seed(5)
        assert compiled().numpy().tobytes() == first


def test_fma_is_rounded_once():
    """`(1 + 2**-12)**2` is halfway between two float32 numbers; what is added tells to which it is rounded."""
    x = np.float32([1 + 2.0**-12] * 3)
    added = np.float32([2.0**-60, 0, -(2.0**-60)])
    got = apply(Fn.FMA, [x, x, added], dtypes.float32)
    assert (got.view(np.int32) - np.float32(1 + 2.0**-11).view(np.int32)).tolist() == [1, 0, 0]
