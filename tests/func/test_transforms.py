"""`grad`, `vjp`, `jvp`, Jacobians and their older forms: arguments, structures, errors."""

import numpy as np
import pytest

import jitgrad as jg
import jitgrad.autograd.forward_ad as forward_ad
from jitgrad import func
from jitgrad.autograd import functional

X = jg.tensor([1.0, 2.0])


def close(have, want):
    np.testing.assert_allclose(have.numpy(), want, rtol=1e-6)


def test_arguments_and_structures():
    f = lambda a, b, *, c: (a["x"] * b[0] * c).sum() + b[1].sum()  # noqa: E731
    args = {"x": X}, (2 * X, X)
    close(func.grad(f)(*args, c=3)["x"], [6, 12])
    g = func.grad(f, argnums=1)(*args, c=3)
    assert isinstance(g, tuple)
    close(g[0], [3, 6])
    a, b = func.grad(f, argnums=(0, -1))(*args, c=3)
    close(a["x"], [6, 12])
    close(b[1], [1, 1])
    (only,) = func.grad(f, argnums=(0,))(*args, c=3)
    close(only["x"], [6, 12])


def test_aux():
    f = lambda x: ((x * x).sum(), {"twice": 2 * x, "n": 3})  # noqa: E731
    g, aux = func.grad(f, has_aux=True)(X)
    close(g, [2, 4])
    close(aux["twice"], [2, 4])
    assert aux["n"] == 3 and not aux["twice"].requires_grad
    g, (value, aux) = func.grad_and_value(f, has_aux=True)(X)
    assert value.item() == 5
    (value, aux), g = func.value_and_grad(f, has_aux=True)(X)
    assert value.item() == 5 and not value.requires_grad
    value, pull, aux = func.vjp(lambda x: (x * x, 3 * x), X, has_aux=True)
    close(pull(X)[0], [2, 8])
    close(aux, [3, 6])
    value, moved, aux = func.jvp(lambda x: (x * x, 3 * x), (X,), (X,), has_aux=True)
    close(moved, [2, 8])
    close(aux, [3, 6])
    j, aux = func.jacrev(lambda x: (x * x, 3 * x), has_aux=True)(X)
    close(aux, [3, 6])
    j, aux = func.jacfwd(lambda x: (x * x, 3 * x), has_aux=True)(X)
    close(j, np.diag([2.0, 4]))
    close(aux, [3, 6])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: func.grad(lambda x: x)(X), RuntimeError, "return a scalar Tensor, got tensor with 1 dims"),
        (lambda: func.grad(lambda x: 3.0)(X), RuntimeError, "return a Tensor, got"),
        (
            lambda: func.grad(lambda x: x.sum(), argnums=1)(X),
            RuntimeError,
            "Got argnum=1, but only 1 positional inputs",
        ),
        (lambda: func.grad(lambda x: x.sum(), argnums=(0, 0))(X), RuntimeError, "must be unique"),
        (lambda: func.grad(lambda x: x.sum(), argnums="a")(X), RuntimeError, "argnums must be int"),
        (lambda: func.grad(lambda x: x.sum(), argnums=())(X), RuntimeError, "non-empty"),
        (lambda: func.grad(lambda x: x.sum())(jg.tensor([1, 2])), RuntimeError, "can require gradients"),
        (lambda: func.grad(lambda x: x.sum(), has_aux=True)(X), RuntimeError, "should be a tuple"),
        (lambda: func.grad(lambda d: d["a"].sum())({"a": X, "n": 3}), ValueError, "must be Tensor"),
        (lambda: func.grad(lambda x: x.mul_(2).sum())(X), RuntimeError, "leaf Variable"),
        (lambda: func.vjp(lambda x: 3, X), RuntimeError, "return only tensors"),
        (lambda: func.vjp(lambda x: (x, x), X)[1](X), RuntimeError, "structure of cotangents"),
        (lambda: func.jvp(lambda x: x, X, X), RuntimeError, "Expected primals to be a tuple"),
        (lambda: func.jvp(lambda x: x, (X,), (X, X)), RuntimeError, "same python structure"),
        (lambda: func.jvp(lambda x: x, (X,), (X[:1],)), RuntimeError, "different size"),
        (lambda: func.jvp(lambda x: 3, (X,), (X,)), RuntimeError, "return only tensors"),
        (lambda: func.jvp(lambda x: X, (X,), (X,), strict=True), RuntimeError, "independent"),
        (lambda: func.jacrev(lambda x: 3)(X), RuntimeError, "return only tensors"),
        (lambda: func.jacrev(lambda x: x, chunk_size=0), ValueError, "greater than 0"),
        (lambda: func.grad(lambda x: x.sum().backward())(X), RuntimeError, "inside a functional transform"),
        (lambda: func.functionalize(lambda x: x, remove="all"), RuntimeError, "remove"),
        (lambda: func.functional_call(jg.nn.Linear(2, 2), [{"weight": X}, {"weight": X}], X), ValueError, "ambiguous"),
        (lambda: func.functional_call(jg.nn.Linear(2, 2), 3, X), ValueError, "dict"),
        (lambda: func.stack_module_state([]), RuntimeError, "at least one model"),
        (lambda: func.stack_module_state([jg.nn.Linear(2, 2), jg.nn.Tanh()]), RuntimeError, "same class"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
    close(func.grad(lambda x: (x * x).sum())(X), [2, 4])


def test_without_influence():
    close(func.grad(lambda x: jg.ones(()))(X), [0, 0])
    close(func.vjp(lambda x: jg.ones(2), X)[1](X)[0], [0, 0])
    close(func.jvp(lambda x: jg.ones(2), (X,), (X,))[1], [0, 0])
    close(func.jacrev(lambda x: jg.ones(3))(X), np.zeros((3, 2)))
    close(func.jacfwd(lambda x: jg.ones(3))(X), np.zeros((3, 2)))


def test_jacobians_of_trees():
    f = lambda d, y: {"a": d["x"] * y.sum(), "b": (d["x"] @ d["x"]).reshape(1, 1)}  # noqa: E731
    for transform in (func.jacrev, func.jacfwd):
        j = transform(f)({"x": X}, X)
        close(j["a"]["x"], 3 * np.eye(2))
        close(j["b"]["x"], [[[2, 4]]])
        j = transform(f, argnums=(0, 1))({"x": X}, X)
        close(j["a"][1], [[1, 1], [2, 2]])
        assert j["b"][0]["x"].shape == (1, 1, 2)
    close(func.jacrev(lambda x: x * x, chunk_size=1)(X), np.diag([2.0, 4]))
    close(func.jacfwd(lambda x: x * x, chunk_size=1)(X), np.diag([2.0, 4]))
    h = func.hessian(lambda a, b: (a * b).sum() * a.sum(), argnums=(0, 1))(X, X)
    assert len(h) == 2 and len(h[0]) == 2
    close(h[0][0], [[2, 3], [3, 4]])


def test_linearize():
    calls = []

    def f(x, y):
        calls.append(1)
        return {"out": x * y}

    value, push = func.linearize(f, X, 3 * X)
    close(value["out"], [3, 12])
    close(push(X, jg.zeros(2))["out"], [3, 12])
    close(push(jg.zeros(2), X)["out"], [1, 4])
    close(jg.vmap(lambda t: push(t, t)["out"])(jg.eye(2)), np.diag([4.0, 8]))
    assert len(calls) == 1


def test_writes():
    def f(x):
        b = jg.zeros(2)
        b[0] = x[0] ** 2
        view = b[1:]
        view.add_(x[1] * x[0])
        b *= 2
        return b

    want = [[4, 0], [4, 2]]
    close(func.jacrev(f)(X), want)
    close(func.jacfwd(f)(X), want)
    close(func.jvp(f, (X,), (X,))[1], [4, 8])
    close(func.jacfwd(func.jacfwd(f))(X)[0], [[4, 0], [0, 0]])
    for transform in (func.jacrev, func.jacfwd):
        compiled = jg.compile(transform(f))
        close(compiled(X), want)
        close(compiled(X), want)
    close(jg.vmap(func.functionalize(lambda x: x.clone().add_(1)))(X), [2, 3])


def test_second_call_after_writes_of_the_argument():
    x = X.clone()
    _, pull = func.vjp(lambda y: y * y, x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pull(X)


def test_forward_ad():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, jg.ones(2))
        y = x.sin() * x
        tangent = forward_ad.unpack_dual(y).tangent
        close(tangent, np.cos([1, 2]) * [1, 2] + np.sin([1, 2]))
        assert forward_ad.unpack_dual(X).tangent is None
        w = jg.ones(2, requires_grad=True)
        forward_ad.unpack_dual((x * w).sum()).tangent.backward()
        close(w.grad, [1, 1])
        with pytest.raises(RuntimeError, match="Nested"), forward_ad.dual_level():
            pass
        assert forward_ad.unpack_dual(x.detach()).tangent is None
    close(y + 1, np.sin([1, 2]) * [1, 2] + 1)
    assert forward_ad.unpack_dual(y).tangent is None
    for call in (lambda: forward_ad.make_dual(X, X), forward_ad.exit_dual_level):
        with pytest.raises(RuntimeError, match="level"):
            call()


def test_older_forms():
    f = lambda x, y: (x * y.sum(), y**2)  # noqa: E731
    _, products = functional.vjp(f, (X, X), (X, X))
    close(products[0], [3, 6])
    _, products = functional.jvp(f, (X, X), (X, X))
    close(products[0], [6, 12])
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        j = functional.jacobian(f, (X, X), **options)
        close(j[0][1], [[1, 1], [2, 2]])
        close(j[1][0], np.zeros((2, 2)))
    g = lambda x: (x**3).sum()  # noqa: E731
    for options in ({}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}):
        close(functional.hessian(g, X, **options), np.diag([6.0, 12]))
    close(functional.hvp(g, X, X)[1], [6, 24])
    close(functional.vhp(g, X, X)[1], [6, 24])
    leaf = X.clone().requires_grad_()
    functional.jacobian(lambda x: x**3, leaf, create_graph=True).sum().backward()
    close(leaf.grad, [6, 12])
    assert not functional.jacobian(lambda x: x**3, leaf).requires_grad


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: functional.vjp(lambda x: x, X), RuntimeError, "v can only be None"),
        (lambda: functional.vjp(lambda x: x, X, X[:1]), RuntimeError, "v has invalid size"),
        (lambda: functional.vjp(lambda x: x, 3), TypeError, "must be either a Tensor or a tuple of Tensors"),
        (lambda: functional.vjp(lambda x: 3, X, X), TypeError, "must be either a Tensor or a tuple of Tensors"),
        (lambda: functional.vjp(lambda x: X, X, X, strict=True), RuntimeError, "does not require gradients"),
        (lambda: functional.vjp(lambda x, y: x, (X, X), X, strict=True), RuntimeError, "independent of input 1"),
        (lambda: functional.hessian(lambda x: x, X), RuntimeError, "single element"),
        (lambda: functional.jacobian(lambda x: x, X, strategy="sideways"), ValueError, "strategy"),
    ],
)
def test_older_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
