"""Writes to what an op has kept for its gradient where PyTorch keeps something else; second backwards."""

import gc

import numpy as np
import pytest

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad.hot_path import CALLS

OPS = {
    "div": lambda x, c: x / c,
    "number / x": lambda x, c: 2 / (x * c + 3),
    "leaky_relu": lambda x, c: F.leaky_relu(x * c, 0.2),
    "elu": lambda x, c: F.elu(x * c),
    "selu": lambda x, c: F.selu(x * c),
    "hardtanh": lambda x, c: F.hardtanh(x * c),
    "hardsigmoid": lambda x, c: F.hardsigmoid(x * c),
    "softsign": lambda x, c: F.softsign(x * c),
    "normalize": lambda x, c: F.normalize(x * c, dim=0),
}
WRITES = {
    "all": lambda y: y.add_(3),
    "a part": lambda y: y[1:].mul_(0),
    "by an index": lambda y: y.index_put_((jg.tensor([0, 2]),), jg.zeros(2, dtype=jg.float64)),
    "unseen": lambda y: jg.no_grad()(lambda: y.sub_(1))(),
}


def leaves():
    x = jg.tensor([-1.5, -0.3, 0.4, 2.0], dtype=jg.float64, requires_grad=True)
    return x, jg.tensor([0.5, 1.5, -0.7, 1.0], dtype=jg.float64, requires_grad=True)


def gradients(op, write, x, c, create=False):
    y = op(x, c)
    weighted = y * jg.arange(1.0, 5, dtype=jg.float64)
    if write is not None:
        write(y)
    return jg.autograd.grad(weighted.sum(), (x, c), create_graph=create)


def second(op, write):
    x, c = leaves()
    first = gradients(op, write, x, c, True)
    return [g.numpy() for g in jg.autograd.grad(sum((g * g).sum() for g in first), (x, c))]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", OPS)
def test_a_write_to_the_result_leaves_gradients_as_they_are(name, write):
    op = OPS[name]
    expected = [g.numpy() for g in gradients(op, None, *leaves())]
    for _ in range(3):  # also where the backward pass is compiled
        for got, want in zip(gradients(op, WRITES[write], *leaves()), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-15)
    for got, want in zip(second(op, WRITES[write]), second(op, None), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    step = jg.compile(lambda x, c: gradients(op, WRITES[write], x, c))
    for _ in range(2):
        for got, want in zip(step(*leaves()), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-9)


@pytest.mark.parametrize("name", OPS)
def test_results_of_compiled_functions_can_be_written(name):
    f = jg.compile(OPS[name])
    x, c = leaves()
    expected = [g.numpy() for g in jg.autograd.grad(OPS[name](x, c).sum(), (x, c))]
    for _ in range(6):  # until calls take the shortest way
        y = f(*(given := leaves()))
        y.add_(1)
        for got, want in zip(jg.autograd.grad(y.sum(), given), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-15)


def test_a_loss_keeps_its_logits():
    given = jg.tensor([[0.5, 1.0, -1.0], [2.0, 0.0, 0.3]], requires_grad=True)
    target = jg.tensor([1, 0])
    logits = given * 2
    F.cross_entropy(logits, target).backward()
    expected, given.grad = given.grad, None
    logits = given * 2
    loss = F.cross_entropy(logits, target)
    logits[:, 0] = -float("inf")
    loss.backward()
    np.testing.assert_allclose(given.grad.numpy(), expected.numpy(), rtol=1e-6)


def test_what_pytorch_keeps_too_is_refused():
    x = jg.ones(3, requires_grad=True)
    for op in (jg.exp, jg.sigmoid, jg.tanh, jg.sqrt, jg.relu):
        y = op(x * 1)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_a_second_write_needs_no_second_copy_and_dead_nodes_none():
    x = jg.ones(1000, requires_grad=True)
    y = x / 3
    node = y.grad_fn
    y.add_(1)
    kept = node.saved
    y.add_(1)
    assert node.saved is kept
    shared = x * 1
    for _ in range(100):
        _ = 2 / shared
    del _
    gc.collect()
    assert len(shared._storage.keepers) < 70  # most of the hundred are gone
    shared.add_(1)
    assert shared._storage.keepers is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jg.add(x, x, alpha=2), lambda x: jg.sub(x, x, alpha=0.5), lambda x: jg.lerp(x, x, 0.3),
        lambda x: jg.lerp(x, x, 0.8), lambda x: jg.deg2rad(x), lambda x: x.tril(), lambda x: jg.gradient(x)[0],
        lambda x: x.round(decimals=2), lambda x: jg.addcmul(x, jg.ones(2, 2), jg.ones(2, 2), value=3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [jg.float32, jg.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_backward_comes_twice_where_only_numbers_were_kept(function, dtype, compiled):
    def step(x):
        y = function(x + 0).sum()
        y.backward()
        y.backward()

    step = jg.compile(step) if compiled else step
    for _ in range(2):
        x, once = (jg.ones(2, 2, dtype=dtype, requires_grad=True) for _ in range(2))
        step(x)
        function(once).sum().backward()
        assert (x.grad == 2 * once.grad).all()


def test_numbers_that_the_user_gave_are_kept():
    y = jg.ones(2, requires_grad=True) * 2
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_constants_of_functions_can_be_written_once_they_are_results():
    x = jg.zeros(2, 2)
    for made in (x.new_full((2,), 3.0), jg.full((2,), 3.0), jg.where(x == 0, 1.0, 2.0), jg.isposinf(jg.arange(2))):
        before = made._version
        made.zero_()
        assert made._version == before + 1
    y = jg.add(jg.ones(2, requires_grad=True), jg.ones(2, requires_grad=True), alpha=2)
    y.sum().backward()  # what is written elsewhere has no part in it


def test_a_recorded_write_to_memory_shown_several_times_is_refused():
    x = jg.arange(5.0, requires_grad=True)
    windows = (x * 1).unfold(0, 3, 1)
    with pytest.raises(RuntimeError, match="more than one element"):
        windows.add_(1)
    with pytest.raises(RuntimeError, match="more than one element"):
        windows[0:2] = jg.ones(3)
    apart = (x * 1).unfold(0, 2, 2)
    apart.mul_(2)
    apart.sum().backward()
    assert x.grad.tolist() == [2, 2, 2, 2, 0]


def test_a_result_of_one_element_can_be_written():
    x = jg.arange(3.0, requires_grad=True)
    y = jg.take(x, jg.tensor(1))
    y.add_(1)
    y.backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_functions_that_have_become_native_leave_the_same_notes():
    x = jg.tensor([-1.0, 2.0], requires_grad=True)
    for _ in range(CALLS + 20):
        y = F.leaky_relu(x, 0.5)
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [0.5, 1.0]
