"""The shortest call of a compiled graph."""

import numpy as np
import pytest

from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.small_call import small_call
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.argmax import ArgMax
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.sorting import Sort
from jitgrad.ir.types import TensorType


def test_it_gives_what_the_executable_gives():
    b = Builder()
    x = b.input(TensorType((3, 4), dtypes.float32))
    executable = compile_graph(b.build([b(Exp(), x)]))
    run = small_call(executable)
    a = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    (found,), (expected,) = run([a]), executable([a])
    np.testing.assert_array_equal(found, expected)
    assert run([np.ones((4, 3), np.float32).T]) is None


def test_steps_of_the_host_are_refused():
    b = Builder()
    x = b.input(TensorType((4,), dtypes.float32))
    assert small_call(compile_graph(b.build(list(b.emit(Sort(0, False), x))))) is None


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 40)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_at_positions_that_a_column_reduction_has_found(shape, axis):
    b = Builder()
    x = b.input(TensorType(shape, dtypes.float32))
    at = b(ArgMax((axis,), True), x)
    run = compile_graph(b.build([b(Gather(axis), x, at)]))
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(run([a])[0], a.max(axis, keepdims=True))
