"""Eager steps as one native call: the same as step by step, whatever changes between them."""

import copy
import pickle

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.codegen.join import Joined
from jitgrad.optim import launch

SHAPES = [(4, 5), (7,), (), (4, 5), (3, 3)]
MAKERS = {
    "SGD": lambda p: jg.optim.SGD(p, lr=0.1),
    "momentum": lambda p: jg.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, maximize=True),
    "Adam": lambda p: jg.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: jg.optim.AdamW(p, lr=0.01),
    "NAdam": lambda p: jg.optim.NAdam(p),
    "RAdam": lambda p: jg.optim.RAdam(p),
    "Adagrad": lambda p: jg.optim.Adagrad(p, lr_decay=0.1),
    "RMSprop": lambda p: jg.optim.RMSprop(p, momentum=0.9, centered=True),
    "ASGD": lambda p: jg.optim.ASGD(p, t0=3),
}


@pytest.fixture
def calls(monkeypatch):
    """How many native calls joined executables have made."""
    made = []
    enter = Joined._enter

    def counted(self, arrays):
        made.append(len(arrays))
        return enter(self, arrays)

    monkeypatch.setattr(Joined, "_enter", counted)
    return made


def parameters(shapes=SHAPES, seed=0):
    rng = np.random.default_rng(seed)
    return [jg.tensor(rng.standard_normal(s).astype("f4"), requires_grad=True) for s in shapes]


def set_gradients(params, seed):
    rng = np.random.default_rng(seed)
    for p in params:
        p.grad = jg.tensor(rng.standard_normal(tuple(p.shape)).astype("f4"))


def step(optimizer, params, seed):
    set_gradients(params, seed)
    optimizer.step()


def op_by_op(monkeypatch):
    monkeypatch.setattr(launch, "can_launch", lambda optimizer, mode: False)


def assert_same(params, others, optimizer, other, tolerance=2e-6):
    for p, q in zip(params, others, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tolerance, atol=tolerance)
        mine, theirs = optimizer.state.get(p, {}), other.state.get(q, {})
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_allclose(mine[name].numpy(), theirs[name].numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MAKERS)
def test_one_native_call_that_does_what_ops_do(name, calls, monkeypatch):
    params, others = parameters(), parameters()
    optimizer, other = MAKERS[name](params), MAKERS[name](others)
    for seed in range(7):
        before = len(calls)
        step(optimizer, params, seed)
        assert len(calls) - before == (1 if seed >= 2 or (seed == 1 and name in ("SGD", "Adagrad")) else 0)
    op_by_op(monkeypatch)
    for seed in range(7):
        step(other, others, seed)
    assert_same(params, others, optimizer, other)


@pytest.mark.parametrize("name", ["momentum", "Adam", "ASGD"])
def test_each_parameter_moves_as_if_alone(name):
    together, alone = parameters(), parameters()
    optimizer, single = MAKERS[name](together), [MAKERS[name]([p]) for p in alone]
    for seed in range(6):
        step(optimizer, together, seed)
        set_gradients(alone, seed)
        for o in single:
            o.step()
    for p, q in zip(together, alone, strict=True):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())


def test_a_schedule_compiles_nothing(calls):
    params = parameters()
    optimizer = jg.optim.Adam(params, lr=0.1)
    for seed in range(3):
        step(optimizer, params, seed)
    values = [p.detach().clone().numpy() for p in params]
    with jg.assert_no_compile():
        optimizer.param_groups[0]["lr"] = 1e-30
        step(optimizer, params, 3)
    assert len(calls) == 2
    assert all(np.array_equal(p.detach().numpy(), v) for p, v in zip(params, values, strict=True))


def test_many_parameters_share_the_threads(calls, monkeypatch):
    shapes = [(60, 200 + i % 7) for i in range(64)]
    params, others = parameters(shapes), parameters(shapes)
    optimizer, other = MAKERS["AdamW"](params), MAKERS["AdamW"](others)
    for seed in range(5):
        step(optimizer, params, seed)
    assert len(calls) == 3
    code = optimizer._launcher._kept[(True,) * 64, None]._joined._code
    assert code.is_shared
    assert len(code.inner) > 1
    assert code.steps < 63 + 10  # numbers that are computed once, 63 copies of the count, one launch
    op_by_op(monkeypatch)
    for seed in range(5):
        step(other, others, seed)
    assert_same(params, others, optimizer, other)


