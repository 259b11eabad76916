"""`cond`, `while_loop`, `scan` and `map`: compiled as one op, they are what they are in plain Python."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiler import assert_no_compile
from jitgrad.errors import CompileError

W = jg.tensor(np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32), requires_grad=True)


def close(a, b):
    """Equal but for rounding (BLAS and vector mathematics against NumPy's), with equal flags; None stands for zero."""
    if a is None or b is None:
        return all(x is None or not np.any(x.detach().numpy()) for x in (a, b))
    x, y = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5 * (1 + np.abs(y).max()))
    return a.requires_grad == b.requires_grad and a.dtype == b.dtype


def agree(f, *arguments, wrt=(), calls=3):
    """Eager and compiled results and gradients of first and second order, on several calls."""
    compiled = jg.compile(f, fullgraph=True)
    for _ in range(calls):
        found = []
        for run in (f, compiled):
            results = jg.pytree.flatten(run(*arguments))[0]
            total = sum((r.double() ** 2).sum() for r in results if r.requires_grad)
            grads = jg.autograd.grad(total, wrt, create_graph=True, allow_unused=True) if wrt else ()
            again = sum((g**2).sum() for g in grads if g is not None and g.requires_grad)
            second = jg.autograd.grad(again, wrt, allow_unused=True) if wrt and isinstance(again, jg.Tensor) else ()
            found.append([*results, *grads, *second])
        assert all(close(a, b) for a, b in zip(*found, strict=True))
    return compiled


def cell(h, x):
    h = jg.tanh(x + h @ W)
    return h, (h * 2, h.sum())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(5, 2, 3), (4, 300, 3)])
def test_scan(reverse, shape):
    h, xs = jg.randn(*shape[1:], requires_grad=True), jg.randn(*shape, requires_grad=True)
    agree(lambda h, xs: jg.scan(cell, h, xs, reverse=reverse), h, xs, wrt=[h, xs, W])


def test_scan_over_another_dimension_with_containers():
    def step(carry, x):
        total = carry["total"] + x["a"] * x["b"].sum()
        return {"total": total}, [total, x["a"]]

    a, b = jg.randn(3, 6, requires_grad=True), jg.randn(2, 6, 3)
    agree(lambda a, b: jg.scan(step, {"total": jg.zeros(3)}, {"a": a, "b": b}, dim=1), a, b, wrt=[a])


def test_scan_by_length_and_without_stacks():
    def f(x):
        return jg.scan(lambda c, _: (c * x, None), jg.ones(2), length=5)

    x = jg.tensor([1.5, 0.5], requires_grad=True)
    last, stacks = f(x)
    assert stacks is None and last.tolist() == [1.5**5, 0.5**5]
    compiled = jg.compile(f, fullgraph=True)
    assert all(compiled(x)[1] is None for _ in range(2))
    agree(lambda x: f(x)[0], x, wrt=[x])


def test_a_new_length_compiles_nothing():
    compiled = jg.compile(lambda h, xs: jg.scan(cell, h, xs)[0], fullgraph=True)
    h = jg.randn(2, 3)
    for length in (4, 5):
        compiled(h, jg.randn(length, 2, 3))
    with assert_no_compile():
        compiled(h, jg.randn(11, 2, 3))


@pytest.mark.parametrize("start", [1.0, 2.0, 60.0])  # an odd and an even number of steps, and none
def test_while_loop(start):
    def f(x, y):
        return jg.while_loop(lambda i, x: (x.sum() < 50) & (i < 20), lambda i, x: (i + 1, x * y + 0.1), (0, x))

    x, y = jg.tensor([1.0, start], requires_grad=True), jg.tensor([1.5, 1.2], requires_grad=True)
    agree(f, x, y, wrt=[x, y] if start < 50 else [x])


def test_while_loop_of_one_tensor():
    f = jg.compile(lambda x: jg.while_loop(lambda x: x < 100, lambda x: x * 3, x), fullgraph=True)
    assert [f(jg.tensor(n)).item() for n in (1, 2, 500)] == [243, 162, 500]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond(sign):
    def f(x, y):
        return jg.cond(x.sum() > 0, lambda x: (x * W.sum(), x), lambda x: (jg.sin(x) + y, x * 2), (x,))

    x, y = jg.tensor([sign, 2 * sign, 3.0 * sign], requires_grad=True), jg.randn(3, requires_grad=True)
    agree(f, x, y, wrt=[x, y, W])


def test_cond_of_a_python_bool_and_of_operands_one_by_one():
    assert jg.cond(True, lambda x, y: x + y, lambda x, y: x - y, jg.tensor(5), jg.tensor(3)).item() == 8
    assert jg.cond(jg.tensor([0]), lambda: 1.0, lambda: 2.0).item() == 2.0


def test_map():
    x, y = jg.randn(4, 3, requires_grad=True), jg.randn(3, requires_grad=True)
    agree(lambda x, y: jg.map(lambda r, s: (r * s).sum(), x, y), x, y, wrt=[x, y])


def test_nested():
    def row(total, x):
        kept, ys = jg.scan(lambda c, e: (c + e * e, c), total, x)
        picked = jg.cond(kept.sum() > 3, lambda k: k * 0.5, lambda k: k + 1, (kept,))
        return picked, ys

    x = jg.randn(5, 4, 2, requires_grad=True)
    agree(lambda x: jg.scan(row, jg.zeros(2), x), x, wrt=[x])


