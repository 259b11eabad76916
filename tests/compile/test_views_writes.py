"""Random programs of views, writes and reads: compiled and eager give the same values and gradients.

Left out are programs whose gradient eager mode refuses because a residual was overwritten: a captured graph keeps
every value.
"""

import warnings

import numpy as np
import pytest
from programs_compared import agree
from random_views import Machine, Program

import jitgrad as jg


def run(program, compiled):
    """Per call: the results' `requires_grad` and values, the leaves' gradients, and the refusal of `backward`."""
    machine = Machine(jg)
    leaves = [s for s in program.statements if "= leaf(" in s]
    rest = [s for s in program.statements if "= leaf(" not in s]
    for statement in leaves:
        exec(statement, machine.env)
    names = [n for n in machine.env if n.startswith("leaf") and n != "leaf"]

    def step(*tensors):
        env = {**dict(zip(names, tensors, strict=True)), "no_grad": machine.no_grad}
        for statement in rest:
            try:
                exec(statement, env)
            except RuntimeError:
                break
        return {n: t for n, t in env.items() if n.startswith("t")}

    call = jg.compile(step) if compiled else step
    return [_outcome(call, [machine.env[n] for n in names]) for _ in range(2)]


def _outcome(call, leaves):
    for leaf in leaves:
        leaf.grad = None
    results = call(*leaves)
    rng, total, refusal = np.random.default_rng(0), 0, None
    for t in results.values():
        total = total + (t * jg.tensor(rng.uniform(-1, 1, tuple(t.shape)), dtype=jg.float64)).sum()
    try:
        if total.requires_grad:
            total.backward()
    except RuntimeError as error:
        refusal = str(error)
    values = {n: (t.requires_grad, t.detach().numpy().copy()) for n, t in results.items()}
    return values, [None if leaf.grad is None else leaf.grad.numpy().copy() for leaf in leaves], refusal


def compare(seed):
    program = Program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = zip(run(program, False), run(program, True), strict=True)
    shown = "\n".join(program.statements)
    for (values, grads, refusal), (our_values, our_grads, our_refusal) in pairs:
        assert values.keys() == our_values.keys(), shown
        for name, (requires_grad, value) in values.items():
            assert our_values[name][0] == requires_grad, f"{shown}\n{name}.requires_grad is {our_values[name][0]}"
            np.testing.assert_allclose(our_values[name][1], value, rtol=1e-7, atol=1e-9, err_msg=f"{shown}\n{name}")
        if refusal is not None:
            continue
        assert our_refusal is None, shown
        for e, g in zip(grads, our_grads, strict=True):
            assert (e is None) == (g is None), shown
            if e is not None:
                np.testing.assert_allclose(g, e, rtol=1e-7, atol=1e-9, err_msg=shown)


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 6, 8, 9])
def test_random_programs(seed):
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 100))
def test_many_random_programs(seed):
    compare(seed)


def _gradients(f):
    found = []
    for call in (f, *[jg.compile(f)] * 2):
        x = jg.tensor([1.0, 2.0], dtype=jg.float64, requires_grad=True)
        out = call(x)
        out.backward()
        found.append((out.item(), x.grad.tolist()))
    return found


def _detached_factor(x):
    return (x.detach() * x).sum()


def _computed_without_recording(x):
    with jg.no_grad():
        y = x * 2
    return (y * x).sum()


def _overwritten_without_recording(x):
    y = x * 2
    with jg.no_grad():
        y.mul_(3)
    return (y * x).sum()


def _overwritten_through_an_alias(x):
    y = x * 2
    y.detach().mul_(3)
    return y.sum()


def _filled(x):
    y = x * 2
    y.fill_(3.0)
    return y.sum()


def _first_gradient(x):
    (g,) = jg.autograd.grad((x * x * x).sum(), x)
    return (g * x).sum()


def _second_gradient(x):
    (g,) = jg.autograd.grad((x * x * x).sum(), x, create_graph=True)
    return (g * x).sum()


def _detached_in_place(x):
    y = x * 2
    y.detach_()
    return (y * x).sum()


@pytest.mark.parametrize(
    "f",
    [
        _detached_factor, _computed_without_recording, _overwritten_without_recording, _overwritten_through_an_alias,
        _filled, _first_gradient, _second_gradient, _detached_in_place,
    ],
)  # fmt: skip
def test_gradients_stop_where_the_program_says(f):
    eager, first, second = _gradients(f)
    assert first == eager and second == eager


def test_second_gradients_stop_there_too():
    def f(x):
        return (x.detach() * x * x).sum()

    for call in (f, jg.compile(f)):
        x = jg.tensor([2.0], dtype=jg.float64, requires_grad=True)
        (g,) = jg.autograd.grad(call(x), x, create_graph=True)
        assert g.item() == 8.0  # 2 x detach(x)
        (h,) = jg.autograd.grad(g.sum(), x)
        assert h.item() == 4.0  # 2 detach(x)


class _Doubled(jg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return g * 2.0


def test_custom_functions_keep_their_gradients():
    def f(x):
        return _Doubled.apply(x).sum()

    compiled = jg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            x = jg.tensor([1.0], requires_grad=True)
            compiled(x).backward()
            assert x.grad.tolist() == [2.0]


def test_arguments_that_share_memory_are_told_from_others():
    @jg.compile
    def f(a, b):
        a.add_(1)
        return a + b

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert f(jg.zeros(2), jg.zeros(2)).tolist() == [1.0, 1.0]
        x = jg.zeros(2)
        assert f(x, x.detach()).tolist() == [2.0, 2.0]
        assert f(x[:], x).tolist() == [4.0, 4.0]
        assert f(jg.zeros(2), jg.zeros(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("at", [0, slice(0, 1), (..., 0)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: jg.zeros(1).expand(3),
        lambda: jg.zeros(2, 1).expand(2, 3),
        lambda: jg.arange(4.0).as_strided((3, 2), (1, 1)),
        lambda: jg.arange(6.0).view(2, 3).T,
    ],
)
def test_arguments_whose_elements_share_memory_are_written_as_eagerly(make, at):
    def program(compile):
        def f(x):
            x[at] = 5.0
            return x + 1

        f = compile(f)
        for _ in range(3):
            x = make()
            try:
                yield f(x), x
            except RuntimeError as error:
                yield str(error).splitlines()[0]

    agree(program)
