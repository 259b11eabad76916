"""Calls that come again take a shortcut; whatever a key or a guard would see, it sees too."""

import numpy as np
import pytest
from settled_calls import SETTLED, same, serves, settled

import jitgrad as jg
from jitgrad import nn

SCALE = 2.0


class Net(nn.Module):
    factor = 1.0

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.shift = nn.Parameter(jg.ones(3))
        self.offset = 0.5
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.inner(x) * self.factor + self.shift + self.offset) * SCALE


def scale_globally(net):
    globals()["SCALE"] = 3.0


def change_weight_data(net):
    net.inner.weight.data = jg.ones(3, 3)


def hook(net):
    net.inner.register_forward_hook(lambda module, args, out: out * 2)


CHANGES = {
    "train": lambda net: net.train(), "attribute": lambda net: setattr(net, "offset", 7.0),
    "class attribute": lambda net: setattr(Net, "factor", 5.0), "global": scale_globally,
    "method": lambda net: setattr(Net, "forward", lambda self, x: x + self.shift),
    "module": lambda net: setattr(net, "inner", nn.Linear(3, 3)), "frozen": lambda net: net.requires_grad_(False),
    "parameter": lambda net: setattr(net, "shift", nn.Parameter(jg.zeros(3))), "memory": change_weight_data,
    "hook": hook, "values": lambda net: net.shift.data.fill_(9.0),
    "load": lambda net: net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("inside", [False, True], ids=["module", "closure"])
def test_what_changes_is_seen(what, inside, monkeypatch):
    monkeypatch.setattr(Net, "factor", 1.0)
    monkeypatch.setattr(Net, "forward", Net.forward)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    net, x = Net().eval(), jg.ones(2, 3)
    compiled = settled((lambda x: net(x)) if inside else jg.compile(net), x)
    CHANGES[what](net)
    assert serves(compiled, x) == (what in ("values", "memory"))
    jg.manual_seed(0)
    got = compiled(x)
    jg.manual_seed(0)
    same(got, net._run(x))


def test_modes_are_seen():
    net, x = Net().eval(), jg.ones(2, 3)
    compiled = settled(lambda x: net(x), x)
    with jg.no_grad():
        assert not serves(compiled, x)
        same(compiled(x), net(x))
    with jg.inference_mode():
        assert not serves(compiled, x)
    with jg.autocast("cpu"):
        assert not serves(compiled, x)
        same(compiled(x), net(x))
    with jg.autograd.set_detect_anomaly(True):
        assert not serves(compiled, x)
    jg.set_default_dtype(jg.float64)
    try:
        assert not serves(compiled, x)
    finally:
        jg.set_default_dtype(jg.float32)
    with jg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert not serves(compiled, x)
    assert serves(compiled, x)


def test_arguments_are_seen():
    compiled = settled(lambda x, y, n: x * n + y.shape[0], jg.ones(3), jg.ones(4), 2)
    for x, y, n, fits in [
        (jg.ones(3), jg.ones(4), 2, True), (jg.ones(4), jg.ones(4), 2, False), (jg.ones(3), jg.ones(5), 2, False),
        (jg.ones(3), jg.ones(4), 3, False), (jg.ones(3), jg.ones(4), 2.0, False), (jg.ones(3), jg.ones(4), True, False),
        (jg.ones(3, dtype=jg.float64), jg.ones(4), 2, False), (jg.ones(3, 1), jg.ones(4), 2, False),
        (jg.ones(6)[::2], jg.ones(4), 2, False), (jg.ones(3, requires_grad=True), jg.ones(4), 2, False),
        (nn.Parameter(jg.ones(3)), jg.ones(4), 2, False),
    ]:  # fmt: skip
        assert serves(compiled, x, y, n) == fits
        same(compiled(x, y, n), x * n + y.shape[0])
    assert not serves(compiled, jg.ones(3))
    x = jg.ones(3)
    x.note = 1
    assert not serves(compiled, x, jg.ones(4), 2)


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_arguments_that_share_memory_are_seen():
    def f(x, y):
        x.add_(1)
        return x * y

    compiled = settled(f, jg.ones(4), jg.ones(4))
    base = jg.arange(8.0)
    for make in (lambda b: (b[:4], b[4:]), lambda b: (b[:4], b[2:6]), lambda b: (b[:4], b[:4]), lambda b: (b[:4],) * 2):
        a, b = base.clone(), base.clone()
        same(compiled(*make(a)), f(*make(b)))
        same(a, b)
        assert (a._version > 0) == (b._version > 0)


def test_a_cell_and_a_function_are_seen():
    cell = 1.0

    def inner(x, by=1.0):
        return x * by + cell

    compiled = settled(lambda x: inner(x), jg.ones(2))
    assert compiled(jg.ones(2)).tolist() == [2.0, 2.0]
    cell = 5.0
    assert not serves(compiled, jg.ones(2))
    assert compiled(jg.ones(2)).tolist() == [6.0, 6.0]
    inner.__defaults__ = (3.0,)
    assert compiled(jg.ones(2)).tolist() == [8.0, 8.0]
    inner.__code__ = (lambda x, by: x - cell).__code__
    assert compiled(jg.ones(2)).tolist() == [-4.0, -4.0]


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("width", [4, 400])
def test_training_steps_are_eager_ones(set_to_none, width):
    def train(compile):
        jg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
        optimizer = jg.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        schedule = jg.optim.lr_scheduler.StepLR(optimizer, 10)

        @compile
        def step(x, y):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach(), model[0].weight.grad

        losses, versions = [], []
        for k in range(3 * SETTLED):
            x = jg.full((8, 4), k / 60)
            loss, grad = step(x, x.sum(1, keepdim=True))
            losses += [loss.item(), grad.abs().sum().item()]
            schedule.step()
            versions.append([p._version for p in model.parameters()])
        return losses, np.diff(versions[-SETTLED:], axis=0).tolist(), [p.grad is None for p in model.parameters()]

    got, want = train(jg.compile), train(lambda f: f)
    np.testing.assert_allclose(got[0], want[0], rtol=2e-4, atol=1e-6)
    assert got[1:] == want[1:]


def test_histories_are_eager_ones():
    w, plain = jg.ones(3, requires_grad=True), jg.ones(3)

    def f(x):
        a = x * w + plain
        return a.exp(), a, x

    x = jg.ones(3)
    compiled = settled(f, x)
    seen = []
    for g in (compiled, f):
        w.grad = None
        b, a, same_x = g(x)
        assert same_x is x and a.requires_grad and a.grad_fn is not None
        (b.sum() + 2 * a.sum()).backward()
        seen.append(w.grad)
    same(*seen)
    b, _, _ = compiled(x)
    w.data.mul_(2)
    with jg.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c = compiled(x.requires_grad_())[0]
        with jg.no_grad():
            w.mul_(2)
        c.sum().backward()


def test_a_captured_tensor_that_gets_a_history():
    w = jg.ones(3)
    compiled = settled(lambda x: x * w, jg.ones(3))
    source = jg.ones(3, requires_grad=True)
    w.mul_(source)
    out = compiled(jg.ones(3))
    assert out.requires_grad
    out.sum().backward()
    assert source.grad.tolist() == [1.0] * 3


def test_a_captured_leaf_that_is_detached_in_place():
    w = jg.ones(3, requires_grad=True)
    compiled = settled(lambda x: x * w, jg.ones(3))
    assert compiled(jg.ones(3)).requires_grad
    w.detach_()
    assert not compiled(jg.ones(3)).requires_grad
    w.requires_grad_()
    assert compiled(jg.ones(3)).requires_grad


def test_random_numbers_go_on():
    def f(x):
        return nn.functional.dropout(x, 0.5) + jg.rand(16)

    compiled, x = settled(f, jg.ones(16)), jg.ones(16)
    assert serves(compiled, x)
    jg.manual_seed(3)
    got = [compiled(x) for _ in range(3)]
    jg.manual_seed(3)
    for a in got:
        same(a, f(x))


def test_calls_are_counted_and_seen_by_profilers():
    compiled, x = settled(lambda x: x * 2 + 1, jg.ones(3)), jg.ones(3)
    before = jg.compiler.counters.copy()
    compiled(x)
    assert (jg.compiler.counters - before).calls == 1
    (spec,) = compiled.explain().specialisations
    assert (compiled.explain().calls, spec.runs) == (SETTLED + 1, SETTLED + 1)
    with jg.profiler.profile() as profile:
        compiled(x)
    assert any(event.category == "compiled" for event in profile.events())


def test_two_specialisations_have_one_each():
    net, x = Net().eval(), jg.ones(2, 3)
    compiled = jg.compile(net)
    for _ in range(2 * SETTLED):
        compiled(x)
        with jg.no_grad():
            compiled(x)
    assert serves(compiled, x)
    with jg.no_grad():
        assert serves(compiled, x)
