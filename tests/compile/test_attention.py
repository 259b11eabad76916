"""Attention that is written out, compiled: by tiles where nothing else needs the weights, and always as eager code."""

import math
import tracemalloc

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen.attention.ops import TileAttention

F = jg.nn.functional
WAYS = {
    "plain": lambda q, k, m: q @ k.transpose(-2, -1) * (1 / math.sqrt(k.shape[-1])),
    "divided": lambda q, k, m: q @ k.mT / 3.0,
    "scaled before": lambda q, k, m: (q * 0.3) @ k.mT,
    "filled": lambda q, k, m: (q @ k.mT * 0.3).masked_fill(m == 0, -math.inf),
    "filled with a number": lambda q, k, m: (q @ k.mT * 0.3).masked_fill(m == 0, -1e9),
    "chosen": lambda q, k, m: jg.where(m > 0, q @ k.mT * 0.3, jg.full((), -math.inf)),
    "added": lambda q, k, m: q @ k.mT / 2.0 + m,
    "added to all queries": lambda q, k, m: q @ k.mT / 2.0 + m[0],
    "not scaled": lambda q, k, m: q @ k.mT,
}


def inputs(lead=(2, 3), queries=20, keys=17, blind=False):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((*lead, n, 8), np.float32) for n in (queries, keys, keys, queries)]
    mask = np.tril(np.ones((queries, keys), np.float32))
    if blind:
        mask[3] = 0
    return arrays, mask


def results(step, arrays, mask):
    """What a step gives, and the gradients in queries, keys and values."""
    q, k, v, w = (jg.from_numpy(x.copy()) for x in arrays)
    for t in (q, k, v):
        t.requires_grad_()
    y = step(q, k, v, w, jg.from_numpy(mask))
    return [y.numpy(), *(t.grad.numpy() for t in (q, k, v))]


def steps_of(f):
    return [s.node.op.name for s in f.explain().specialisations[-1].executable.steps if hasattr(s, "node")]


@pytest.mark.parametrize("blind", [False, True], ids=["", "a query without keys"])
@pytest.mark.parametrize("way", WAYS)
def test_training(way, blind):
    def step(q, k, v, w, mask):
        y = F.softmax(WAYS[way](q, k, mask), -1) @ v
        (y * w).sum().backward()
        return y.detach()

    arrays, mask = inputs(blind=blind)
    want = results(step, arrays, mask)
    compiled = jg.compile(step)
    for _ in range(3):
        for got, expected in zip(results(compiled, arrays, mask), want, strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-5)  # sums in another order
    if way != "filled with a number":  # which may have become an input, since other numbers were seen in its place
        assert steps_of(compiled) == ["tile_attention", "tile_attention_grad"]


def test_weights_that_something_else_needs_stay():
    def step(q, k, v, w, mask):
        p = F.softmax(WAYS["plain"](q, k, mask), -1)
        y = p @ v + p.square().sum()
        (y * w).sum().backward()
        return y.detach()

    arrays, mask = inputs()
    want = results(step, arrays, mask)
    compiled = jg.compile(step)
    for _ in range(3):
        for got, expected in zip(results(compiled, arrays, mask), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)  # sums of thousands
    assert "tile_attention" not in steps_of(compiled)


def test_gradients_beside_weights_that_are_kept():
    def step(q, k, v, w, mask):
        p = F.softmax(WAYS["plain"](q, k, mask), -1)
        y = p @ v
        (y * w).sum().backward()
        return p.detach()

    arrays, mask = inputs((5,), 40, 33)
    want = results(step, arrays, mask)
    compiled = jg.compile(step)
    for _ in range(3):
        for got, expected in zip(results(compiled, arrays, mask), want, strict=True):
            np.testing.assert_allclose(got, expected, atol=2e-6)


