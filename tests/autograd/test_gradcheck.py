"""gradcheck and gradgradcheck: what they pass, and what each of their checks finds."""

import numpy as np
import pytest

import jitgrad as jg

gradcheck, gradgradcheck = jg.autograd.gradcheck, jg.autograd.gradgradcheck
GradcheckError = jg.autograd.GradcheckError
FAST = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def leaf(*shape, dtype=jg.float64, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, shape)
    if dtype.is_complex:
        values = values + 1j * rng.uniform(0.5, 1.5, shape)
    return jg.tensor(values, dtype=dtype).requires_grad_()


def function(backward, forward=lambda x: x * x):
    """A custom function whose gradient is `backward(x, g)`."""

    class Custom(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(ctx.saved_tensors[0], g)

    return Custom.apply


GOOD = {
    "one result": (lambda x, y: (x @ y).tanh(), [leaf(2, 3), leaf(3, 2, seed=1)]),
    "several results": (lambda x: (x.exp(), x.detach(), (x * x).sum(), 3 * x), [leaf(3)]),
    "0-d": (lambda x: x.sin(), [leaf()]),
    "empty": (lambda x: x.exp(), [leaf(0, 2)]),
    "other arguments": (lambda x, k, flag: x[k] * (2 if flag else 3), [leaf(4), jg.tensor([0, 2]), True]),
    "complex to complex": (lambda x: x * x.exp(), [leaf(3, dtype=jg.complex128)]),
    "complex to real": (lambda x: x.abs(), [leaf(3, dtype=jg.complex128)]),
    "real to complex": (lambda x: jg.complex(x, x * x), [leaf(3)]),
    "conjugate": (lambda x, y: x.conj() * y, [leaf(2, dtype=jg.complex128), leaf(2, seed=1)]),
    "no gradient": (lambda x: (x > 0).double(), [leaf(3)]),
    "not contiguous": (lambda x: x.exp(), [leaf(3, 2).detach().t().requires_grad_()]),
}


@FAST
@pytest.mark.parametrize("name", GOOD)
def test_right_gradients_pass(name, fast):
    f, inputs = GOOD[name]
    before = [t.detach().clone() if isinstance(t, jg.Tensor) else t for t in inputs]
    assert gradcheck(f, inputs, fast_mode=fast, check_grad_dtypes=True)
    if name != "no gradient":
        assert gradgradcheck(f, inputs, fast_mode=fast)
    for t, old in zip(inputs, before, strict=True):
        if isinstance(t, jg.Tensor):
            np.testing.assert_array_equal(t.detach().numpy(), old.numpy())


@pytest.mark.parametrize("name", ["one result", "several results", "0-d", "not contiguous"])
def test_batched_gradients_and_forward_mode(name):
    f, inputs = GOOD[name]
    assert gradcheck(f, inputs, check_batched_grad=True)
    if name != "several results":
        assert gradcheck(f, inputs, check_forward_ad=True)
        assert gradcheck(f, inputs, check_forward_ad=True, check_backward_ad=False)


def test_compiled_functions():
    f, inputs = GOOD["one result"]
    compiled = jg.compile(f)
    for _ in range(2):
        assert gradcheck(compiled, inputs)
        assert gradgradcheck(compiled, inputs)


def test_wrong_values_are_shown_beside_the_right_ones():
    wrong = function(lambda x, g: 3 * x * g)
    x = jg.tensor([1.0, 2.0], dtype=jg.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch for output 0 with respect to input 0,") as caught:
        gradcheck(wrong, x)
    text = str(caught.value)
    assert text.index("numerical:tensor([[2.0") < text.index("analytical:tensor([[3.")
    assert not gradcheck(wrong, x, raise_exception=False)
    with pytest.raises(RuntimeError, match=r"(?s)mismatch.*random projections \(fast mode\).*analytical"):
        gradcheck(wrong, x, fast_mode=True)


def test_wrong_second_derivatives():
    square = function(lambda x, g: 2 * x.detach() * g)
    assert gradcheck(square, leaf(2))
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch"):
        gradgradcheck(square, leaf(2))


def test_wrong_complex_gradients_name_the_part():
    wrong = function(lambda x, g: x * g)
    with pytest.raises(GradcheckError, match=r"While considering the \w+ part of complex outputs only, Jacobian"):
        gradcheck(wrong, leaf(2, dtype=jg.complex128))


def test_each_check_finds_what_it_is_for():
    x = leaf(2)
    state = np.random.default_rng(0)
    shaky = function(lambda x, g: 2 * x * g * (1 + 1e-9 * state.standard_normal()))
    with pytest.raises(GradcheckError, match=r"Backward is not reentrant"):
        gradcheck(shaky, x)
    assert gradcheck(shaky, x, nondet_tol=1e-6)
    with pytest.raises(GradcheckError, match=r"backward not multiplied by grad_output"):
        gradcheck(function(lambda x, g: jg.ones_like(g), forward=lambda x: x.clone()), leaf())
    with pytest.raises(GradcheckError, match=r"expected to be zero"):
        gradcheck(lambda t: t.detach() * 2, x)

    class Demanding(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if g is None or h is None:
                raise RuntimeError("both are needed")
            return 2 * g + 3 * h

    with pytest.raises(RuntimeError):
        gradcheck(Demanding.apply, x)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"at least one input tensor to require gradient"):
        gradcheck(lambda t: t, jg.ones(2))
    with pytest.warns(UserWarning, match=r"Input #0 requires gradient and is not a double precision"):
        gradcheck(lambda t: t * 2, leaf(2, dtype=jg.float32), eps=1e-2, atol=1e-2)
    with pytest.raises(RuntimeError, match=r"dimension with stride 0"):
        gradcheck(lambda t: t * 2, jg.ones(1, dtype=jg.float64).expand(3).requires_grad_())
    with pytest.raises(AssertionError, match=r"at least one of check_forward_ad or check_backward_ad"):
        gradcheck(lambda t: t, leaf(1), check_backward_ad=False)
