"""What custom functions may give as gradients."""

import re

import pytest

import jitgrad as jg


def doubled(gradient):
    """A function whose gradient is `gradient(g)`."""

    class Doubled(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return gradient(g)

    return Doubled.apply


def test_a_gradient_that_the_input_broadcasts_to_is_summed():
    for shape, wanted in (((1, 3), [[4.0, 4.0, 4.0]]), ((3,), [4.0, 4.0, 4.0]), ((), 12.0)):
        x = jg.ones(shape, requires_grad=True)
        doubled(lambda g: jg.full((2, 3), 2.0))(x).sum().backward()
        assert x.grad.tolist() == wanted


def test_a_gradient_of_another_dtype_is_converted():
    x = jg.ones(2, requires_grad=True)
    doubled(lambda g: g.double() * 2)(x).sum().backward()
    assert x.grad.dtype is jg.float32 and x.grad.tolist() == [2.0, 2.0]


def test_a_gradient_of_a_wrong_shape_is_an_error():
    message = "DoubledBackward returned an invalid gradient at index 0 - got [5] but expected shape compatible with [2]"
    with pytest.raises(RuntimeError, match=re.escape(message)):
        doubled(lambda g: jg.ones(5))(jg.ones(2, requires_grad=True)).sum().backward()


def test_a_gradient_that_is_no_tensor_is_an_error():
    with pytest.raises(TypeError, match="gradient 0 of DoubledBackward"):
        doubled(lambda g: 2.0)(jg.ones(2, requires_grad=True)).sum().backward()


def test_the_penalty_on_a_gradient_as_scripts_write_it():
    x = jg.ones(4, 2, requires_grad=True)
    score = (x**3).sum(1)
    (g,) = jg.autograd.grad(
        outputs=score, inputs=x, grad_outputs=jg.ones_like(score), create_graph=True, retain_graph=True,
        only_inputs=True,
    )  # fmt: skip
    ((g.norm(2, dim=1) - 1) ** 2).mean().backward()
    assert x.grad.shape == (4, 2)


def test_a_function_that_saves_tensors_is_gone_through_once():
    class Square(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = jg.ones(2, requires_grad=True)
    y, z = Square.apply(x).sum(), doubled(lambda g: g * 2)(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    z.backward()
    z.backward()
    assert x.grad.tolist() == [6.0, 6.0]
