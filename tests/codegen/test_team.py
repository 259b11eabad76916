"""A call's threads stay together from step to step: who comes first leads, nobody is waited for in vain."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from jitgrad.codegen import compile_graph, set_num_threads
from jitgrad.codegen.cpu.threads import get_num_threads
from jitgrad.codegen.describe import describe_steps
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Tanh
from jitgrad.ir.types import TensorType


@pytest.fixture(autouse=True)
def threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def chain(steps, rows=96, columns=512):
    """Products, sums over columns and maps, one after another: most are shared out, some are not."""
    b = Builder()
    x, w = (b.input(TensorType(s, dtypes.float32)) for s in ((rows, columns), (columns, columns)))
    value = x
    for _ in range(steps):
        value = b(Tanh(), b(MatMul(), value, w))
        value = b(Tanh(), b(BroadcastTo((rows, columns)), b(Sum((0,)), value)))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) / 8 for s in ((rows, columns), (columns, columns))]
    return compile_graph(b.build([value])), arrays


@pytest.mark.parametrize("count", [2, 3, 8, 40])
def test_more_threads_than_cores_give_the_same_bits(count):
    compiled, arrays = chain(6)
    assert any(launch.portions for step in describe_steps(compiled.plan) for launch in step.launches)
    set_num_threads(1)
    (want,) = compiled(arrays)
    set_num_threads(count)
    for _ in range(40):
        np.testing.assert_array_equal(compiled(arrays)[0], want)


def test_calls_at_the_same_time_have_teams_of_their_own():
    compiled, arrays = chain(4)
    others = [[a + np.float32(k) / 64 for a in arrays] for k in range(6)]
    set_num_threads(1)
    wanted = [compiled(a)[0] for a in others]
    set_num_threads(3)

    def run(k):
        for _ in range(15):
            np.testing.assert_array_equal(compiled(others[k])[0], wanted[k])
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(run, range(6)))
