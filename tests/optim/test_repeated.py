"""Steps of many parameters that are alike: traced once, and the same as eager steps."""

import numpy as np
import pytest

import jitgrad as jg

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01, "maximize": True},
    "RMSprop": {"lr": 0.01, "centered": True},
    "Adagrad": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "Adadelta": {},
    "Rprop": {},
}


def parameters():
    """Two shapes of several parameters, one that is frozen, and a view of another's memory."""
    rng = np.random.default_rng(0)
    shapes = [(3,), (2, 3), (3,), (3,), (2, 3), (3,)]
    made = [jg.tensor(rng.standard_normal(s).astype("f4"), requires_grad=True) for s in shapes]
    made[3].requires_grad_(False)
    memory = jg.tensor(rng.standard_normal((2, 3)).astype("f4"))
    return [*made, memory[0].requires_grad_()]


def train(name, options, compiled):
    ps = parameters()
    optimizer = getattr(jg.optim, name)([{"params": ps[:4]}, {"params": ps[4:], "lr": 0.05}], **options)

    def step(x):
        optimizer.zero_grad()
        loss = sum(((p * x).tanh() * (k + 1)).sum() for k, p in enumerate(ps))
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = jg.compile(step) if compiled else step
    losses = [run(jg.tensor([0.5, -1.0, n])).item() for n in (1.0, 2.0, 3.0, 1.5)]
    states = [v for p in ps for v in optimizer.state.get(p, {}).values() if isinstance(v, jg.Tensor)]
    return [np.array(losses), *(t.detach().numpy() for t in (*ps, *states))]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_as_eager(name):
    got, want = (train(name, OPTIMIZERS[name], compiled) for compiled in (True, False))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def noted(calls, update):
    return lambda self, p, *rest: (calls.append(p), update(self, p, *rest))[1]


def test_what_is_alike_is_traced_once(monkeypatch):
    calls = []
    monkeypatch.setattr(jg.optim.SGD, "_update", noted(calls, jg.optim.SGD._update))
    ps = [jg.ones(n, requires_grad=True) for n in (3, 3, (2, 2), 2, (3, 1))]
    optimizer = jg.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1)

    @jg.compile
    def step():
        optimizer.zero_grad()
        sum((p * p).sum() for p in ps).backward()
        optimizer.step()

    step()
    assert [tuple(p.shape) for p in calls] == [(3,), (2, 2)]
    for p in ps:
        np.testing.assert_allclose(p.detach().numpy(), 0.79, rtol=1e-6)


@pytest.mark.parametrize("by", ["rule", "elements"])
def test_what_may_go_by_lengths_is_traced_for_each_shape(monkeypatch, by):
    """A rule of somebody else's, and one that computes with other elements."""

    class Own(jg.optim.SGD):
        def _update(self, p, grad, state, group, numbers):
            share = 1 / p.numel() if by == "rule" else grad.mean()
            super()._update(p, share * grad, state, group, numbers)

    calls = []
    if by == "elements":  # as if it were one of jitgrad's
        Own.__module__ = jg.optim.SGD.__module__
    monkeypatch.setattr(Own, "_update", noted(calls, Own._update))
    ps = [jg.ones(n, requires_grad=True) for n in (3, 2, 3, 4)]
    optimizer = Own(ps, lr=0.1)

    @jg.compile
    def step():
        optimizer.zero_grad()
        sum((p * p).sum() for p in ps).backward()
        optimizer.step()

    step()
    assert [tuple(p.shape) for p in calls] == [(3,), (2,), (4,)]
    for p in ps:
        want = 1 - 0.2 / p.numel() if by == "rule" else 0.6
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-6)
