"""`nn.functional` in place, compiled and at random, and what stays away from NaN."""

import numpy as np
import pytest

import jitgrad as jg

F = jg.nn.functional

IN_PLACE = {
    "relu_": (F.relu_, F.relu, ()), "elu_": (F.elu_, F.elu, (0.5,)), "celu_": (F.celu_, F.celu, (0.5,)),
    "selu_": (F.selu_, F.selu, ()), "leaky_relu_": (F.leaky_relu_, F.leaky_relu, (0.2,)),
    "hardtanh_": (F.hardtanh_, F.hardtanh, (-0.5, 0.25)), "threshold_": (F.threshold_, F.threshold, (0.1, 0.3)),
    "rrelu_": (F.rrelu_, F.rrelu, ()), "jg.celu_": (jg.celu_, F.celu, ()), "jg.relu_": (jg.relu_, F.relu, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    f_, f, arguments = IN_PLACE[name]
    x = jg.tensor([-2.0, -0.25, 0.5, 3.0], dtype=jg.float64, requires_grad=True)
    y = x * 1
    view = y[1:]
    assert f_(y, *arguments) is y
    want = f(x, *arguments)
    np.testing.assert_array_equal(y.tolist(), want.tolist())
    np.testing.assert_array_equal(view.tolist(), want[1:].tolist())
    grads = [jg.autograd.grad((r * jg.arange(1.0, 5.0)).sum(), x)[0].tolist() for r in (y, want)]
    np.testing.assert_allclose(*grads)
    with pytest.raises(RuntimeError, match="leaf"):
        f_(x, *arguments)


X = jg.tensor(np.random.default_rng(0).standard_normal((2, 4, 6, 6)))
GRID = jg.tensor(np.random.default_rng(1).uniform(-1.2, 1.2, (2, 3, 5, 2)))
COMPILED = {
    "nearest": lambda x: F.interpolate(x, (9, 4)),
    "bilinear": lambda x: F.interpolate(x, (9, 4), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic", align_corners=True),
    "antialias": lambda x: F.interpolate(x, (3, 2), mode="bilinear", antialias=True),
    "wide means": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 1) + F.adaptive_avg_pool1d(x.flatten(1), 5).mean(),
    "reflect": lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"),
    "circular": lambda x: F.pad(x, (2, 1, 0, 3), mode="circular"),
    "grid": lambda x: F.grid_sample(x, GRID, align_corners=False),
    "grid bicubic": lambda x: F.grid_sample(x, GRID, "bicubic", "reflection", True),
    "max pool with indices": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (4, 5), return_indices=True),
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "group norm": lambda x: F.group_norm(x, 2),
    "instance norm": lambda x: F.instance_norm(x),
    "local response": lambda x: F.local_response_norm(x, 3),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "bag": lambda x: F.embedding_bag(jg.tensor([0, 3, 1, 1]), x[0, 0], jg.tensor([0, 0, 3])),
    "pdist": lambda x: F.pdist(x.flatten(1)),
    "triplet": lambda x: F.triplet_margin_loss(x[0], x[1], x[0].flip(0), swap=True),
    "multilabel": lambda x: F.multilabel_margin_loss(x[0, :, 0], jg.tensor([[1, 0, -1, 2, 2, 2]] * 4)),
    "bce": lambda x: F.binary_cross_entropy(x.sigmoid(), x.flip(0).sigmoid().detach()),
    "fold": lambda x: F.fold(F.unfold(x, 3, padding=1, stride=2), (6, 6), 3, padding=1, stride=2),
    "transposed": lambda x: F.conv_transpose2d(x, X[:1, :1, :3, :3].expand(4, 1, 3, 3), None, 2, 1, 2, 1, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_is_eager(name):
    f = COMPILED[name]
    g = jg.compile(lambda x: f(x))
    want = _results(f)
    for _ in range(2):
        for have, expected in zip(_results(g), want, strict=True):
            np.testing.assert_allclose(have, expected, rtol=1e-9, atol=1e-11)


def _results(f):
    x = X.clone().requires_grad_()
    out = f(x)
    outs = out if isinstance(out, tuple) else (out,)
    (grad,) = jg.autograd.grad((outs[0] * outs[0]).sum(), x)
    return [t.detach().numpy() for t in (*outs, grad)]


def test_refused_values_are_refused_compiled_too():
    f = jg.compile(F.binary_cross_entropy)
    x = jg.tensor([0.5, 0.25])
    f(x, x), f(x, x)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        f(jg.tensor([0.5, 1.25]), x)
    g = jg.compile(lambda v: F.gaussian_nll_loss(x, x, v))
    g(x), g(x)
    with pytest.raises(ValueError, match="negative"):
        g(-x)


def test_weights_of_zero_spread_no_nan():
    x = jg.tensor([[[1.0, float("nan"), 3.0, 4.0, 5.0, float("inf"), 7.0]]])
    y = F.adaptive_avg_pool1d(x, 3)
    assert np.isfinite(y.numpy()[0, 0]).tolist() == [False, True, False]
    assert F.interpolate(x, 14).isfinite().sum().item() == 10


def test_large_inputs_run_on_kernels():
    """Above some thousands of elements eager composites are compiled when they come again."""
    x = jg.tensor(np.random.default_rng(0).standard_normal((2, 8, 40, 40)))
    small = [F.interpolate(x[i : i + 1, :1], (61, 33), mode="bilinear").numpy() for i in range(2)]
    for _ in range(3):
        y = F.interpolate(x, (61, 33), mode="bilinear").numpy()
        np.testing.assert_allclose(y[:, :1], np.concatenate(small), rtol=1e-12, atol=1e-15)
    values, at = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), x.flatten(2).gather(2, at.flatten(2)).reshape(at.shape).numpy())


def test_alpha_dropout_keeps_mean_and_variance():
    jg.manual_seed(0)
    x = jg.randn(400, 500)
    y = F.alpha_dropout(x, 0.3, training=True)
    assert abs(y.mean().item()) < 0.02 and abs(y.var().item() - 1) < 0.02
    z = F.feature_alpha_dropout(jg.ones(20, 30, 4), 0.5, training=True).numpy()
    assert (z == z[:, :, :1]).all() and len(np.unique(z)) == 2
    assert F.alpha_dropout(x, 0.3) is x
    assert (F.dropout2d(jg.ones(8, 30, 5, 5)).numpy().std((2, 3)) == 0).all()


def test_gumbel_softmax():
    jg.manual_seed(0)
    logits = jg.tensor([2.0, 0.0, 1.0], requires_grad=True)
    soft = F.gumbel_softmax(logits.expand(5000, 3), tau=0.5)
    np.testing.assert_allclose(soft.sum(1).detach().numpy(), 1, rtol=1e-5)
    hard = F.gumbel_softmax(logits.expand(5000, 3), hard=True)
    assert set(np.unique(hard.detach().numpy().round(5))) == {0, 1}
    np.testing.assert_allclose(hard.detach().mean(0).numpy(), logits.detach().softmax(0).numpy(), atol=0.03)
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum() > 0


def test_attention_with_dropout():
    jg.manual_seed(0)
    q = jg.randn(2, 3, 4, 5)
    full = F.scaled_dot_product_attention(q, q, jg.ones(2, 3, 4, 1))
    dropped = F.scaled_dot_product_attention(q, q, jg.ones(2, 3, 4, 1), dropout_p=0.5)
    np.testing.assert_allclose(full.numpy(), 1, rtol=1e-6)
    assert dropped.std() > 0.1 and abs(dropped.mean().item() - 1) < 0.5


def test_embedding_renorm_changes_the_table_in_place():
    table = jg.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    rows = F.embedding(jg.tensor([0, 1]), table, max_norm=1.0)
    np.testing.assert_allclose(rows.tolist(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    np.testing.assert_allclose(table.tolist(), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-5)
    rows.sum().backward()
    assert table.grad.tolist() == [[1, 1], [1, 1], [0, 0]]