@pytest.mark.parametrize("name", ["SGD", "momentum", "Adam"])
def test_gradients_that_come_and_go(name, monkeypatch):
    def train():
        params = parameters()
        optimizer = MAKERS[name](params)
        for seed in range(12):
            set_gradients(params, seed)
            if seed % 3 == 1:
                params[1].grad = None
            if seed < 4:
                params[4].grad = None  # so that it has taken fewer steps than the others
            optimizer.step()
        return params, optimizer

    params, optimizer = train()
    op_by_op(monkeypatch)
    others, other = train()
    assert_same(params, others, optimizer, other)


def test_changes_between_steps_are_seen(monkeypatch):
    def train():
        params = parameters()
        optimizer = jg.optim.Adam(params, lr=0.01)
        added = parameters([(6,)], 5)
        for seed in range(16):
            step(optimizer, params + (added if seed >= 8 else []), seed)
            if seed == 3:
                optimizer.state[params[0]]["step"].fill_(10)
            if seed == 5:
                params[0].data = params[0].detach() * 2
            if seed == 6:
                optimizer.param_groups[0]["weight_decay"] = 0.1
            if seed == 7:
                optimizer.add_param_group({"params": added, "lr": 0.1, "betas": (0.5, 0.9)})
            if seed == 11:
                optimizer.load_state_dict(optimizer.state_dict())
            if seed == 12:
                with jg.no_grad():
                    params[1].mul_(0.5)
            if seed > 12:
                jg.ones(2).requires_grad_()  # compiled functions look at their tensors again
        return params + added, optimizer

    params, optimizer = train()
    op_by_op(monkeypatch)
    others, other = train()
    assert_same(params, others, optimizer, other)


def test_a_rate_that_is_a_tensor(calls):
    params, others = parameters(), parameters()
    rate = jg.tensor(0.1)
    optimizer, other = jg.optim.Adam(params, lr=rate), jg.optim.Adam(others, lr=0.1)
    for seed in range(5):
        if seed == 3:
            rate.mul_(0.5)
            other.param_groups[0]["lr"] = 0.05
        step(optimizer, params, seed)
        step(other, others, seed)
    assert len(calls) == 6
    assert_same(params, others, optimizer, other)


def test_memory_that_is_shared_or_strided(monkeypatch):
    def train():
        flat = jg.tensor(np.arange(12, dtype="f4"))
        views = [flat[:6].requires_grad_(), flat[6:].requires_grad_()]
        strided = jg.tensor(np.arange(12, dtype="f4").reshape(3, 4).T.copy().T, requires_grad=True)
        strided.data = jg.arange(12.0).reshape(4, 3).t()
        own = [jg.ones(4, requires_grad=True)]
        groups = [jg.optim.SGD(views, lr=0.1), jg.optim.Adam([strided], lr=0.1), jg.optim.SGD(own, lr=0.1)]
        for seed in range(5):
            for params, optimizer in zip((views, [strided]), groups, strict=False):
                step(optimizer, params, seed)
            own[0].grad = own[0].detach()  # a gradient that is the parameter's own memory
            groups[2].step()
        return [flat, *views, strided, *own]

    got = train()
    op_by_op(monkeypatch)
    for a, b in zip(got, train(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


def test_writes_are_counted(calls):
    w = jg.ones(3, requires_grad=True)
    optimizer = jg.optim.SGD([w], lr=0.1)
    for _ in range(3):
        loss = (w * w).sum()
        w.grad = jg.ones(3)
        optimizer.step()
    assert len(calls) == 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_copies_and_pickles_start_anew(calls):
    params = parameters()
    optimizer = jg.optim.Adam(params)
    for seed in range(4):
        step(optimizer, params, seed)
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert "_launcher" not in other.__dict__
        step(other, other.param_groups[0]["params"], 4)


def test_switched_off(calls, monkeypatch):
    monkeypatch.setattr(jg.config, "compile", False)
    params = parameters()
    optimizer = jg.optim.Adam(params)
    for seed in range(4):
        step(optimizer, params, seed)
    assert not calls
