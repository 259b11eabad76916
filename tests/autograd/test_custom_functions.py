"""Custom functions beside PyTorch's: the same values, gradients of both orders, arguments of backward, and errors."""

import re

import numpy as np
import pytest

import jitgrad as jg

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")


def make(lib):
    """The functions, by name, of a library."""
    Function = lib.autograd.Function
    seen = []

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    class Scaled(Function):
        @staticmethod
        def forward(x, factor, flag=None):
            return x * factor, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, factor, *_ = inputs
            ctx.save_for_backward(x)
            ctx.factor = factor

        @staticmethod
        def backward(ctx, g, h):
            seen.append((ctx.needs_input_grad, g is None, h is None))
            return g * ctx.factor + 2 * h, None, *[None] * (len(ctx.needs_input_grad) - 2)

    class Lazy(Scaled):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return (0 if g is None else g) + (0 if h is None else 2 * h), None, None

    class Mixed(Function):
        @staticmethod
        def forward(ctx, x, y):
            index = (x > 0).long()
            other = x * 3
            ctx.mark_non_differentiable(other)
            return x * y, index, "text", other

        @staticmethod
        def backward(ctx, g, *rest):
            seen.append([None if r is None else r.tolist() for r in rest])
            return g, None

    class Doubling(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    class Through(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    class Unsaveable(Exp):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x * 2

    class Undirty(Exp):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class ForNumbers(Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return g, g

    return {k: v for k, v in locals().items() if isinstance(v, type)} | {"seen": seen}


PROGRAMS = {
    "saved result": lambda L, f, x: f["Exp"].apply(x * 2),
    "setup_context": lambda L, f, x: f["Scaled"].apply(x, 3.0)[0],
    "keywords and both results": lambda L, f, x: sum(f["Scaled"].apply(x, 3.0, True)),
    "grads not made": lambda L, f, x: f["Lazy"].apply(x, 3.0)[1],
    "all kinds of results": lambda L, f, x: f["Mixed"].apply(x, L.tensor([1.0, 2.0, 3.0]))[0],
    "written in place": lambda L, f, x: f["Doubling"].apply(x * 1) * x,
    "handed through": lambda L, f, x: f["Through"].apply(x) + x,
    "within another": lambda L, f, x: f["Exp"].apply(f["Through"].apply(x)).sin(),
    "once": lambda L, f, x: f["Once"].apply(x),
}
ERRORS = {
    "leaf written": lambda L, f, x: f["Doubling"].apply(x),
    "dirty and not returned": lambda L, f, x: f["Undirty"].apply(x * 1),
    "save a number": lambda L, f, x: f["Unsaveable"].apply(x),
    "no backward": lambda L, f, x: f["NoBackward"].apply(x).sum().backward(),
    "gradient for a number": lambda L, f, x: f["ForNumbers"].apply(x, 3).sum().backward(),
    "instance called": lambda L, f, x: f["Exp"]()(x),
    "twice": lambda L, f, x: [(y := f["Exp"].apply(x).sum()).backward(), y.backward()],
    "saved and gone": lambda L, f, x: [(y := f["Exp"].apply(x)).sum().backward(), y.grad_fn.saved_tensors],
}


def outcome(lib, program, is_compiled=False):
    functions = make(lib)
    x = lib.tensor([0.5, -1.0, 2.0], requires_grad=True)

    def f(t):
        return program(lib, functions, t)

    f = jg.compile(f) if is_compiled else f
    found = []
    for _ in range(3 if is_compiled else 1):
        y = f(x)
        (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        h = lib.autograd.grad(g.sum(), x, allow_unused=True)[0] if g.requires_grad else None
        found.append([y.detach().numpy(), g.detach().numpy(), np.zeros(3) if h is None else h.numpy()])
    return found, functions["seen"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    want, calls = outcome(torch, PROGRAMS[name])
    got, ours = outcome(jg, PROGRAMS[name])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert ours == calls


@pytest.mark.filterwarnings("ignore::UserWarning")  # that functions with hooks run at each call
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compiled(name):
    want, _ = outcome(jg, PROGRAMS[name])
    got, _ = outcome(jg, PROGRAMS[name], is_compiled=True)
    np.testing.assert_allclose(got, want * 3, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    caught = []
    for lib in (torch, jg):
        with pytest.raises(Exception) as info:
            ERRORS[name](lib, make(lib), lib.tensor([0.5, -1.0], requires_grad=True))
        caught.append((type(info.value), re.split(r"[.\n(]", str(info.value))[0]))
    (their_type, theirs), (our_type, ours) = caught
    assert issubclass(our_type, their_type)
    assert ours == theirs


def test_differentiating_twice_what_is_differentiable_once():
    x = jg.ones(2, requires_grad=True)
    (g,) = jg.autograd.grad(make(jg)["Once"].apply(x).sum(), x, create_graph=True)
    assert not g.requires_grad
    scale = jg.ones(2, requires_grad=True)
    (g,) = jg.autograd.grad(make(jg)["Once"].apply(x), x, scale, create_graph=True)
    with pytest.raises(RuntimeError, match=r"marked with @once_differentiable"):
        g.sum().backward()
