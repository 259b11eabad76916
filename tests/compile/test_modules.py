"""Compiled modules: the same object as before, and what its code reads beside its attributes is followed."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn

SCALE = 2.0


def helper(x):
    return x * SCALE


class Inner(nn.Module):
    factor = 3.0

    def __init__(self):
        super().__init__()
        self.items = [1.0, 2.0]
        self.options = {"a": 1.0}
        self.count = 1

    def forward(self, x):
        return self._scaled(helper(x)) * self.items[0] * self.options["a"]

    def _scaled(self, x):
        return x * self.factor * self.count


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)


def set_global(value):
    globals()["SCALE"] = value


CHANGES = {
    "global of a function": (lambda m: set_global(4.0), 2),
    "inside a list": (lambda m: m.inner.items.__setitem__(0, 10.0), 10),
    "inside a dict": (lambda m: m.inner.options.update(a=3.0), 3),
    "class attribute": (lambda m: setattr(Inner, "factor", 15.0), 5),
    "attribute": (lambda m: setattr(m.inner, "count", 7), 7),
    "method": (lambda m: setattr(Inner, "_scaled", lambda self, x: x * 24), 8),
    "forward of the object": (lambda m: setattr(m.inner, "forward", lambda x: x * 54), 9),
    "hook": (lambda m: m.inner.register_forward_hook(lambda m, a, out: out * 4), 4),
}


@pytest.fixture
def restored(monkeypatch):
    """What the changes change is put back."""
    monkeypatch.setattr(Inner, "factor", Inner.factor)
    monkeypatch.setattr(Inner, "_scaled", Inner._scaled)
    before = SCALE
    yield
    set_global(before)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", ["module", "function"])
def test_what_forward_reads_is_followed(change, how, restored):
    model, x = Outer(), jg.ones(2)
    f = jg.compile(model) if how == "module" else jg.compile(lambda x: model(x))
    assert f(x).tolist() == f(x).tolist() == [6, 6]
    apply, factor = CHANGES[change]
    apply(model)
    assert f(x).tolist() == f(x).tolist() == [6 * factor] * 2


def test_what_a_hook_reads_is_followed():
    model, x, factors = nn.Identity(), jg.ones(1), [2.0]
    model.register_forward_hook(lambda m, a, out: out * factors[0])
    jg.compile(model)
    assert model(x).item() == model(x).item() == 2
    factors[0] = 5.0
    assert model(x).item() == 5


def test_it_is_the_same_module():
    model = Outer()
    names, text = list(model.state_dict()), repr(model)
    assert jg.compile(model) is model and list(model.state_dict()) == names and repr(model) == text
    model(jg.ones(2))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is Outer and list(other.state_dict()) == names
        np.testing.assert_array_equal(other(jg.ones(2)).numpy(), model(jg.ones(2)).numpy())
    model.compile()
    assert model(jg.ones(2)).tolist() == [6, 6]
    assert len(model.explain().specialisations) == 1
    with pytest.raises(RuntimeError, match="not compiled"):
        Outer().explain()


def test_gradients_flow_through_a_compiled_module():
    jg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    eager = copy.deepcopy(model)
    jg.compile(model)
    for _ in range(3):
        x = jg.randn(5, 3, requires_grad=True)
        z = x.detach().clone().requires_grad_()
        (g,) = jg.autograd.grad(model(x).sum(), x, create_graph=True)
        (h,) = jg.autograd.grad(eager(z).sum(), z, create_graph=True)
        (g**2).sum().backward()
        (h**2).sum().backward()
        np.testing.assert_allclose(g.detach().numpy(), h.detach().numpy(), rtol=1e-5, atol=1e-7)
        for p, q in zip(model.parameters(), eager.parameters(), strict=True):
            if q.grad is not None:
                np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_module_that_keeps_something_in_forward_runs_eagerly_and_says_so():
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            self.seen = x * 2
            return x * self.calls

    model, x = jg.compile(Keeping()), jg.ones(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outs = [model(x * i).item() for i in range(1, 5)]
    assert outs == [1, 4, 9, 16] and model.calls == 4 and model.seen.item() == 8
    assert len(caught) == 1 and "changed attributes of Keeping" in str(caught[0].message)


def test_scopes_name_the_modules():
    model = Outer()
    f = jg.compile(lambda x: model.linear(model(x)))
    f(jg.ones(2))
    (spec,) = f.explain().specialisations
    scopes = {node.scope for node in spec.graph.nodes}
    assert ("Outer", "inner") in scopes and ("linear",) in scopes


def test_seeding_inside_a_compiled_function():
    @jg.compile
    def f(x):
        y = x + jg.rand(2)
        jg.manual_seed(0)
        return y, jg.rand(2)

    jg.manual_seed(1)
    with pytest.warns(UserWarning, match="random generator was given another state"):
        first = f(jg.zeros(2))
    jg.manual_seed(1)
    for got, want in zip(f(jg.zeros(2)), first, strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    jg.manual_seed(0)
    np.testing.assert_array_equal(first[1].numpy(), jg.rand(2).numpy())
