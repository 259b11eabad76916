"""Optimizers against PyTorch's: the same trajectories, states, representations and errors."""

import contextlib
import copy
import pickle

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_pair import array  # noqa: E402

pytestmark = pytest.mark.torch

OPTIMIZERS = [
    "SGD(p, lr=0.1)",
    "SGD(p, lr=0.1, momentum=0.9)",
    "SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)",
    "SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "SGD(p, lr=0.1, weight_decay=0.1, maximize=True)",
    "Adam(p, lr=0.1)",
    "Adam(p, lr=0.1, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1)",
    "Adam(p, lr=0.1, amsgrad=True, maximize=True)",
    "Adam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)",
    "AdamW(p, lr=0.1)",
    "AdamW(p, lr=0.1, weight_decay=0.3, amsgrad=True)",
    "Adamax(p, lr=0.1)",
    "Adamax(p, lr=0.1, betas=(0.5, 0.9), weight_decay=0.1, maximize=True)",
    "NAdam(p, lr=0.1)",
    "NAdam(p, lr=0.1, weight_decay=0.1, momentum_decay=0.1)",
    "NAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)",
    "RAdam(p, lr=0.1)",
    "RAdam(p, lr=0.1, weight_decay=0.1, betas=(0.8, 0.9))",
    "RAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)",
    "Adagrad(p, lr=0.1)",
    "Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.3)",
    "Adadelta(p)",
    "Adadelta(p, lr=0.5, rho=0.5, weight_decay=0.1, maximize=True)",
    "RMSprop(p, lr=0.1)",
    "RMSprop(p, lr=0.1, alpha=0.9, weight_decay=0.1, momentum=0.5)",
    "RMSprop(p, lr=0.1, centered=True, momentum=0.5)",
    "Rprop(p, lr=0.1)",
    "Rprop(p, lr=0.1, etas=(0.3, 1.5), step_sizes=(0.01, 0.2))",
    "ASGD(p, lr=0.1)",
    "ASGD(p, lr=0.1, t0=2, lambd=0.1, weight_decay=0.1)",
    "Adafactor(p, lr=0.1)",
    "Adafactor(p, lr=0.1, weight_decay=0.1, eps=(1e-5, 0.1), d=1.5)",
    "SGD([{'params': p[:1], 'lr': 0.5}, {'params': p[1:], 'momentum': 0.5}], lr=0.01)",
    "Adam([{'params': p[:1], 'betas': (0.5, 0.6)}, {'params': p[1:]}], lr=0.05)",
    "Adam([('first', p[0]), ('second', p[1]), ('third', p[2])])",
]


def parameters(lib, dtype="f8"):
    return [lib.tensor(array(s, i, dtype), requires_grad=True) for i, s in enumerate([(3, 4), (5,), ()])]


def make(lib, text, p):
    return eval(f"lib.optim.{text}", {"lib": lib, "p": p})


def train(lib, optimizer, p, steps, start=0):
    """Descend on a function whose gradients change; the parameters after each step."""
    path = []
    for step in range(start, start + steps):
        loss = sum(((q * (1 + 0.1 * step) - 0.3) ** 2).sum() for q in p) + p[0].sum() * p[2]
        loss.backward()
        if step % 3 == 1:
            p[1].grad = None  # a parameter without gradient is passed over
        optimizer.step()
        optimizer.zero_grad()
        path.append([q.detach().numpy().copy() for q in p])
    return path


