"""Random programs of views, writes and reads: after each statement every tensor is as in PyTorch, errors included.

Compared are values, `requires_grad`, `is_leaf` and version counters, and at the end the gradients.
"""

import re
import warnings
import weakref

import numpy as np
import pytest
from random_views import Machine, Program

import jitgrad as jg


def without_inplace_math(statement):
    """The same with results computed out of place and copied: PyTorch then finds no residual overwritten."""
    statement = re.sub(r"(\w+)\.(sin|tanh)_\(\)", r"\1.copy_(\1.clone().\2())", statement)
    return re.sub(r"(\w+)\.mul_\((\w+)\)", r"\1.copy_(\1.clone() * \2)", statement)


def expected_gradients(machine, torch, program):
    """PyTorch's gradients; where it refuses because of in-place math alone, those of the program without."""
    found = machine.gradients()
    if isinstance(found, str):
        machine = Machine(torch)
        for statement in program.statements:
            machine.run(without_inplace_math(statement))
        found = machine.gradients()
    return found


def compare(seed):
    torch = pytest.importorskip("torch")
    program = Program(seed)
    theirs, ours = Machine(torch), Machine(jg)
    shown = ""
    for statement in program.statements:
        shown += f"\n{statement}"
        expected, got = theirs.run(statement), ours.run(statement)
        assert bool(expected) == bool(got), f"{shown}\nPyTorch: {expected!r}\njitgrad: {got!r}"
        _same_state(theirs.state(), ours.state(), shown)
    expected, got = expected_gradients(theirs, torch, program), ours.gradients()
    if isinstance(expected, str) or isinstance(got, str):
        assert isinstance(expected, str) and isinstance(got, str), f"{shown}\nPyTorch: {expected}\njitgrad: {got}"
        return
    for e, g in zip(expected, got, strict=True):
        assert (e is None) == (g is None), f"{shown}\nPyTorch: {e}\njitgrad: {g}"
        if e is not None:
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12, err_msg=shown)


def compare_second_gradients(seed):
    torch = pytest.importorskip("torch")
    program = Program(seed)
    theirs, ours = Machine(torch), Machine(jg)
    for statement in program.statements:
        expected, got = theirs.run(without_inplace_math(statement)), ours.run(statement)
        if bool(expected) != bool(got):  # PyTorch forgets that a view has got a history, until it is asked for
            return
    expected, got = theirs.second_gradients(), ours.second_gradients()
    shown = "\n".join(program.statements)
    assert isinstance(expected, str) == isinstance(got, str), f"{shown}\nPyTorch: {expected}\njitgrad: {got}"
    if isinstance(expected, str):
        return
    for e, g in zip(expected, got, strict=True):
        if e is None or g is None:  # a gradient of zero may be None
            assert (e is None or not e.any()) and (g is None or not g.any()), f"{shown}\n{e}\n{g}"
        else:
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12, err_msg=shown)


def _same_state(expected, got, shown):
    assert expected.keys() == got.keys(), shown
    for name, (*facts, values) in expected.items():
        *our_facts, our_values = got[name]
        assert our_facts == facts, f"{shown}\n{name} (requires_grad, is_leaf, version): {facts} {our_facts}"
        # differences of nearly equal numbers leave roundings of numbers of about 1
        np.testing.assert_allclose(our_values, values, rtol=1e-12, atol=1e-15, err_msg=f"{shown}\n{name}")


@pytest.mark.torch
@pytest.mark.parametrize("block", range(10))
def test_random_programs(block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * 15, block * 15 + 15):
            compare(seed)


