"""Large tensors run on generated kernels eagerly, with the results and errors of small ones."""

import numpy as np
import pytest

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad.backend import counters


@pytest.mark.parametrize("shape", [(1103, 1009), (307, 509)])  # which no other test compiles for
def test_results_equal_numpys(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    t = jg.tensor(x)
    graphs = counters.graphs
    for _ in range(3):
        np.testing.assert_allclose(t.exp().numpy(), np.exp(x), rtol=1e-6)
        np.testing.assert_allclose((t + t).numpy(), x + x)
        np.testing.assert_allclose(t.sum(0).numpy(), x.astype("f8").sum(0), rtol=1e-4, atol=1e-3)
        want = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(F.softmax(t, 1).numpy(), want / want.sum(1, keepdims=True), rtol=1e-5)
    assert counters.graphs >= graphs + 4
    before = counters.graphs
    t.exp()
    assert counters.graphs == before


@pytest.mark.parametrize("dtype", ["f4", "bfloat16"])
def test_transposed_and_sliced_ones_are_as_contiguous_ones(dtype):
    whole = jg.tensor(np.random.default_rng(0).standard_normal((601, 307)).astype("f4")).to(
        jg.bfloat16 if dtype == "bfloat16" else jg.float32
    )
    functions = [
        lambda x: x.sum(0), lambda x: x.amax(1), lambda x: x.sum(), lambda x: x.argmax(0), lambda x: F.gelu(x),
        lambda x: F.softmax(x, 1), lambda x: x.exp(), lambda x: x * x, lambda x: x.cumsum(0),
    ]  # fmt: skip
    for x in (whole.t(), whole[:, 3:-4], whole[3:, ::2].t()):
        for f in functions:
            for _ in range(3):
                got, want = f(x), f(x.contiguous())
                np.testing.assert_allclose(got.float().numpy(), want.float().numpy(), rtol=1e-2, atol=1e-2)
                assert got.shape == want.shape
    assert (whole.t() * 2).stride() == (1, 307) and (whole.t().sum(0)).is_contiguous()


def test_random_numbers_do_not_depend_on_the_way():
    jg.manual_seed(1)
    whole = jg.rand(1 << 20)
    jg.manual_seed(1)
    jg.config.compile = False
    try:
        by_numpy = jg.rand(1 << 20)
    finally:
        jg.config.compile = True
    assert (whole == by_numpy).all().item()


def test_errors_are_those_of_small_tensors():
    x, zero = jg.ones(1 << 20, dtype=jg.int64), jg.zeros(1 << 20, dtype=jg.int64)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            x // zero
    logits, target = jg.zeros(1 << 12, 1 << 8), jg.full((1 << 12,), 256)
    for _ in range(2):
        with pytest.raises(IndexError, match=r"out of (range|bounds)"):
            F.cross_entropy(logits, target)


def test_gradients_flow():
    x = jg.rand(1 << 20).requires_grad_()
    x.sigmoid().sum().backward()
    s = 1 / (1 + np.exp(-x.detach().numpy().astype("f8")))
    np.testing.assert_allclose(x.grad.numpy(), s * (1 - s), rtol=1e-5, atol=1e-7)


def test_strided_operands():
    x = jg.rand(1000, 1200)
    for _ in range(2):
        np.testing.assert_allclose(x.t().exp().numpy(), np.exp(x.numpy().T), rtol=1e-6)


def test_draws_of_some_thousand_numbers_are_the_same_by_kernels():
    for draw in (
        lambda: jg.rand(70, 80), lambda: jg.rand(5001, dtype=jg.float64), lambda: jg.randint(-9, 1000, (5000,)),
        lambda: jg.rand(9000, dtype=jg.bfloat16), lambda: jg.randint(0, 99, (100, 60), dtype=jg.int16),
    ):  # fmt: skip
        seen = []
        for _ in range(3):
            jg.manual_seed(11)
            jg.rand(3)
            seen.append((draw().float().numpy().tobytes(), jg.random.default_generator.offset))
        assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("count", [(), 5, 5000, 50_000, 2_000_000])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-0.0, None), (None, 0.0), (0.25, 0.5), (0.5, 0.25), (-1, None)])
def test_clamped_zeros_keep_their_sign(count, bounds):
    """What is not beyond a bound stays as it is to the bit, NaN and negative zeros too."""
    x = np.resize(np.float32([-0.0, 0.0, np.nan, -2, 0.3, 7]), count)
    want = x
    for bound, beyond in zip(bounds, (np.less, np.greater), strict=True):
        if bound is not None:
            want = np.where(beyond(want, np.float32(bound)), np.float32(bound), want)
    t = jg.from_numpy(x.copy())
    assert jg.clamp(t, *bounds).numpy().tobytes() == want.tobytes()
    assert t.numpy().tobytes() == x.tobytes()


def test_scattering_many_elements():
    """A kernel from the second call on."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, 100, (100, 100))
    base, source = rng.uniform(size=(2, 100, 100))
    want = base.copy()
    np.add.at(want, (np.arange(100)[:, None], index), source)
    for _ in range(4):
        got = jg.from_numpy(base).scatter_add(1, jg.from_numpy(index), jg.from_numpy(source))
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    with pytest.raises((IndexError, RuntimeError)):
        jg.from_numpy(base).scatter_add(1, jg.from_numpy(index + 100), jg.from_numpy(source))


def test_no_kernel_is_made_where_none_may_be():
    x = jg.rand(1109, 1013)
    with jg.assert_no_compile():
        for _ in range(3):
            x.exp(), jg.randn(4, 331, 16)
    graphs = counters.graphs
    x.exp()
    assert counters.graphs == graphs + 1
