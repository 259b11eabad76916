"""Distributions: their moments, what they refuse, and that compiled code draws the same numbers."""

import math

import numpy as np
import pytest
from scipy import special

import jitgrad as jg
from jitgrad import hot_path
from jitgrad.ir.ops.quantile_functions import PoissonQuantile

COUNT = 40_000

# name: (how to draw, mean, variance)
DISTRIBUTIONS = {
    "uniform_": (lambda: jg.empty(COUNT).uniform_(-1, 3), 1.0, 16 / 12),
    "normal_": (lambda: jg.empty(COUNT).normal_(2, 0.5), 2.0, 0.25),
    "log_normal_": (lambda: jg.empty(COUNT).log_normal_(0, 0.5).log(), 0.0, 0.25),
    "exponential_": (lambda: jg.empty(COUNT).exponential_(2), 0.5, 0.25),
    "geometric_": (lambda: jg.empty(COUNT).geometric_(0.25), 4.0, 12.0),
    "geometric_ of ints": (lambda: jg.empty(COUNT, dtype=jg.int32).geometric_(0.25).float(), 4.0, 12.0),
    "bernoulli_": (lambda: jg.empty(COUNT).bernoulli_(0.3), 0.3, 0.21),
    "random_": (lambda: jg.empty(COUNT).random_(0, 10), 4.5, 8.25),
    "normal": (lambda: jg.normal(jg.full((COUNT,), 3.0), 2.0), 3.0, 4.0),
    "normal of std": (lambda: jg.normal(1.0, jg.full((COUNT,), 2.0)), 1.0, 4.0),
    "poisson": (lambda: jg.poisson(jg.full((COUNT,), 3.5)), 3.5, 3.5),
    "poisson large": (lambda: jg.poisson(jg.full((COUNT,), 400.0, dtype=jg.float64)), 400.0, 400.0),
    "binomial": (lambda: jg.binomial(jg.full((COUNT,), 10.0), jg.tensor(0.3)), 3.0, 2.1),
    "gamma": (lambda: jg._standard_gamma(jg.full((COUNT,), 2.0)), 2.0, 2.0),
    "multinomial": (lambda: jg.multinomial(jg.tensor([1.0, 1.0, 2.0]), COUNT, True).float(), 1.25, 0.6875),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_moments(name):
    draw, mean, variance = DISTRIBUTIONS[name]
    jg.manual_seed(0)
    x = draw().double()
    assert abs(x.mean().item() - mean) < 5 * math.sqrt(variance / COUNT)
    assert abs(x.var().item() - variance) < 0.1 * variance


def test_cauchy():
    jg.manual_seed(0)
    x = jg.empty(COUNT).cauchy_(1, 2)
    inside = ((x > -1) & (x < 3)).float().mean().item()
    assert abs(inside - 0.5) < 0.02 and abs(x.median().item() - 1) < 0.1


@pytest.mark.parametrize("name", [n for n in DISTRIBUTIONS if n != "multinomial"])
def test_compiled_draws_the_same(name):
    draw, *_ = DISTRIBUTIONS[name]
    f = jg.compile(draw)
    for _ in range(2):
        jg.manual_seed(3)
        want = draw()
        jg.manual_seed(3)
        got = f()
        assert jg.allclose(got.double(), want.double(), rtol=1e-5, atol=1e-6)


REFUSED = {
    "cauchy_": (lambda: jg.zeros(2).cauchy_(0, 0), "sigma > 0"),
    "log_normal_": (lambda: jg.zeros(2).log_normal_(0, 0), "std > 0"),
    "geometric_": (lambda: jg.zeros(2).geometric_(1.0), r"p to be in \(0, 1\)"),
    "exponential_": (lambda: jg.zeros(2).exponential_(0), "lambda > 0"),
    "uniform_": (lambda: jg.zeros(2).uniform_(2, 1), r"\[from, to\)"),
    "random_": (lambda: jg.zeros(2).random_(3, 3), "'from' to be less than 'to'"),
    "random_ of int8": (lambda: jg.zeros(2, dtype=jg.int8).random_(0, 1000), "out of bounds for int8"),
    "bernoulli_": (lambda: jg.zeros(2).bernoulli_(1.5), r"p to be in \[0, 1\]"),
    "bernoulli": (lambda: jg.bernoulli(jg.tensor([0.5, 2.0])), "between 0.0 and 1.0"),
    "normal": (lambda: jg.normal(0.0, -1.0, (2,)), "std >= 0"),
    "normal of stds": (lambda: jg.normal(0.0, jg.tensor([-1.0])), "between 0.0 and inf"),
    "poisson": (lambda: jg.poisson(jg.tensor([-1.0])), "between 0.0 and inf"),
    "multinomial zeros": (lambda: jg.multinomial(jg.zeros(3), 1), "sum of probabilities <= 0"),
    "multinomial negative": (lambda: jg.multinomial(jg.tensor([1.0, -1.0]), 1), "probabilities"),
    "multinomial many": (lambda: jg.multinomial(jg.ones(3), 4), "without replacement"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(RuntimeError, match=message):
        call()


def test_generators_are_streams_of_their_own():
    first, second = (jg.Generator().manual_seed(1) for _ in range(2))
    state = jg.get_rng_state()
    a = jg.zeros(3).cauchy_(generator=first)
    assert a.tolist() == jg.zeros(3).cauchy_(generator=second).tolist()
    assert jg.randint_like(a, 0, 9, generator=first).tolist() == jg.randint_like(a, 0, 9, generator=second).tolist()
    assert jg.get_rng_state().tolist() == state.tolist()


def test_poisson_of_small_and_large_rates():
    """Small rates, few or many, are summed up, large ones solved: the same but for what the last bits of `u` tell."""
    rng = np.random.default_rng(0)
    u, rate = rng.uniform(0, 1, 5000), rng.uniform(0, 100, 5000)
    u[:4], rate[:4] = (0, 1 - 2.0**-53, 0.5, 0.5), (1, 0.1, 0, 80)
    many = PoissonQuantile().reference(u, rate)
    few = np.concatenate([PoissonQuantile().reference(u[i : i + 50], rate[i : i + 50]) for i in range(0, 5000, 50)])
    assert many.tolist() == few.tolist()
    assert many[0] == 0 and many[2] == 0 and many[1] < 15
    distribution = special.pdtr
    assert np.all(distribution(many, rate) >= u - 1e-13)
    assert np.all((many == 0) | (distribution(np.maximum(many - 1, 0), rate) < u + 1e-13))


@pytest.mark.parametrize("fill", ["uniform_", "normal_", "log_normal_", "exponential_", "cauchy_", "geometric_"])
def test_filling_often_gives_the_same(fill, monkeypatch):
    """The first calls go by NumPy, later ones natively."""
    jg.compile(lambda x: x + 1)(jg.ones(2))
    monkeypatch.setattr(hot_path, "CALLS", 3)
    x = jg.zeros(100)

    def filled():
        jg.manual_seed(2)
        return getattr(x, fill)(*([0.3] if fill == "geometric_" else [])).tolist()

    first = filled()
    for _ in range(6):
        np.testing.assert_allclose(filled(), first, rtol=1e-5)
    assert jg.randperm(1000).sort()[0].tolist() == list(range(1000))