def test_random_numbers_are_those_of_eager_code():
    def f(x):
        def step(c, x):
            return c + jg.rand(3), jg.nn.functional.dropout(x, 0.5)

        return *jg.scan(step, jg.zeros(3), x), *jg.scan(step, jg.zeros(3), x, reverse=True), jg.rand(2)

    compiled, x = jg.compile(f, fullgraph=True), jg.ones(4, 3)
    for seed in (1, 2):
        found = []
        for run in (f, compiled):
            jg.manual_seed(seed)
            found.append([*run(x), *run(x)])
        assert all(close(a, b) for a, b in zip(*found, strict=True))


def test_a_whole_step():
    def step(h, xs):
        W.grad = None
        last, (a, _) = jg.scan(cell, h, xs)
        loss = (last**2).sum() + a.sum()
        loss.backward()
        return loss.detach()

    compiled, h, xs = jg.compile(step, fullgraph=True), jg.randn(2, 3), jg.randn(5, 2, 3)
    for _ in range(3):
        want, grad = step(h, xs), W.grad.clone()
        assert close(want, compiled(h, xs)) and close(grad, W.grad)
    W.grad = None


def test_what_is_detached_gets_no_gradient():
    def step(c, x):
        with jg.no_grad():
            seen = c * 2
        return c + x * seen.detach(), seen

    x = jg.randn(4, 2, requires_grad=True)
    compiled = agree(lambda x: jg.scan(step, jg.ones(2), x), x, wrt=[x])
    assert not compiled(x)[1].requires_grad


def test_gradients_inside_a_step():
    def descend(p, x):
        (g,) = jg.autograd.grad(((p * x) ** 2).sum(), p)
        return p - 0.1 * g, g

    p, x = jg.randn(3, requires_grad=True), jg.randn(5, 3)
    compiled = jg.compile(lambda p, x: jg.scan(descend, p, x), fullgraph=True)
    for _ in range(2):
        for a, b in zip(compiled(p, x), jg.scan(descend, p, x), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)


STEPS = {
    "a number": lambda c, x: (c + float(x.sum()), x),
    "a branch of Python": lambda c, x: (c + x if x.sum() > 0 else c - x, x),
    "a write": lambda c, x: (c.add_(x), x.clone()),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", STEPS)
def test_what_no_graph_holds_runs_as_python(name):
    def f(x):
        return jg.scan(STEPS[name], jg.zeros(2), x)

    x = jg.randn(4, 2)
    compiled = jg.compile(f)
    for _ in range(3):
        for a, b in zip(compiled(x), f(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    with pytest.raises(CompileError):
        jg.compile(f, fullgraph=True)(x)


def test_a_step_may_not_keep_a_tensor():
    kept = []

    def step(c, x):
        kept.append(c * 1)
        return c + x, c

    with pytest.raises(RuntimeError, match="keeps a tensor"):
        jg.compile(lambda x: jg.scan(step, jg.zeros(2), x)[0])(jg.ones(3, 2))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_numbers_in_a_branch():
    def f(x):
        return jg.cond(x.sum() > 0, lambda x: x + jg.rand(2), lambda x: x, (x,)), jg.rand(2)

    compiled = jg.compile(f)
    for value in (1.0, -1.0, 1.0):
        found = []
        for run in (f, compiled):
            jg.manual_seed(3)
            found.append(run(jg.full((2,), value)))
        assert all(close(a, b) for a, b in zip(*found, strict=True))


ERRORS = {
    "carry 0 is": lambda x: jg.scan(lambda c, x: (jg.cat([c, x]), x), jg.zeros(2), x),
    "must have the structure": lambda x: jg.scan(lambda c, x: ((c, c), x), jg.zeros(2), x),
    "must give a pair": lambda x: jg.scan(lambda c, x: c, jg.zeros(2), x),
    "xs have no dimension 2": lambda x: jg.scan(lambda c, x: (c, x), jg.zeros(2), x, dim=2),
    "xs differ in length": lambda x: jg.scan(lambda c, x: (c, x[0]), jg.zeros(2), (x, x[1:])),
    "a function is needed": lambda x: jg.map(3, x),
    "must be tensors or numbers": lambda x: jg.while_loop(lambda a: a < 3, lambda a: (a,), ("text",)),
    "single-element tensor": lambda x: jg.while_loop(lambda a: a < 3, lambda a: (a,), (x,)),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors_are_the_same_in_both(message):
    for run in (ERRORS[message], jg.compile(ERRORS[message])):
        with pytest.raises(RuntimeError, match=message):
            run(jg.randn(3, 2))


def test_an_error_in_a_branch_leaves_everything_usable():
    def f(x):
        return jg.cond(x.sum() > 0, lambda x: x, lambda x: x[:1], (x,))

    compiled = jg.compile(f)
    with pytest.raises(RuntimeError, match="value 0 is"):
        compiled(jg.ones(3))
    assert jg.ones(2).add(1).tolist() == [2, 2]
    good = jg.compile(lambda x: jg.cond(x.sum() > 0, lambda x: x, lambda x: -x, (x,)))
    assert good(jg.tensor([-1.0])).item() == 1.0