def assert_equal_paths(got, want, rtol):
    for mine, theirs in zip(got, want, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("text", OPTIMIZERS)
# Where squared gradients nearly cancel, float32 steps differ by more than a rounding: hence 1e-3.
@pytest.mark.parametrize(("dtype", "rtol"), [("f8", 1e-12), ("f4", 1e-3)])
def test_trajectory(text, dtype, rtol):
    mine, theirs = parameters(jg, dtype), parameters(torch, dtype)
    a, b = make(jg, text, mine), make(torch, text, theirs)
    assert repr(a) == repr(b)
    assert_equal_paths(train(jg, a, mine, 12), train(torch, b, theirs, 12), rtol)
    got, want = a.state_dict(), b.state_dict()
    assert got["param_groups"] == want["param_groups"]
    assert list(got["state"]) == list(want["state"])
    for key, state in want["state"].items():
        assert list(got["state"][key]) == list(state)
        for name, t in state.items():
            assert str(got["state"][key][name].dtype).split(".")[1] == str(t.dtype).split(".")[1]
            np.testing.assert_allclose(got["state"][key][name].numpy(), t.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("text", OPTIMIZERS)
def test_compiled_step(text):
    """A compiled step goes the eager way, and a schedule's change compiles nothing."""
    mine, theirs = parameters(jg), parameters(jg)
    a, b = make(jg, text, mine), make(jg, text, theirs)

    def step(optimizer, p, factor):
        loss = sum(((q * factor - 0.3) ** 2).sum() for q in p) + p[0].sum() * p[2]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    compiled = jg.compile(step)
    for i in range(6):
        factor = jg.tensor(1 + 0.1 * i, dtype=jg.float64)
        if i >= 3:
            for o in (a, b):
                o.param_groups[0]["lr"] *= 0.7
        with jg.assert_no_compile() if i >= 3 else contextlib.nullcontext():
            got = compiled(a, mine, factor)
        # contraction (one rounding for a * b + c) grows where Adafactor and Rprop divide
        np.testing.assert_allclose(got.numpy(), step(b, theirs, factor).numpy(), rtol=1e-9)
    assert_equal_paths([[q.detach().numpy() for q in mine]], [[q.detach().numpy() for q in theirs]], 1e-9)


def matrix_problem(lib):
    w = lib.tensor(array((6, 4), 3, "f4"), requires_grad=True)
    goal = lib.tensor(array((6, 4), 4, "f4"))
    return w, lambda: ((w - goal) ** 2).sum()


@pytest.mark.parametrize("options", [{}, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}])
def test_muon(options):
    paths = []
    for lib in (jg, torch):
        w, loss = matrix_problem(lib)
        optimizer = lib.optim.Muon([w], lr=0.1, **options)
        for _ in range(5):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        paths.append(w.detach().numpy())
    np.testing.assert_allclose(*paths, rtol=0.05, atol=0.05)  # the iteration runs in bfloat16, of 8 bits
    with pytest.raises(ValueError, match="only supports 2D"):
        jg.optim.Muon([jg.zeros(3, requires_grad=True)])


@pytest.mark.parametrize("options", [{}, {"line_search_fn": "strong_wolfe"}, {"history_size": 2, "lr": 0.5}])
def test_lbfgs(options):
    paths = []
    for lib in (jg, torch):
        p = [lib.tensor(x, requires_grad=True, dtype=lib.float64) for x in ([-1.2, 1.0], [0.5, -0.5, 2.0])]
        optimizer = lib.optim.LBFGS(p, max_iter=6, **options)

        def closure(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            x, y = p[0]
            loss = (1 - x) ** 2 + 10 * (y - x * x) ** 2 + ((p[1] - 1) ** 4).sum()
            loss.backward()
            return loss

        losses = [float(optimizer.step(closure).detach()) for _ in range(4)]
        state = optimizer.state_dict()["state"][0]
        paths.append([losses, *[q.detach().numpy() for q in p], state["func_evals"], state["n_iter"]])
    for got, want in zip(*paths, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


def test_sparse_adam_refuses_dense_gradients():
    w = jg.zeros(3, requires_grad=True)
    optimizer = jg.optim.SparseAdam([w])
    optimizer.step()
    w.sum().backward()
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optimizer.step()


@pytest.mark.parametrize("text", ["SGD(p, lr=0.1, momentum=0.9)", "Adam(p, lr=0.1, amsgrad=True)"])
@pytest.mark.parametrize("how", ["state_dict", "pickle", "deepcopy"])
def test_going_on_from_a_saved_state(text, how):
    p, q = parameters(jg), parameters(jg)
    a, b = make(jg, text, p), make(jg, text, q)
    whole = train(jg, a, p, 8)
    train(jg, b, q, 4)
    if how == "state_dict":
        q = [jg.tensor(x.detach().numpy(), requires_grad=True) for x in q]
        state = b.state_dict()
        b = make(jg, text, q)
        b.load_state_dict(state)
    else:
        q, b = pickle.loads(pickle.dumps((q, b))) if how == "pickle" else copy.deepcopy((q, b))
        assert b.param_groups[0]["params"][0] is q[0]
    assert_equal_paths(train(jg, b, q, 4, start=4), whole[4:], 1e-12)


def test_hooks_of_saving_and_loading():
    p = jg.ones(2, requires_grad=True)
    optimizer, log = jg.optim.SGD([p], lr=0.5), []
    handles = [
        optimizer.register_state_dict_pre_hook(lambda o: log.append("saving")),
        optimizer.register_state_dict_post_hook(lambda o, state: state.update(version=1)),
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "first": True}, prepend=True),
        optimizer.register_load_state_dict_pre_hook(lambda o, state: state.pop("version") and None),
        optimizer.register_load_state_dict_pre_hook(
            lambda o, state: {**state, "param_groups": [{**g, "lr": 2.0} for g in state["param_groups"]]}
        ),
        optimizer.register_load_state_dict_post_hook(lambda o: log.append(o.param_groups[0]["lr"])),
    ]
    saved = optimizer.state_dict()
    assert saved["version"] == 1 and saved["first"] and log == ["saving"]
    optimizer.load_state_dict(saved)
    assert log == ["saving", 2.0] and saved["version"] == 1 and saved["param_groups"][0]["lr"] == 0.5
    for handle in handles:
        handle.remove()
    assert set(optimizer.state_dict()) == {"state", "param_groups"} and log == ["saving", 2.0]


def test_closure_and_hooks():
    p = parameters(jg)
    optimizer = jg.optim.SGD(p, lr=0.1)
    log = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: log.append("after"))

    def closure():
        optimizer.zero_grad()
        loss = (p[0] ** 2).sum()
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    handle.remove()
    assert optimizer.step(closure).item() < first
    assert log == ["before", "after", "before"]


