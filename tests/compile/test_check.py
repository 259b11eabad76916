"""`compile(check=True)`: compiled calls are compared with eager ones; planted faults are found and located."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiler import CheckError, specialise
from jitgrad.compiler.guards import Guards
from jitgrad.ir.ops.math import Tanh


def test_a_wrong_kernel_is_found_with_its_node_and_line(monkeypatch):
    monkeypatch.setattr(Tanh, "scalar", lambda self, *xs: xs[0] * 1.5)

    @jg.compile(check=True)
    def wrong_kernel(x):
        h = x * 2 + 1
        t = h.tanh()  # the line
        return t.exp().sum(), h

    with pytest.raises(CheckError) as caught:
        wrong_kernel(jg.linspace(-1, 1, 12).reshape(3, 4))
    text = str(caught.value)
    assert "compiled and eager differ: result 0" in text
    line = wrong_kernel._f.__code__.co_firstlineno + 3
    assert f"test_check.py:{line} in" in text and "first differing node: tanh(f32[3,4]) : f32[3,4] at " in text


def test_a_change_that_guards_miss_is_found(monkeypatch):
    class Scaled(jg.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        def forward(self, x):
            return (x + 1) * self.scale

    net = jg.compile(Scaled(), check=True)
    net(jg.ones(3))
    monkeypatch.setattr(Guards, "hold", lambda self, leaves: True)
    net(jg.ones(3))
    net.scale = 3.0
    with pytest.raises(
        CheckError, match=r"not what Python does now(.*); first differing node: full\(\) : f32"
    ) as caught:
        net(jg.ones(3))
    assert "test_check.py" in str(caught.value)


def test_a_lost_write_and_a_lost_history_are_found(monkeypatch):
    @jg.compile(check=True)
    def writes(x):
        x.mul_(3)

    x = jg.ones(4, 3).t()
    writes(x)
    with monkeypatch.context() as planted:
        planted.setattr(specialise, "assign", lambda target, source: None)
        with pytest.raises(CheckError, match=r"the value of x: element \[0, 0\] is 3.0, eager 9.0"):
            writes(x)
    w = jg.ones(3, requires_grad=True)
    multiplies = jg.compile(lambda x: x * w, check=True)
    multiplies(jg.ones(3))
    monkeypatch.setattr(specialise._Maker, "_with_history", lambda self, t, history, out: t)
    with pytest.raises(CheckError, match="requires_grad is False, eager True"):
        multiplies(jg.ones(3))


def test_what_is_right_passes_and_is_left_as_the_compiled_call_left_it():
    def program(compile):
        jg.manual_seed(0)
        net = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.BatchNorm1d(8), jg.nn.Dropout(0.5), jg.nn.Linear(8, 2))
        optimizer = jg.optim.Adam(net.parameters(), lr=0.01)
        x = jg.tensor(np.linspace(-1, 1, 64, dtype="f4").reshape(16, 4))

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        losses = [step(x).item() for _ in range(4)]
        return losses, jg.rand(2).tolist(), int(net[1].num_batches_tracked)

    plain, checked = program(jg.compile), program(lambda f: jg.compile(f, check=True))
    np.testing.assert_allclose(plain[0], checked[0], rtol=1e-4)
    assert plain[1:] == checked[1:]


def test_results_still_have_gradients_writes_and_segments():
    w = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    buffer = jg.zeros(3)

    @jg.compile(check=True)
    def f(x):
        buffer.add_(x)
        if x.sum() > 0:
            return (w * x).sum() * buffer.sum()
        return (w * w).sum()

    for k in range(3):
        f(jg.ones(3)).backward()
        assert w.grad.tolist() == [3.0 * (k + 1) for _ in range(3)]
        w.grad = None
    f(-jg.ones(3)).backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0] and buffer.tolist() == [2.0, 2.0, 2.0]


def test_effects_happen_once_and_errors_stay():
    kept = []

    @jg.compile(check=True)
    def appends(x):
        kept.append(1)
        return x + 1

    with pytest.warns(UserWarning, match="Python runs at each call"):
        for _ in range(6):
            appends(jg.ones(2))
    assert kept == [1] * 6
    indexed = jg.compile(lambda x, i: x[i], check=True)
    indexed(jg.ones(3), jg.tensor([1]))
    with pytest.raises(IndexError):
        indexed(jg.ones(3), jg.tensor([5]))


def test_the_switch(monkeypatch):
    monkeypatch.setattr(jg.config, "check", True)
    monkeypatch.setattr(Tanh, "scalar", lambda self, *xs: xs[0] * 1.25)
    with pytest.raises(CheckError):
        jg.compile(lambda x: x.tanh() + 0.5)(jg.ones(3))
    jg.compile(lambda x: x.tanh() + 0.75, check=False)(jg.ones(3))
