"""The short way backward, of structures seen before."""

import pytest

import jitgrad as jg


def test_structures_that_differ_in_the_order_of_operands_alone_are_two():
    """Both have the same ops in the same order of recording; only the quotient takes them the other way round."""

    def step(x, flip):
        first, last = x[0], x[-1]
        return last / first if flip else first / last

    for flip in (False, False, True, True, False):
        x = jg.tensor([2.0, 1.0, 4.0], requires_grad=True)
        step(x, flip).backward()
        assert x.grad.tolist() == ([-1.0, 0.0, 0.5] if flip else [0.25, 0.0, -0.125])


def test_leaves_that_get_other_memory_before_backward():
    """What was saved of a leaf is of the type it had then; the plan for its present type would read past its end."""

    def step(size, then=None):
        x = jg.ones(size, dtype=jg.float64, requires_grad=True)
        y = (x * x * x).sum()
        if then is not None:
            x.data = then
        y.backward()
        return x.grad

    for _ in range(4):
        assert step(4).tolist() == [3.0] * 4
        assert step(400).sum().item() == 1200
    for other in (jg.ones(400, dtype=jg.float64), jg.ones(4)):
        with pytest.raises(RuntimeError):
            step(4, other)
    assert step(4, jg.zeros(4, dtype=jg.float64)).tolist() == [3.0] * 4


def test_a_leaf_with_other_memory_at_each_use():
    for _ in range(4):
        x, a = jg.tensor([1.0, 2.0], requires_grad=True), jg.tensor([3.0, 4.0], requires_grad=True)
        y = x * a
        x.data = jg.tensor([5.0, 6.0])
        (y * y + x * a).sum().backward()
        assert x.grad.tolist() == [21.0, 68.0]
        assert a.grad.tolist() == [11.0, 38.0]


def test_leaves_that_ask_for_no_gradient_any_more_get_none():
    for turn in range(6):
        x, w = jg.ones(4, requires_grad=True), jg.full((4,), 3.0, requires_grad=True)
        y = (x * w).sum()
        x.requires_grad_(turn % 2 == 0)
        if turn > 3:
            w.register_hook(lambda g: g)
        y.backward()
        assert w.grad.tolist() == [1.0] * 4
        assert x.grad is None if turn % 2 else x.grad.tolist() == [3.0] * 4