def test_zero_grad():
    p = parameters(jg)
    optimizer = jg.optim.SGD(p, lr=0.1)
    (p[0] ** 2).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert not p[0].grad.any() and p[1].grad is None
    optimizer.zero_grad()
    assert p[0].grad is None


def test_adding_a_group():
    p = parameters(jg)
    optimizer = jg.optim.SGD(p[:1], lr=0.1)
    optimizer.add_param_group({"params": p[1], "lr": 0.2})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.2]
    for bad, error in [
        ({"params": p[0]}, ValueError),
        ({"params": {p[2]}}, TypeError),
        ({"params": [3]}, TypeError),
        ({"params": p[0] * 2}, ValueError),
        ([p[2]], TypeError),
    ]:
        with pytest.raises(error):
            optimizer.add_param_group(bad)


@pytest.mark.parametrize(
    "text",
    [
        "SGD(p, lr=-1)", "SGD(p, momentum=-1)", "SGD(p, weight_decay=-1)", "SGD(p, nesterov=True)", "SGD([])",
        "SGD(p[0])", "Adam(p, lr=-1)", "Adam(p, betas=(1.0, 0.9))", "Adam(p, eps=-1)", "AdamW(p, weight_decay=-1)",
        "SGD([{'params': p}, {'params': p[:1]}])",
    ],
)  # fmt: skip
def test_errors_are_pytorchs(text):
    with pytest.raises(Exception) as theirs:
        make(torch, text, parameters(torch))
    with pytest.raises(type(theirs.value)):
        make(jg, text, parameters(jg))


def test_state_that_does_not_fit():
    p = parameters(jg)
    a, b = jg.optim.SGD(p, lr=0.1), jg.optim.SGD(p[:1], lr=0.1)
    with pytest.raises(ValueError, match="doesn't match the size"):
        b.load_state_dict(a.state_dict())
    b.add_param_group({"params": p[1:]})
    with pytest.raises(ValueError, match="different number"):
        b.load_state_dict(a.state_dict())


COUNTED = {
    "momentum switched off": lambda o: o.param_groups[0].update(momentum=0),
    "nesterov": lambda o: o.param_groups[0].update(nesterov=True),
    "weight decay switched on": lambda o: o.param_groups[0].__setitem__("weight_decay", 0.1),
    "new group": lambda o: o.add_param_group({"params": jg.zeros(1, requires_grad=True)}),
    "state": lambda o: o.load_state_dict(o.state_dict()),
    "state entry": lambda o: o.state[o.param_groups[0]["params"][0]].update(momentum_buffer=jg.zeros(3, 4)),
    "hook": lambda o: o.register_step_pre_hook(lambda *a: None),
}


@pytest.mark.parametrize("change", COUNTED)
def test_changes_that_count(change):
    p = parameters(jg)
    optimizer = jg.optim.SGD(p, lr=0.1, momentum=0.9)
    train(jg, optimizer, p, 2)
    before = optimizer._epoch
    COUNTED[change](optimizer)
    assert optimizer._epoch != before


def test_changes_that_do_not_count():
    p = parameters(jg)
    optimizer = jg.optim.SGD(p, lr=0.1, momentum=0.9)
    scheduler = jg.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    train(jg, optimizer, p, 2)
    before = optimizer._epoch
    optimizer.param_groups[0]["lr"] = 0.3
    optimizer.param_groups[0]["momentum"] = 0.8
    optimizer.param_groups[0]["nesterov"] = False
    scheduler.step()
    train(jg, optimizer, p, 2)
    assert optimizer._epoch == before


def test_every_option_of_an_unknown_optimizer_counts():
    class Plain(jg.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @jg.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p -= group["lr"] * p.grad

    p = parameters(jg)
    optimizer = Plain(p, 0.1)
    before = optimizer._epoch
    optimizer.param_groups[0]["lr"] = 0.2
    assert optimizer._epoch != before
