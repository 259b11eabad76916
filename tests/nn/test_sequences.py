"""Connectionist temporal classification against PyTorch's, and against a sum over all paths."""

import itertools

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.ir.errors import AutogradError

F = jg.nn.functional


def scores(t, n, c, seed=0):
    return np.random.default_rng(seed).standard_normal((t, n, c))


def by_all_paths(logp, labels, blank):
    """The loss of one item, by going through every path."""
    total = -np.inf
    for path in itertools.product(range(logp.shape[1]), repeat=len(logp)):
        merged = [c for c, _ in itertools.groupby(path) if c != blank]
        if merged == list(labels):
            total = np.logaddexp(total, sum(logp[t, c] for t, c in enumerate(path)))
    return -total


@pytest.mark.parametrize("labels", [(), (1,), (1, 2), (2, 2), (1, 2, 1)])
@pytest.mark.parametrize("blank", [0, 2])
def test_it_is_the_sum_over_all_paths(labels, blank):
    labels = [(c + 1) % 3 if c == blank else c for c in labels]
    logp = jg.tensor(scores(4, 1, 3)).log_softmax(2)
    target = jg.tensor([labels] if labels else np.zeros((1, 0), np.int64), dtype=jg.int64)
    loss = F.ctc_loss(logp, target, (4,), (len(labels),), blank=blank, reduction="sum")
    np.testing.assert_allclose(loss.numpy(), by_all_paths(logp.numpy()[:, 0], labels, blank), rtol=1e-12)


CASES = {
    "padded": ([[1, 2, 3], [2, 2, 0], [3, 0, 0]], (7, 6, 7), (3, 2, 1)),
    "one after the other": ([1, 2, 3, 2, 2, 3], (7, 6, 7), (3, 2, 1)),
    "none": ([[1, 2], [2, 1], [1, 1]], (7, 3, 2), (2, 0, 2)),
    "too short": ([[1, 1], [2, 1], [3, 1]], (2, 7, 1), (2, 2, 2)),
}


@pytest.mark.torch
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_pytorchs(case, reduction, zero_infinity):
    torch = pytest.importorskip("torch")
    targets, times, counts = CASES[case]
    results = []
    for lib in (jg, torch):
        x = lib.tensor(scores(7, 3, 4), requires_grad=True)
        loss = lib.nn.functional.ctc_loss(
            x.log_softmax(2), lib.tensor(targets), lib.tensor(times), lib.tensor(counts),
            reduction=reduction, zero_infinity=zero_infinity,
        )  # fmt: skip
        finite = loss if case != "too short" or zero_infinity else loss[loss < 1e9] if reduction == "none" else loss * 0
        finite.sum().backward()
        results.append((loss.detach().numpy(), x.grad.numpy()))
    (loss, grad), (want, want_grad) = results
    np.testing.assert_allclose(loss, want, rtol=1e-9)
    if np.isfinite(want_grad).all():
        np.testing.assert_allclose(grad, want_grad, rtol=1e-9, atol=1e-12)


def test_a_second_derivative_is_refused():
    x = jg.tensor(scores(4, 1, 3), requires_grad=True)
    loss = F.ctc_loss(x.log_softmax(2), jg.tensor([[1]]), (4,), (1,))
    with pytest.raises(AutogradError, match="second derivative"):
        jg.autograd.grad(loss, x, create_graph=True)


def test_compiled():
    f = jg.compile(lambda x, y: F.ctc_loss(x.log_softmax(2), y, (4, 3), (2, 1)))
    x, y = jg.tensor(scores(4, 2, 3), requires_grad=True), jg.tensor([[1, 2], [2, 1]])
    want = F.ctc_loss(x.log_softmax(2), y, (4, 3), (2, 1))
    (want_grad,) = jg.autograd.grad(want, x)
    for _ in range(2):
        loss = f(x, y)
        np.testing.assert_allclose(loss.item(), want.item(), rtol=1e-12)
        np.testing.assert_allclose(jg.autograd.grad(loss, x)[0].numpy(), want_grad.numpy(), rtol=1e-9, atol=1e-12)


def test_lengths_out_of_range():
    x, y = jg.zeros(4, 1, 3).log_softmax(2), jg.tensor([[1]])
    for times, counts in (((5,), (1,)), ((4,), (2,)), ((-1,), (1,))):
        with pytest.raises(RuntimeError, match="lengths"):
            F.ctc_loss(x, y, times, counts)
