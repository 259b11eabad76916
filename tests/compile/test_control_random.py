"""Random numbers drawn inside `cond`, `while_loop`, `scan` and `map`: those of eager code, as many, in one graph."""

import itertools

import numpy as np
import pytest

import jitgrad as jg


def in_a_branch(x):
    before = jg.rand(2)
    y = jg.cond(x.sum() > 0, lambda x: x + jg.rand(3), lambda x: x * jg.randn(3, 4).sum() + jg.rand(1), (x,))
    return before, y, jg.rand(2)


def in_one_branch_only(x):
    y = jg.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x * jg.rand(3), (x,))
    return y, jg.rand(2)


def in_a_loop(x):
    def step(i, y):
        return i + 1, y + jg.rand(3)

    i, y = jg.while_loop(lambda i, y: y.sum() < 4, step, (jg.tensor(0), x.abs()))
    return i, y, jg.rand(2)


def in_a_condition(x):
    i, y = jg.while_loop(lambda i, y: (jg.rand(1) < 0.7) & (i < 9), lambda i, y: (i + 1, y + jg.rand(3)), (0, x))
    return i, y, jg.rand(2)


def in_a_scan_of_branches(x):
    def step(total, row):
        return jg.cond(
            row.sum() > 0, lambda r: total + r * jg.rand(3), lambda r: total - jg.rand(5).sum(), (row,)
        ), row * jg.rand(3)

    last, rows = jg.scan(step, x, jg.stack([x, -x, x, -x, -x]), reverse=True)
    return last, rows, jg.rand(2)


def in_a_loop_of_branches(x):
    def step(i, y):
        return i + 1, jg.cond(i > 2, lambda y: y + jg.rand(3), lambda y: jg.nn.functional.dropout(y, 0.5), (y,))

    return *jg.while_loop(lambda i, y: i < 5, step, (0, x)), jg.rand(2)


def in_a_map_of_branches(x):
    rows = jg.map(lambda r: jg.cond(r.sum() > 0, lambda r: r + jg.rand(3), lambda r: -r, (r,)), jg.stack([x, -x, x]))
    return rows, jg.rand(2)


def with_a_value_asked_after(x):
    y = jg.cond(x.sum() > 0, lambda x: x + jg.rand(3), lambda x: x - 1, (x,))
    if y.sum() > 4:
        y = y * jg.rand(3)
    return y, jg.rand(2)


OTHER = jg.Generator()


def with_two_generators(x):
    other = OTHER
    y = jg.cond(
        x.sum() > 0,
        lambda x: x + jg.rand(3, generator=other),
        lambda x: x - jg.rand(3) - jg.rand(3, generator=other),
        (x,),
    )
    return y, jg.rand(2), jg.rand(2, generator=other)


def with_a_gradient(x):
    x = x.clone().requires_grad_()
    y = jg.cond(x.sum() > 0, lambda x: (x * jg.rand(3)).sum(), lambda x: (x * x * jg.rand(3)).sum(), (x,))
    return jg.autograd.grad(y, x)[0], y.detach(), jg.rand(2)


FUNCTIONS = [
    in_a_branch, in_one_branch_only, in_a_loop, in_a_condition, in_a_scan_of_branches, in_a_loop_of_branches,
    in_a_map_of_branches, with_a_value_asked_after, with_two_generators, with_a_gradient,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_numbers_are_those_of_eager_code(f):
    compiled = jg.compile(f, fullgraph=f is not with_a_value_asked_after)
    for seed, scale in itertools.product(range(4), (1.0, -1.0)):
        outcomes = []
        for g in (f, compiled):
            generator = jg.manual_seed(seed)
            OTHER.manual_seed(seed + 1)
            outcomes.append(
                ([t.detach().numpy() for t in g(jg.tensor([1.0, 0.5, 0.25]) * scale)], generator.offset, jg.rand(2))
            )
        (want, end, after), (have, compiled_end, compiled_after) = outcomes
        for w, h in zip(want, have, strict=True):
            np.testing.assert_allclose(h, w, rtol=1e-5)
        assert compiled_end == end
        np.testing.assert_array_equal(after.numpy(), compiled_after.numpy())


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_where_python_runs_at_each_call():
    seen = []

    def f(x):
        y = in_one_branch_only(x)
        seen.append(y[0])
        return y[0] + jg.rand(3)

    compiled = jg.compile(f)
    for seed, scale in itertools.product(range(3), (1.0, -1.0)):
        jg.manual_seed(seed)
        want = f(jg.ones(3) * scale)
        jg.manual_seed(seed)
        np.testing.assert_allclose(compiled(jg.ones(3) * scale).numpy(), want.numpy(), rtol=1e-6)


def test_a_checkpoint_draws_the_same_again():
    def part(x):
        return jg.cond(x.sum() > 0, lambda x: x * jg.rand(3), lambda x: x * x, (x,)) * jg.rand(3)

    def f(x):
        y = jg.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
        y.sum().backward()
        return y, jg.rand(2)

    for scale in (1.0, -1.0):
        compiled = jg.compile(f)
        for seed in range(3):
            found = []
            for g in (f, compiled):
                jg.manual_seed(seed)
                x = (jg.ones(3) * scale).requires_grad_()
                found.append([t.detach().numpy() for t in (*g(x), x.grad)])
            for w, h in zip(*found, strict=True):
                np.testing.assert_allclose(h, w, rtol=1e-6)
