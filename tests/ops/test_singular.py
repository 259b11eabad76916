"""Gradients at singular points: the finite answer where there is one, to second order."""

import numpy as np
import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.interpreter import run
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Maximum, Minimum, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.comparison import Gt
from jitgrad.ir.ops.creation import full_like
from jitgrad.ir.ops.math import Exp, Log, Pow, Sqrt
from jitgrad.ir.ops.reduction import Amax, Amin, Prod
from jitgrad.ir.ops.scan import CumProd
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.trigonometry import Atan2
from jitgrad.ir.types import TensorType


def gradients(build, *arrays):
    """First derivatives of the sum of `build`'s result, and the gradient of the sum of those."""
    b = Builder()
    arrays = [np.asarray(a, np.float64) for a in arrays]
    inputs = [b.input(TensorType(a.shape, dtypes.float64)) for a in arrays]
    y = build(b, *inputs)
    total = b(Sum(tuple(range(y.ndim))), y) if y.ndim else y
    wrt = list(range(len(arrays)))
    first = gradient_graph(b.build([total]), wrt)
    one = np.ones(())
    grads = run(first, [*arrays, one])[1:]
    c = Builder()
    outputs = c.inline(first, [c.input(v.type) for v in first.inputs])[1:]
    second = gradient_graph(c.build(outputs), wrt)
    return grads, run(second, [*arrays, one, *(np.ones_like(a) for a in arrays)])[len(arrays) :]


def op(made):
    return lambda b, *xs: b(made, *xs)


POINTS = {
    "abs at 0": (op(Abs()), ([0.0],), ([0.0],), ([0.0],)),
    "x**0 at 0": (op(Pow()), ([0.0], [0.0]), ([0.0], [0.0]), ([0.0], [1.0])),
    "x**1 at 0": (op(Pow()), ([0.0], [1.0]), ([1.0], [0.0]), ([0.0], None)),
    "x**2 at 0": (op(Pow()), ([0.0], [2.0]), ([0.0], [0.0]), ([2.0], [0.0])),
    "x**3 at 0": (op(Pow()), ([0.0], [3.0]), ([0.0], [0.0]), ([0.0], [0.0])),
    "x**0 at nan": (op(Pow()), ([np.nan], [0.0]), ([0.0], None), None),
    "atan2 at the origin": (op(Atan2()), ([0.0], [0.0]), ([0.0], [0.0]), ([0.0], [0.0])),
    "maximum of equals": (op(Maximum()), ([1.0], [1.0]), ([0.5], [0.5]), ([0.0], [0.0])),
    "minimum of equals": (op(Minimum()), ([1.0], [1.0]), ([0.5], [0.5]), ([0.0], [0.0])),
    "amax of equals": (op(Amax((0,))), ([1.0, 3.0, 3.0],), ([0.0, 0.5, 0.5],), ([0.0, 0.0, 0.0],)),
    "amin of equals": (op(Amin((0,), True)), ([3.0, 3.0, 7.0],), ([0.5, 0.5, 0.0],), ([0.0, 0.0, 0.0],)),
    "prod with a zero": (op(Prod((0,))), ([2.0, 0.0, 3.0],), ([0.0, 6.0, 0.0],), ([3.0, 5.0, 2.0],)),
    "prod with two zeros": (op(Prod((0,))), ([0.0, 5.0, 0.0],), ([0.0, 0.0, 0.0],), ([5.0, 0.0, 5.0],)),
    "cumprod with a zero": (op(CumProd(0)), ([2.0, 0.0, 3.0],), ([1.0, 8.0, 0.0],), ([4.0, 6.0, 2.0],)),
}


@pytest.mark.parametrize("name", POINTS)
def test_finite_where_there_is_an_answer(name):
    build, arrays, first, second = POINTS[name]
    have = gradients(build, *arrays)
    for grads, wants in zip(have, (first, second), strict=True):
        for grad, want in zip(grads, wants or (), strict=False):
            if want is not None:
                np.testing.assert_allclose(grad, want, rtol=1e-12, atol=1e-12)


def guarded(branch, start=lambda b, x: x):
    """`where(x > 0, branch(start(x)), 0)`."""

    def build(b, x):
        zero = full_like(b, x, 0.0)
        return b(Where(), b(Gt(), x, zero), branch(b, start(b, x)), zero)

    return build


def _log_of_root(b, x):
    return b(Log(), b(Sqrt(), x))


def _used_twice(b, x):
    root = b(Sqrt(), x)
    return b(Mul(), root, b(Add(), b(Log(), root), b(Div(), full_like(b, x, 1.0), x)))


def _overflowing(b, x):
    return b(Exp(), b(Div(), full_like(b, x, -1.0), b(Mul(), x, x)))


@pytest.mark.parametrize("branch", [_log_of_root, _used_twice, _overflowing])
def test_a_branch_not_taken_leaves_no_nan(branch):
    points = np.array([-1.0, 0.0, 4.0])
    (first,), (second,) = gradients(guarded(branch), points)
    (plain_first,), (plain_second,) = gradients(branch, points[2:])
    np.testing.assert_array_equal(first[:2], 0.0)
    np.testing.assert_array_equal(second[:2], 0.0)
    np.testing.assert_allclose(first[2:], plain_first, rtol=1e-14)
    np.testing.assert_allclose(second[2:], plain_second, rtol=1e-14)


def test_the_other_branch_not_taken_leaves_no_nan():
    def build(b, x):
        zero = full_like(b, x, 0.0)
        return b(Where(), b(Gt(), x, zero), zero, b(Sqrt(), x))

    (first,), _ = gradients(build, [4.0, -4.0])
    assert first[0] == 0.0 and np.isnan(first[1])
