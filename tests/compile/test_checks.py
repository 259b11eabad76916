"""What eager execution refuses in values, a compiled function refuses as well: same error, nothing written."""

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad.codegen.compile import compile_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.dtypes import float32, int64
from jitgrad.ir.ops.check import CheckIndex, CheckRange
from jitgrad.ir.ops.indexing import Gather
from jitgrad.ir.types import TensorType


def both(f):
    return f, jg.compile(f)


@pytest.mark.parametrize("divide", [lambda x, y: x // y, lambda x, y: x % y, lambda x, y: jg.fmod(x, y)])
def test_an_integer_divided_by_zero(divide):
    for f in both(divide):
        x, y = jg.tensor([7, -7, 5]), jg.tensor([2, 2, 3])
        for _ in range(2):
            assert f(x, y).tolist() == divide(x, y).tolist()
            with pytest.raises(ZeroDivisionError, match="divided by zero"):
                f(x, jg.tensor([1, 0, 2]))


def test_a_constant_divisor_needs_no_check():
    f = jg.compile(lambda x: x // 2)
    assert f(jg.tensor([7, -7])).tolist() == [3, -4]
    assert "check_divisor" not in str([n.op for n in f.explain().specialisations[0].graph.nodes])
    with pytest.raises(ZeroDivisionError):
        jg.compile(lambda x: x // 0)(jg.tensor([1]))


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_a_class_out_of_range_leaves_the_parameters_alone(loss):
    def step(w, x, target):
        with jg.no_grad():
            value = loss(x @ w, target)
            w.sub_(value)
        return value

    for f in both(step):
        w = jg.ones(3, 4)
        f(w, jg.ones(2, 3), jg.tensor([1, 3]))
        before = w.clone()
        with pytest.raises(IndexError, match="target 4 is out of range for 4 classes"):
            f(w, jg.ones(2, 3), jg.tensor([1, 4]))
        assert w.tolist() == before.tolist()


def test_the_error_names_the_line():
    def step(x, target):
        return F.cross_entropy(x, target)

    for f in both(step):
        f(jg.ones(2, 3), jg.tensor([0, 1]))
        with pytest.raises(IndexError, match=r"test_checks\.py:\d+ in test_the_error_names_the_line\.step"):
            f(jg.ones(2, 3), jg.tensor([0, 7]))


def test_a_refused_value_leaves_what_eager_code_leaves():
    def program(compile):
        def divide(x, a, b):
            x.add_(1)
            y = a // b
            x.mul_(2)
            return y

        def take(x, i):
            y = x * 2
            x.add_(1)
            try:
                return y[i]
            except IndexError:
                x.mul_(3)
                return x * 0

        divide, take = compile(divide), compile(take)
        x = jg.tensor([1.0, 2.0])
        for divisor, index in (([0, 1], [0, 5]), ([1, 2], [0, 1]), ([0, 1], [0, 5]), ([2, 1], [1, 1])):
            try:
                yield divide(x, jg.tensor([4, 5]), jg.tensor(divisor))
            except ZeroDivisionError:
                yield "refused"
            yield x, take(x, jg.tensor(index)), x

    agree(program)


def test_gradients_pass_a_check():
    for f in both(lambda x: jg.linalg.svdvals(x).sum()):
        x = jg.tensor([[2.0, 0.0], [0.0, 1.0]], requires_grad=True)
        for _ in range(2):
            x.grad = None
            f(x).backward()
            assert x.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_singular_matrix():
    for f in both(lambda a: (jg.linalg.inv(a), 1)[1]):  # the inverse itself is not used
        for _ in range(2):
            assert f(jg.eye(2)) == 1
            with pytest.raises(jg.linalg.LinAlgError, match=r"linalg.inv: The diagonal element 1 is zero"):
                f(jg.zeros(2, 2))


def test_a_matrix_that_is_not_finite():
    for f in both(lambda a: (jg.linalg.eigh(a), 1)[1]):
        f(jg.eye(2))
        with pytest.raises(jg.linalg.LinAlgError, match="non-finite values"):
            f(jg.full((2, 2), float("nan")))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
def test_indices_of_many_elements_at_the_edges_of_their_range(dtype):
    inside = np.arange(100).astype(dtype)
    CheckIndex("gather", 0, 100).refuse(inside)
    CheckRange("nll_loss", 0, 100, -100).refuse(inside)
    for length in (50, 99):
        with pytest.raises(IndexError, match="out of bounds"):
            CheckIndex("gather", 0, length).refuse(inside)
        with pytest.raises(IndexError, match="out of range"):
            CheckRange("nll_loss", 0, length, -100).refuse(inside)
    if np.dtype(dtype).kind == "i":
        CheckIndex("gather", 0, 100).refuse(inside - dtype(100))
        with pytest.raises(IndexError, match="-101"):
            CheckIndex("gather", 0, 100).refuse(inside - dtype(101))
        with pytest.raises(IndexError, match="-1"):
            CheckRange("nll_loss", 0, 100, -100).refuse(inside - dtype(1))


def test_checked_indices_are_not_copied():
    b = Builder()
    x, index = b.input(TensorType((300,), float32)), b.input(TensorType((200,), int64))
    run = compile_graph(b.build([b(Gather(0), x, b(CheckIndex("gather", 0, 300), index))]))
    assert run.frame.arena_bytes == 0
    numbers, places = np.arange(300, dtype="f4"), np.arange(200)[::-1].copy()
    np.testing.assert_array_equal(run([numbers, places])[0], numbers[places])
    places.flags.writeable = False
    np.testing.assert_array_equal(run([numbers, places])[0], numbers[places])