@pytest.mark.parametrize("way", ["plain", "filled", "added"])
def test_dropout_that_is_written_out(way):
    def step(q, k, v, w, mask):
        y = F.dropout(F.softmax(WAYS[way](q, k, mask), -1), 0.3) @ v
        (y * w).sum().backward()
        return y.detach()

    arrays, mask = inputs((2, 3), 40, 33)
    jg.manual_seed(3)
    want = [results(step, arrays, mask) for _ in range(3)]
    compiled = jg.compile(step)
    jg.manual_seed(3)
    for expected in want:
        for got, x in zip(results(compiled, arrays, mask), expected, strict=True):
            np.testing.assert_allclose(got, x, atol=1e-5)  # sums in another order
    assert steps_of(compiled) == ["tile_attention", "tile_attention_grad"]


def test_dropped_weights_that_something_else_needs_stay():
    def step(q, k, v, w, mask):
        p = F.softmax(WAYS["plain"](q, k, mask), -1)
        y = F.dropout(p, 0.3) @ v + p.square().sum()
        (y * w).sum().backward()
        return y.detach()

    arrays, mask = inputs()
    jg.manual_seed(3)
    want = [results(step, arrays, mask) for _ in range(3)]
    compiled = jg.compile(step)
    jg.manual_seed(3)
    for expected in want:
        for got, x in zip(results(compiled, arrays, mask), expected, strict=True):
            np.testing.assert_allclose(got, x, rtol=1e-5, atol=1e-4)  # sums of thousands
    assert "tile_attention" not in steps_of(compiled)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("length", [20, 300], ids=["by NumPy at first", "by kernels"])
def test_dropout_of_attention_is_that_of_its_weights(length, grouped):
    rng = np.random.default_rng(0)
    shapes = [(2, 4, length, 8), *[(2, 2 if grouped else 4, length, 8)] * 2]
    q, k, v = (jg.from_numpy(rng.standard_normal(s, np.float32)).requires_grad_() for s in shapes)

    def by_ops(q, k, v):
        k, v = (t.repeat_interleave(2, 1) if grouped else t for t in (k, v))
        scores = (q @ k.mT * 8**-0.5).masked_fill(jg.ones(length, length).tril() == 0, -math.inf)
        return F.dropout(F.softmax(scores, -1), 0.4) @ v

    def by_one(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4, is_causal=True, enable_gqa=grouped)

    def step(f):
        def run(q, k, v):
            y = f(q, k, v)
            return y.detach(), *jg.autograd.grad(y.square().sum(), (q, k, v))

        return run

    jg.manual_seed(1)
    want = [step(by_ops)(q, k, v) for _ in range(3)]
    for run in (step(by_one), jg.compile(step(by_one))):
        jg.manual_seed(1)
        for expected in want:
            for got, x in zip(run(q, k, v), expected, strict=True):
                np.testing.assert_allclose(got.numpy(), x.numpy(), atol=2e-5)  # sums in another order


def test_dropout_of_long_sequences_has_no_matrix_of_weights():
    rng = np.random.default_rng(0)
    q, k, v = (jg.from_numpy(rng.standard_normal((1, 2, 3000, 16), np.float32)).requires_grad_() for _ in range(3))

    @jg.compile
    def step(q, k, v):
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).sum().backward()

    step(q, k, v)
    arenas = [s.executable.frame.arena_bytes for s in step.explain().specialisations]
    assert max(arenas) < 2 * 3000 * 3000


def test_samples_of_vmap_are_dropped_as_it_says():
    x = jg.from_numpy(np.random.default_rng(0).standard_normal((3, 20, 8), np.float32))
    for randomness, equal in (("same", True), ("different", False)):
        f = jg.func.vmap(
            lambda q: F.scaled_dot_product_attention(jg.zeros(20, 8) * q, x[0], x[1], dropout_p=0.5),
            randomness=randomness,
        )
        y = f(x)
        assert bool((y[0] == y[1]).all()) is equal


