"""`backward()`, hooks and custom functions inside compiled functions, on every call."""

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg

X = jg.tensor(np.linspace(-2, 3, 24, dtype="f4").reshape(4, 6))


class Cube(jg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Choosy(jg.autograd.Function):
    """Its gradient looks at values."""

    @staticmethod
    def forward(ctx, x):
        ctx.positive = bool(x.sum() > 0)
        ctx.save_for_backward(x)
        return x * 2 if ctx.positive else x * 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 if ctx.positive and g.sum() > 0 else g * 3 * x.sign()


def weights():
    return jg.tensor(np.linspace(0.5, 1, 6, dtype="f4"), requires_grad=True)


def test_backward_on_both_sides_of_a_value():
    def program(compile):
        w, v = weights(), weights()

        @compile
        def f(x):
            loss = ((x * w).tanh() ** 2).mean()
            loss.backward()
            if w.grad.norm() > 0.3:
                (v * w.grad).sum().backward()
            return loss.detach(), w.grad * 2

        for k in range(8):
            yield f(X * (0.1 + k % 3)), w.grad, v.grad
            if k == 4:
                w.grad = None

    agree(program)


def test_gradients_of_gradients_with_values_between():
    def program(compile):
        w = weights()

        @compile
        def f(x):
            loss = ((x * w) ** 3).mean()
            (g,) = jg.autograd.grad(loss, w, create_graph=True)
            penalty = g.pow(2).sum() if g.sum() > 1 else g.abs().sum()
            (h,) = jg.autograd.grad(penalty, w)
            return loss, g.detach(), h

        for k in range(6):
            yield f(X * (k % 3) * 0.5)[1:]

    agree(program)


@pytest.mark.parametrize("function", [Cube, Choosy])
def test_custom_functions(function):
    def program(compile):
        w = weights()

        @compile
        def inside(x):
            loss = function.apply(x * w).sum()
            (g,) = jg.autograd.grad(loss, w)
            return loss.detach(), g

        @compile
        def through(x):
            return function.apply(x * w).tanh() * w

        for k in range(6):
            x = X * (1 if k % 2 else -1)
            yield inside(x)
            (g,) = jg.autograd.grad(through(x).sum(), w)
            yield g

    agree(program)


def test_hooks():
    def program(compile):
        w, seen, scale = weights(), [], [1.0]

        def hook(g):
            seen.append(g.sum().item())
            return g * scale[0] if g.sum() > 0 else -g

        w.register_hook(hook)

        @compile
        def inside(x):
            y = (x * w).tanh()
            y.register_hook(lambda g: g * 2)
            y.retain_grad()
            y.sum().backward()
            return y.grad * 1

        @compile
        def through(x):
            y = x * w
            y.register_hook(lambda g: g.clamp(max=0.5))
            return y.exp()

        for k in range(8):
            scale[0] = 1.0 + k // 4
            yield inside(X * 0.5), w.grad, seen
            w.grad = None
            through(X * 0.3).sum().backward()
            yield w.grad, seen

    agree(program)


def test_a_step_of_lbfgs():
    def program(compile):
        w = weights().detach().double().requires_grad_()  # its line search magnifies rounding
        optimizer = jg.optim.LBFGS([w], lr=0.5, max_iter=4)

        def closure():
            optimizer.zero_grad()
            loss = ((X.double() * w).tanh() ** 2).mean()
            loss.backward()
            return loss

        step = compile(lambda: optimizer.step(closure))
        for _ in range(4):
            yield step(), w

    agree(program)


def test_a_module_with_a_gradient_of_its_own():
    def program(compile):
        class Energy(jg.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = jg.nn.Linear(6, 1)
                with jg.no_grad():
                    self.fc.weight.copy_(jg.linspace(-1, 1, 6).reshape(1, 6))
                    self.fc.bias.zero_()

            def forward(self, x):
                x = x.detach().requires_grad_()
                energy = self.fc(x.tanh()).pow(2).sum()
                (force,) = jg.autograd.grad(energy, x, create_graph=True)
                return energy, force if energy > 1 else -force

        net = compile(Energy())
        for k in range(6):
            energy, force = net(X * (0.2 + k % 2))
            force.pow(2).sum().backward()
            yield energy, force, net.fc.weight.grad

    agree(program)


@pytest.mark.parametrize("allow_unused", [False, True])
def test_a_gradient_that_is_used_up_is_refused(allow_unused):
    def f(x, w):
        y = (x * x * w).sum()
        return y, jg.autograd.grad(y, x)[0]

    for g in (f, jg.compile(f)):
        for _ in range(3):
            x, w = (jg.ones(3).requires_grad_() for _ in range(2))
            y, _ = g(x, w)
            for target in (x, w):
                with pytest.raises(RuntimeError, match="second time"):
                    jg.autograd.grad(y, target, allow_unused=allow_unused)
            with pytest.raises(RuntimeError, match="second time"):
                y.backward()
