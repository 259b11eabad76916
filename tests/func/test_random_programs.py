"""Random programs of views, in-place operations and reads: for all samples at once as for each; in forward mode as the
transpose of reverse mode; compiled as eagerly.
"""

import random

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.func import grad, jvp, vmap

SIZE = 3


def _same(rng, t):
    """A differentiable operation that keeps the shape."""
    axis = rng.randrange(t.ndim)
    n = t.shape[axis]
    return rng.choice(
        [
            lambda x: x.tanh(),
            lambda x: x * x.sum(axis, keepdim=True),
            lambda x: x - x.mean(axis, keepdim=True),
            lambda x: x.softmax(axis),
            lambda x: x.cumsum(axis),
            lambda x: x.flip(axis) * 0.5,
            lambda x: jg.where(x > 0.1, x, x.sin()),
            lambda x: x.sort(axis)[0],
            lambda x: x.clamp(-0.7, 0.7),
            lambda x: x.index_select(axis, jg.arange(n - 1, -1, -1)),
            lambda x: x.roll(1, axis),
            lambda x: x.gather(axis, x.argsort(axis)),
            lambda x: jg.cat([x.narrow(axis, 0, 1), x.narrow(axis, 0, n - 1)], axis),
            lambda x: (x @ x.mT @ x) * 0.1 if x.ndim == 2 else x * 2,
        ]
    )


def _view(rng, t):
    """A view, which may be written to."""
    axis = rng.randrange(t.ndim)
    n = t.shape[axis]
    start = rng.randrange(n)
    choices = [
        lambda x: x.narrow(axis, start, n - start),
        lambda x: x.select(axis, start) if x.ndim > 1 else x.narrow(0, start, n - start),
        lambda x: x.mT if x.ndim == 2 else x.unsqueeze(0),
        lambda x: x.unsqueeze(axis),
        lambda x: x[..., ::2],
        lambda x: x.unfold(axis, 1, 1),
        lambda x: x.diagonal() if x.ndim == 2 else x.view(-1, 1),
    ]
    return rng.choice(choices)


def _write(rng):
    """A write of a number of its own shape, by what the source says."""
    number = rng.uniform(-1, 1)
    return rng.choice(
        [
            lambda v, s: v.mul_(number),
            lambda v, s: v.add_(s),
            lambda v, s: v.copy_(s * v.clone()),
            lambda v, s: v.fill_(number),
            lambda v, s: v.sub_(v.clone().sin() * s),
            lambda v, s: v.masked_fill_(v.clone() > number, number),
            lambda v, s: v.__setitem__(Ellipsis, s),
        ]
    )


def program(seed):
    """A function of a matrix, made of the same steps at each call."""

    def run(x):
        rng = random.Random(seed)
        tensors = [x.clone(), x * 0.5]
        for _ in range(rng.randrange(3, 9)):
            t = rng.choice(tensors)
            kind = rng.random()
            if kind < 0.4 and t.ndim:
                made = _same(rng, t)(t.clone()).clone()  # what gradients keep is not written to
            elif kind < 0.6 and t.ndim and t.ndim < 4:
                made = _view(rng, t)(t)
            else:
                _write(rng)(t, rng.choice(tensors).sum().clone() * 0.3)
                continue
            if made.numel():
                tensors.append(made)
        return sum((t.clone() * t.clone().cos()).sum() for t in tensors)

    return run


def check(seed):
    f, numbers = program(seed), np.random.default_rng(seed).uniform(-1, 1, (SIZE, 3, 4))
    x = jg.tensor(numbers)
    each = [f(row) for row in x]
    np.testing.assert_allclose(vmap(f)(x).numpy(), [v.item() for v in each], rtol=1e-9)
    gradients = jg.stack([grad(f)(row) for row in x]).numpy()
    np.testing.assert_allclose(vmap(grad(f))(x).numpy(), gradients, rtol=1e-7, atol=1e-10)
    tangent = jg.tensor(numbers[::-1].copy())
    moved = vmap(lambda a, t: jvp(f, (a,), (t,))[1])(x, tangent).numpy()
    np.testing.assert_allclose(moved, (gradients * tangent.numpy()).sum((1, 2)), rtol=1e-7, atol=1e-9)
    return x, gradients, moved, tangent


def check_compiled(seed):
    f, (x, gradients, moved, tangent) = program(seed), check(seed)
    both = jg.compile(lambda x, t: (vmap(grad(f))(x), vmap(lambda a, b: jvp(f, (a,), (b,))[1])(x, t)))
    for _ in range(2):
        g, m = both(x, tangent)
        np.testing.assert_allclose(g.numpy(), gradients, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(m.numpy(), moved, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_some(seed):
    check(seed)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_some_compiled(seed):
    check_compiled(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many(part):
    for seed in range(part * 100, part * 100 + 100):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_compiled(part):
    for seed in range(part * 20, part * 20 + 20):
        check_compiled(seed)