def test_many_gradients_at_once_are_dropped_alike():
    rng = np.random.default_rng(0)
    q, k, v = (jg.from_numpy(rng.standard_normal((2, 20, 8))).requires_grad_() for _ in range(3))
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    g = jg.from_numpy(rng.standard_normal((3, *y.shape)))
    many = jg.autograd.grad(y, (q, k, v), g, retain_graph=True, is_grads_batched=True)
    for i in range(3):
        for got, want in zip(many, jg.autograd.grad(y, (q, k, v), g[i], retain_graph=True), strict=True):
            np.testing.assert_allclose(got[i].numpy(), want.numpy(), rtol=1e-12, atol=1e-12)


def test_strict_numerics_leave_it_as_it_is():
    f = jg.compile(lambda q, k, v: F.softmax(q @ k.mT, -1) @ v, numerics="strict")
    arrays, _ = inputs()
    f(*map(jg.from_numpy, arrays[:3]))
    assert "tile_attention" not in steps_of(f)


@pytest.mark.parametrize("grouped", [False, True])
def test_second_derivatives(grouped):
    def penalty(q, k, v, w):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        (g,) = jg.autograd.grad((y * w).sum(), [q], create_graph=True)
        return g.square().sum()

    rng = np.random.default_rng(0)
    shapes = [(2, 4, 12, 8), *[(2, 2 if grouped else 4, 12, 8)] * 2, (2, 4, 12, 8)]
    arrays = [jg.from_numpy(rng.standard_normal(s)) for s in shapes]
    for t in arrays[:3]:
        t.requires_grad_()
    want = jg.autograd.grad(penalty(*arrays), arrays[:3])

    @jg.compile
    def step(*operands):
        return jg.autograd.grad(penalty(*operands), operands[:3])

    for _ in range(2):
        for got, expected in zip(step(*arrays), want, strict=True):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-11)


def test_first_gradient_of_long_sequences_has_no_matrix_of_weights_either():
    rng = np.random.default_rng(0)
    q, k, v = (jg.from_numpy(rng.standard_normal((1, 2, 3000, 64), np.float32)).requires_grad_() for _ in range(3))
    tracemalloc.start()
    try:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 3000 * 3000 * 4


@pytest.mark.parametrize("mask", [
    lambda scores, m: scores.masked_fill(scores.detach() < 2, -1e9), lambda scores, m: scores + (m - 1) * 1e9,
], ids=["filled", "added"])  # fmt: skip
def test_weights_of_a_query_whose_keys_are_all_masked_by_a_number(mask):
    """The logarithm of their sum is lost beside -1e9: weights are divided by the sum itself."""
    masked = mask

    def step(q, k, v, w, mask):
        y = F.softmax(masked(q @ k.mT * 0.3, mask), -1) @ v
        (y * w).sum().backward()
        return y.detach()

    arrays, mask = inputs(blind=True)
    want = results(step, arrays, mask)
    compiled = jg.compile(step)
    for got, expected in zip(results(compiled, arrays, mask), want, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)  # sums in another order
    assert steps_of(compiled)[-2:] == ["tile_attention", "tile_attention_grad"]


def test_products_of_weights_before_the_result():
    def f(q, k, v, w):
        p = F.softmax(q @ k.mT, -1)
        return p.mT @ w, p @ v

    arrays = [jg.from_numpy(x) for x in inputs()[0]]
    for got, expected in zip(jg.compile(f)(*arrays), f(*arrays), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-5)  # sums in another order


def test_tile_ops_mean_what_a_softmax_means():
    q, k, v, _ = (x.astype(np.float64) for x in inputs((), 9, 11)[0])
    mask = np.full((9, 11), np.nan)
    mask[3], mask[4, :5] = -1e9, -np.inf
    for op, scores in (
        (TileAttention(0.3, False, 1, False, False), q @ k.T * 0.3 + np.nan_to_num(mask)),
        (TileAttention(0.3, False, 1, True, False), np.where(np.isnan(mask), q @ k.T * 0.3, mask)),
    ):
        y, largest, share = op.reference(q, k, v, mask if op.chosen else np.nan_to_num(mask))
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        np.testing.assert_allclose(y, p @ v, rtol=1e-12)
        np.testing.assert_allclose(np.exp(scores - largest[:, None]) * share[:, None], p, rtol=1e-12)
