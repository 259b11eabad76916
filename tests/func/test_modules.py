"""Modules as functions: gradients of each sample, ensembles, adapted models, penalties; eagerly and compiled."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.func import functional_call, grad, grad_and_value, hessian, jvp, stack_module_state, vmap


def leaves(tree):
    return [t.detach().numpy() for t in jg.pytree.flatten(tree)[0]]


def close(have, want, atol=2e-5):
    for h, w in zip(leaves(have), leaves(want), strict=True):
        np.testing.assert_allclose(h, w, atol=atol, rtol=1e-4)


def on_both_ways(f, *calls):
    """`f` eagerly and compiled, twice on each of several arguments; the results of the first."""
    compiled = jg.compile(f)
    for args in calls:
        for _ in range(2):
            close(compiled(*args), f(*args))
    return f(*calls[0])


LAYERS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2)), (3,)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(0), nn.Linear(12, 2)
        ),
        (2, 4, 4),
    ),
    "batch norm": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
    "batch norm, evaluating": (lambda: nn.BatchNorm1d(3).eval(), (4, 3)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    "LSTM": (lambda: nn.LSTM(3, 4, batch_first=True), (2, 5, 3)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 4, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_each_sample(name):
    jg.manual_seed(0)
    make, shape = LAYERS[name]
    model = make()
    params = {k: v.detach() for k, v in model.named_parameters()}
    buffers = {k: v.detach() for k, v in model.named_buffers()}
    x = jg.randn(3, *shape)

    def loss(p, x):
        out = functional_call(model, (p, buffers), (x,))
        return ((out[0] if isinstance(out, tuple) else out) ** 2).sum()

    found = on_both_ways(vmap(grad(loss), in_dims=(None, 0)), (params, x), (params, 2 * x))
    for i in range(3):
        close({k: v[i] for k, v in found.items()}, grad(loss)(params, x[i]))
    assert all(p.grad is None for p in model.parameters())


def test_embeddings():
    table = nn.Embedding(7, 3)
    params = {"weight": table.weight.detach()}
    x = jg.randint(7, (4, 5))
    f = vmap(grad(lambda p, x: (functional_call(table, p, (x,)) ** 2).sum()), in_dims=(None, 0))
    found = on_both_ways(f, (params, x))
    assert found["weight"].shape == (4, 7, 3)
    labels = jg.tensor([0, 2, 1])
    scores = jg.randn(3, 4)
    picked = on_both_ways(vmap(lambda s, i: s.log_softmax(-1)[i]), (scores, labels))
    close(picked, jg.stack([s.log_softmax(-1)[i] for s, i in zip(scores, [0, 2, 1], strict=True)]))


def test_ensembles():
    models = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)) for _ in range(3)]
    for m in models:
        m.eval()
    params, buffers = stack_module_state(models)
    assert all(p.requires_grad for p in params.values())
    x = jg.randn(5, 3)
    f = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))
    found = on_both_ways(f, (params, buffers, x))
    close(found, jg.stack([m(x) for m in models]))
    found.sum().backward()
    assert params["0.weight"].grad.shape == (3, 4, 3)


def test_tied_and_strict():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model, x = Tied(), jg.ones(1, 2)
    two = jg.eye(2) * 2
    close(functional_call(model, {"a.weight": two}, (x,)), 4 * x)
    with pytest.raises(RuntimeError):
        functional_call(model, {"c": two}, (x,), strict=True)
    assert model.a.weight is model.b.weight


def test_adapting_in_an_inner_loop():
    jg.manual_seed(1)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    params = {k: v.detach() for k, v in model.named_parameters()}

    def error(p, x, y):
        return ((functional_call(model, p, (x,)) - y) ** 2).mean()

    def after_adapting(p, x, y, x_new, y_new):
        for _ in range(2):
            step = grad(error)(p, x, y)
            p = {k: v - 0.1 * step[k] for k, v in p.items()}
        return error(p, x_new, y_new)

    def meta(p, *tasks):
        return vmap(after_adapting, in_dims=(None, 0, 0, 0, 0))(p, *tasks).mean()

    tasks = [jg.randn(4, 5, 1) for _ in range(4)]
    gradient, value = on_both_ways(grad_and_value(meta), (params, *tasks), (params, *[2 * t for t in tasks]))
    singles = [grad_and_value(after_adapting)(params, *[t[i] for t in tasks]) for i in range(4)]
    close(value, sum(v for _, v in singles) / 4)
    close(gradient["0.weight"], sum(g["0.weight"] for g, _ in singles) / 4)


def test_a_penalty_on_gradients():
    jg.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    x = jg.randn(4, 3)

    def by_transform(x):
        slopes = vmap(grad(lambda row: model(row).sum()))(x)
        return ((slopes.norm(dim=1) - 1) ** 2).mean()

    def by_tape(x):
        x = x.clone().requires_grad_()
        (slopes,) = jg.autograd.grad(model(x).sum(), x, create_graph=True)
        return ((slopes.norm(dim=1) - 1) ** 2).mean()

    def step(penalty):
        model.zero_grad()
        value = penalty(x)
        value.backward()
        return value.item(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    want = step(by_tape)
    for penalty in (by_transform, jg.compile(by_transform)):
        for _ in range(2):
            have = step(penalty)
            assert have[0] == pytest.approx(want[0], rel=1e-5)
            close(have[1][:3], want[1][:3])


def test_second_derivatives_of_a_module():
    jg.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    f = lambda x: model(x).sum()  # noqa: E731
    x = jg.randn(2, 3)
    with jg.no_grad():
        found = on_both_ways(vmap(hessian(f)), (x,), (2 * x,))
        compiled = jg.compile(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
        compiled.load_state_dict(model.state_dict())
        close(vmap(hessian(lambda v: compiled(v).sum()))(x), found)
        on_both_ways(lambda v: jvp(grad(f), (v,), (v,)), (x[0],))


def test_dropout():
    layer = nn.Dropout(0.5)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(layer)(jg.ones(2, 50))
    different = vmap(layer, randomness="different")(jg.ones(2, 50))
    assert (different[0] != different[1]).any()
    same = vmap(layer, randomness="same")(jg.ones(2, 50))
    assert (same[0] == same[1]).all()
    close(vmap(layer.eval())(jg.ones(2, 50)), jg.ones(2, 50))


def test_running_statistics_are_one_for_all():
    with pytest.raises(RuntimeError, match="batch_norm is not possible"):
        vmap(nn.BatchNorm1d(3))(jg.randn(2, 4, 3))


def test_hooks_and_lower_precision():
    jg.manual_seed(4)
    x, layer = jg.randn(4, 3), nn.Linear(3, 2)
    params = {k: v.detach() for k, v in layer.named_parameters()}

    def hooked(x):
        y = x * 1
        y.register_hook(lambda g: 2 * g)
        return (y * 3).sum()

    close(on_both_ways(vmap(grad(hooked)), (x,)), jg.full((4, 3), 6.0))

    def lower(p, x):
        with jg.autocast("cpu", dtype=jg.bfloat16):
            return functional_call(layer, p, (x,)).float().pow(2).sum()

    found = on_both_ways(vmap(grad(lower), in_dims=(None, 0)), (params, x))
    assert found["weight"].dtype is jg.float32
    close({k: v[0] for k, v in found.items()}, grad(lower)(params, x[0]), atol=1e-2)