@pytest.mark.torch
def test_second_gradients_of_random_programs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(5000, 5040):
            compare_second_gradients(seed)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_programs(block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(1000 + block * 100, 1000 + block * 100 + 100):
            compare(seed)


def test_a_leaf_written_into_a_detached_tensor_gets_the_gradient():
    leaf = jg.tensor([1.0, 2.0], requires_grad=True)
    out = jg.zeros(2)
    out[...] = leaf
    assert not out.is_leaf
    (out * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0]


def test_writing_through_an_expanded_view_is_an_error():
    x = jg.zeros(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(2, 3).add_(1.0)
    assert x.tolist() == [0.0, 0.0, 0.0]
    x.expand(2, 3)[0].add_(1.0)
    x.expand(2, 3)[:, 1:].fill_(5.0)
    assert x.tolist() == [1.0, 5.0, 5.0]


def test_leaves_and_their_views_cannot_be_written():
    leaf = jg.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        leaf.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf[1:].add_(1)
    with jg.no_grad():
        leaf[1:].add_(1)
    assert leaf.tolist() == [0.0, 1.0, 1.0]


def test_overwritten_residuals_are_found():
    x = jg.ones(3, requires_grad=True)
    y = x * 2
    z = y.sin()
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_broadcast_residuals_are_found_too():
    x, y = jg.ones(2, 3, requires_grad=True), jg.ones(3)
    z = x * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_detached_tensors_let_go_of_their_history():
    w = jg.ones(3, requires_grad=True)
    h, seen = jg.zeros(3), []
    for _ in range(3):
        h = (h * w + 1).tanh()
        seen.append((weakref.ref(h), weakref.ref(h.grad_fn)))
        h = h.detach()
    assert all(tensor() is None and node() is None for tensor, node in seen)


def test_data_shares_memory_and_can_be_replaced():
    x = jg.zeros(2, requires_grad=True)
    view = x.detach()[:1]
    x.data.add_(1)
    assert x.tolist() == [1.0, 1.0]
    x.data = jg.tensor([5.0, 6.0, 7.0])
    assert x.requires_grad and x.is_leaf and x.tolist() == [5.0, 6.0, 7.0]
    view.fill_(9)
    assert x.tolist() == [5.0, 6.0, 7.0]


def test_writes_are_differentiable_twice():
    x = jg.tensor([1.0, 2.0, 3.0], dtype=jg.float64, requires_grad=True)
    y = x * x
    y[1:].mul_(x[:2])
    (grad,) = jg.autograd.grad(y.sum(), x, create_graph=True)
    assert grad.tolist() == [6.0, 13.0, 12.0]  # of x0^2 + x1^2 x0 + x2^2 x1
    grad.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0, 10.0]


def test_writes_without_a_history_are_counted_refused_and_seen_as_others():
    x = jg.zeros(2, 3)
    row, saved = x[0], (x * jg.ones(2, 3, requires_grad=True)).exp()
    for i, write in enumerate((
        lambda: x.__setitem__(0, 1.0), lambda: x.__setitem__((slice(None), 1), jg.tensor([2.0, 3.0])),
        lambda: x.__setitem__(jg.tensor([True, False]), 4.0), lambda: x.__setitem__(jg.tensor([1, -1]), 5.0),
        lambda: x.fill_(6.0), lambda: x.zero_(), lambda: x.copy_(jg.ones(2, 3)), lambda: x.add_(1.0),
        lambda: row.mul_(2.0),
    )):  # fmt: skip
        write()
        assert x._version == row._version == i + 1 and row.tolist() == x[0].tolist()
    assert x.tolist() == [[4, 4, 4], [2, 2, 2]]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    for error, write in (
        (IndexError, lambda: x.__setitem__(2, 1.0)), (IndexError, lambda: x.__setitem__(jg.tensor([2]), 1.0)),
        (IndexError, lambda: x.__setitem__(jg.tensor([True]), 1.0)),
        (RuntimeError, lambda: x.__setitem__(0, jg.ones(2))),
        (RuntimeError, lambda: x.copy_(jg.ones(4))), (RuntimeError, lambda: x.expand(2, 2, 3).add_(1.0)),
        (RuntimeError, lambda: jg.zeros(2, requires_grad=True).fill_(1.0)),
        (RuntimeError, lambda: jg.zeros(2, requires_grad=True)[0].fill_(1.0)),
    ):  # fmt: skip
        with pytest.raises(error):
            write()
    assert x.tolist() == [[4, 4, 4], [2, 2, 2]] and x._version == 9
    x[1:] = x[:1]
    n = jg.zeros(3, dtype=jg.int8)
    n[0], n[1], n[2] = 300, -1, 2.9
    assert x.tolist() == [[4, 4, 4], [4, 4, 4]] and n.tolist() == [44, -1, 2]
    w = jg.ones(3, requires_grad=True)
    y = jg.zeros(2, 3)
    y[0], y[1] = w * 2, 3.0
    y.sum().backward()
    assert w.grad.tolist() == [2, 2, 2] and y.tolist() == [[2, 2, 2], [3, 3, 3]]


def test_masks_and_index_tensors_choose_the_same_again_and_again():
    x = jg.arange(12.0).view(3, 4)
    for _ in range(3):
        for t in (x, x.t()):
            mask, rows = t > 4, jg.tensor([2, 0, -1])
            array = t.numpy()
            assert np.array_equal(t[mask].numpy(), array[mask.numpy()]) and t[mask].is_contiguous()
            assert np.array_equal(t[mask[:, 0]].numpy(), array[mask[:, 0].numpy()])
            assert np.array_equal(t[rows].numpy(), array[rows.numpy()]) and t[rows].is_contiguous()
            assert np.array_equal(t[:, rows].numpy(), array[:, rows.numpy()]) and t[:, rows].is_contiguous()
            with pytest.raises(IndexError):
                t[jg.tensor([7])]
            with pytest.raises(IndexError):
                t[jg.tensor([True, False])]
        leaf = jg.ones(3, requires_grad=True)
        leaf[leaf > 0].sum().backward()
        assert leaf.grad.tolist() == [1, 1, 1]
