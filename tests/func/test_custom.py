"""Custom functions inside transforms: gradients are the user's, at every level."""

from typing import ClassVar

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.func import grad, jacfwd, jacrev, jvp, vmap

X = jg.tensor([1.2, 2.7, 3.1])


class Rounded(jg.autograd.Function):
    """A gradient that is not the derivative: that of x squared over two, times the number."""

    @staticmethod
    def forward(ctx, x, number):
        ctx.save_for_backward(x)
        ctx.number = number
        return x.round() * number

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * ctx.number, None


class Cube(jg.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3, 3 * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(output[1])

    @staticmethod
    def backward(ctx, g, _):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

    @staticmethod
    def jvp(ctx, t):
        (slope,) = ctx.saved_tensors
        return t * slope, t * 0


class Product(jg.autograd.Function):
    seen: ClassVar[list] = []

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * 10, g * x * 10

    @staticmethod
    def vmap(info, in_dims, x, y):
        Product.seen.append((info.batch_size, in_dims))
        return Product.apply(x, y), 0


def close(have, want):
    np.testing.assert_allclose(have.numpy(), want, rtol=1e-6)


def test_the_users_gradient_counts():
    x = X.numpy()
    close(vmap(lambda a: Rounded.apply(a, 2.0))(X), x.round() * 2)
    close(vmap(grad(lambda a: Rounded.apply(a, 2.0)))(X), 2 * x)
    close(grad(lambda v: vmap(lambda a: Rounded.apply(a, 2.0))(v).sum())(X), 2 * x)
    close(jacrev(lambda v: Rounded.apply(v, 1.0))(X), np.diag(x))
    assert not jacrev(lambda v: Rounded.apply(v, 1.0))(X).requires_grad
    w = jg.tensor(2.0, requires_grad=True)
    vmap(lambda a: Rounded.apply(a * w, 2.0))(X).sum().backward()
    close(w.grad, (x * 2 * 2 * x).sum())
    compiled = jg.compile(vmap(grad(lambda a: Rounded.apply(a, 2.0))))
    close(compiled(X), 2 * x)
    close(compiled(X), 2 * x)


def test_what_is_the_same_for_all_gets_the_sum():
    class Both(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    f = lambda v, s: vmap(lambda a: Both.apply(a, s))(v).sum()  # noqa: E731
    gx, gs = grad(f, argnums=(0, 1))(X, jg.tensor(2.0))
    close(gx, [2, 2, 2])
    close(gs, X.numpy().sum())


def test_again_and_again():
    x = X.numpy()
    close(vmap(grad(grad(lambda a: Cube.apply(a)[0])))(X), 6 * x)
    close(grad(lambda v: vmap(grad(lambda a: Cube.apply(a)[0]))(v).sum())(X), 6 * x)


def test_forward_mode():
    x = X.numpy()
    out, moved = jvp(lambda v: Cube.apply(v)[0], (X,), (X,))
    close(out, x**3)
    close(moved, 3 * x**3)
    close(jacfwd(lambda v: Cube.apply(v)[0])(X), np.diag(3 * x**2))
    close(jvp(grad(lambda v: Cube.apply(v)[0].sum()), (X,), (X,))[1], 6 * x * x)
    with pytest.raises(NotImplementedError, match="jvp function"):
        jvp(lambda v: Rounded.apply(v, 1.0), (X,), (X,))


def test_rules_for_samples():
    Product.seen.clear()
    close(vmap(lambda a: Product.apply(a, a))(X), X.numpy() ** 2)
    close(vmap(grad(lambda a: Product.apply(a, a)))(X), 20 * X.numpy())
    close(grad(lambda v: vmap(lambda a: Product.apply(a, v[0]))(v).sum())(X), [(10 * X.numpy()).sum() + 12, 12, 12])
    assert Product.seen == [(3, (0, 0)), (3, (0, 0)), (3, (0, None))]
