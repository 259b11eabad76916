"""Inputs of captured graphs are named after what they are; nodes of gradients and updates after their modules."""

import jitgrad as jg
from jitgrad import nn
from jitgrad.compiler.names import argument_names


def input_names(f):
    return [v.name for v in f.explain().specialisations[0].graph.inputs]


def test_arguments_and_captured_tensors():
    net, other = nn.Linear(3, 2), jg.ones(2)
    f = jg.compile(lambda x, more: net(x) + other + more["shift"])
    f(jg.ones(4, 3), more={"shift": jg.ones(2)})
    assert sorted(input_names(f)) == ["", "Linear.bias", "Linear.weight", "more.shift", "x"]


def test_compiled_modules():
    net = jg.compile(nn.Linear(3, 2))
    net(jg.ones(4, 3))
    graph = jg.dump.graph_of(net)
    assert [v.name for v in graph.inputs] == ["input", "Linear.weight", "Linear.bias"]


def test_a_training_step():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = jg.optim.Adam(net.parameters())

    @jg.compile
    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(jg.ones(5, 3))
    names = input_names(step)
    assert {"x", "Sequential.0.weight", "Sequential.1.running_mean", "Adam.exp_avg.Sequential.1.bias", "lr"} <= set(
        names
    )
    scopes = {n.scope for n in step.explain().specialisations[0].graph.nodes}
    assert {("Sequential", "0"), ("backward", "Sequential", "1"), ("Adam.step", "Sequential.0.weight")} <= scopes
    assert not any(s[:2] == ("backward", "Adam.step") for s in scopes)


def test_gradients_that_are_read():
    w = jg.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    f = jg.compile(lambda p: p.grad * 2)
    f(w)
    assert input_names(f) == ["p.grad"]


def test_sums_of_gradients_belong_to_where_they_flow():
    net = nn.Linear(3, 3)

    @jg.compile
    def step(x):
        y = net(x)
        (y + y.tanh() + y.exp()).sum().backward()

    step(jg.ones(2, 3))
    nodes = step.explain().specialisations[0].graph.nodes
    sums = [n for n in nodes if n.op.name == "add" and n.scope[:1] == ("backward",)]
    assert sums and all(n.scope == ("backward", "Linear") for n in sums)


def test_names_of_arguments():
    def f(a, /, b, *rest, c=0, **others):
        pass

    assert argument_names(f, (1, [2, 3], 4), {"c": 5, "z": {"k": 6}}) == ["a", "b.0", "b.1", "rest.0", "c", "z.k"]
    assert argument_names(print, (1, 2), {})[:1] in (["args.0"], ["argument.0"])
    assert argument_names("no function", (1,), {}) == ["argument.0"]


def test_names_change_no_key():
    f = jg.compile(lambda x: x * 2)
    g = jg.compile(lambda y: y * 2)
    f(jg.ones(3))
    with jg.assert_no_compile():
        g(jg.ones(3))
