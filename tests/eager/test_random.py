"""Generators and what is drawn from them: streams, ranges, moments, shapes, dtypes, errors."""

import numpy as np
import pytest

import jitgrad as jg


def test_a_seed_gives_the_same_numbers_again():
    jg.manual_seed(7)
    first = [jg.rand(3), jg.randn(2, 2), jg.randint(9, (4,)), jg.randperm(5)]
    jg.manual_seed(7)
    again = [jg.rand(3), jg.randn(2, 2), jg.randint(9, (4,)), jg.randperm(5)]
    assert all(jg.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not jg.equal(first[0], jg.rand(3))


def test_draws_are_one_stream_however_they_are_grouped():
    whole = jg.rand(10, generator=jg.Generator().manual_seed(3))
    g = jg.Generator().manual_seed(3)
    parts = jg.cat([jg.rand(4, generator=g), jg.rand(6, generator=g)])
    assert jg.equal(whole, parts) and g.offset == 10


def test_state_is_saved_and_restored():
    jg.rand(5)
    state = jg.get_rng_state()
    first = jg.randn(4)
    jg.set_rng_state(state)
    assert jg.equal(first, jg.randn(4))
    with pytest.raises(TypeError):
        jg.set_rng_state(jg.zeros(3))


def test_seeds():
    g = jg.Generator()
    assert g.initial_seed() == 67280421310721
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.manual_seed(2**64 - 1).seed_value == -1
    assert g.seed() == g.initial_seed() and 0 <= g.initial_seed() < 2**64
    assert jg.manual_seed(5).initial_seed() == jg.initial_seed() == 5
    with pytest.raises(ValueError):
        g.manual_seed(2**64)


@pytest.mark.parametrize("dtype", [jg.float16, jg.bfloat16, jg.float32, jg.float64])
def test_moments(dtype):
    jg.manual_seed(0)
    uniform = jg.rand(20000, dtype=dtype)
    normal = jg.randn(20000, dtype=dtype)
    assert uniform.dtype is normal.dtype is dtype
    u, n = uniform.double(), normal.double()
    assert u.min().item() >= 0 and u.max().item() < 1
    assert abs(u.mean().item() - 0.5) < 0.01 and abs(u.var().item() - 1 / 12) < 0.01
    assert abs(n.mean().item()) < 0.03 and abs(n.std().item() - 1) < 0.03


def test_complex_numbers_have_variance_one():
    jg.manual_seed(0)
    z = jg.randn(20000, dtype=jg.complex64)
    assert abs(z.var().item() - 1) < 0.05
    assert jg.rand(3, dtype=jg.complex128).dtype is jg.complex128


def test_integers():
    jg.manual_seed(0)
    t = jg.randint(-2, 3, (5000,))
    assert t.dtype is jg.int64 and set(t.tolist()) == {-2, -1, 0, 1, 2}
    counts = np.bincount(t.numpy() + 2)
    assert counts.min() > 850
    assert jg.randint(3, (2, 2), dtype=jg.float32).dtype is jg.float32
    assert set(jg.randint(low=1, high=3, size=(100,)).tolist()) == {1, 2}
    assert set(jg.randint(1, high=3, size=(100,)).tolist()) == {1, 2}
    assert jg.randint_like(jg.zeros(3, dtype=jg.int32), 5).dtype is jg.int32
    with pytest.raises(RuntimeError):
        jg.randint(3, 3, (2,))


def test_permutations():
    jg.manual_seed(0)
    p = jg.randperm(100)
    assert sorted(p.tolist()) == list(range(100)) and p.tolist() != list(range(100))
    assert jg.randperm(0).shape == (0,) and jg.randperm(3, dtype=jg.int32).dtype is jg.int32


def test_bernoulli():
    jg.manual_seed(0)
    t = jg.bernoulli(jg.full((10000,), 0.3))
    assert set(t.tolist()) == {0.0, 1.0} and abs(t.mean().item() - 0.3) < 0.02
    assert jg.bernoulli(jg.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert jg.zeros(5, dtype=jg.int64).bernoulli_(1.0).tolist() == [1] * 5
    with pytest.raises(RuntimeError):
        jg.zeros(3).bernoulli_(1.5)
    with pytest.raises(RuntimeError):
        jg.bernoulli(jg.zeros(3, dtype=jg.int64))


def test_normal_takes_tensors_and_numbers():
    jg.manual_seed(0)
    assert jg.normal(0.0, 1.0, (2, 3)).shape == (2, 3)
    assert abs(jg.normal(jg.full((10000,), 5.0), 2.0).mean().item() - 5) < 0.1
    assert abs(jg.normal(0.0, jg.full((10000,), 2.0)).std().item() - 2) < 0.1
    assert jg.normal(jg.zeros(3, 1), jg.ones(2)).shape == (3, 2)
    with pytest.raises(RuntimeError):
        jg.normal(jg.zeros(2), -1.0)


def test_filling_in_place():
    jg.manual_seed(0)
    t = jg.empty(10000)
    with jg.no_grad():
        assert t.uniform_(-1, 3) is t
        assert -1 <= t.min().item() < -0.9 and 2.9 < t.max().item() < 3
        assert abs(t.normal_(2, 0.5).mean().item() - 2) < 0.05 and abs(t.std().item() - 0.5) < 0.05
        assert abs(t.exponential_(2.0).mean().item() - 0.5) < 0.05 and t.min().item() >= 0
        assert set(t.random_(2, 5).tolist()) == {2, 3, 4}
        assert t.random_().max().item() <= 2**24
    assert t._version == 5
    assert jg.zeros(9, dtype=jg.uint8).random_().dtype is jg.uint8
    with pytest.raises(RuntimeError):
        jg.zeros(3, dtype=jg.int32).normal_()
    with pytest.raises(RuntimeError):
        jg.zeros(3, requires_grad=True).uniform_()


def test_shapes_and_flags():
    assert jg.rand().shape == () and jg.rand(()).shape == () and jg.rand([2, 3]).shape == (2, 3)
    assert jg.randn(2, requires_grad=True).requires_grad
    assert jg.rand_like(jg.zeros(2, 3, dtype=jg.float64)).dtype is jg.float64
    assert jg.randn_like(jg.zeros(2, 3), dtype=jg.float64).shape == (2, 3)
    assert jg.rand(2, out=jg.zeros(2)).shape == (2,)
    with pytest.raises(RuntimeError):
        jg.rand(2, dtype=jg.int64)
    with pytest.raises(RuntimeError):
        jg.rand(-1)


def test_multinomial():
    jg.manual_seed(0)
    weights = jg.tensor([1.0, 0.0, 3.0])
    many = jg.multinomial(weights, 8000, replacement=True)
    counts = np.bincount(many.numpy(), minlength=3)
    assert counts[1] == 0 and abs(counts[2] / 8000 - 0.75) < 0.02
    rows = jg.multinomial(jg.tensor([[1.0, 2.0, 3.0]] * 4000), 2)
    assert rows.shape == (4000, 2) and rows.dtype is jg.int64
    assert (rows[:, 0] != rows[:, 1]).all().item()
    assert abs((rows[:, 0] == 2).double().mean().item() - 0.5) < 0.03
    assert jg.multinomial(weights, 2).sort().values.tolist() == [0, 2]
    with pytest.raises(RuntimeError):
        jg.multinomial(weights, 4)
